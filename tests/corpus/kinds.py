"""All kinds of cases: importing this module registers them."""

from __future__ import annotations

from tests.corpus import kinds_query, kinds_schema
from tests.corpus.harness import KINDS

__all__ = ["KINDS", "kinds_query", "kinds_schema"]
