"""How a line wraps an entity: the names of the members around its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from omnigraph.lang.catalog.model import EntityKind

DATA: Final = "data"
# The member that names the type, by the kind of the type.
TYPE_FIELDS: Final[Mapping[EntityKind, str]] = {"node": "type", "edge": "edge"}
# How the ends of an edge are written, and their columns.
END_FIELDS: Final[Mapping[str, str]] = {"from": "src", "to": "dst"}
