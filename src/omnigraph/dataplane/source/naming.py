"""The type of the rows of an input: by what the user says, the file says, or its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

import pyarrow as pa

from omnigraph.dataplane.source.model import TypeRef
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.source import did_you_mean

# In the metadata of an Arrow or Parquet schema; the value is `node:Person`.
TYPE_KEY: Final = b"omnigraph:type"

_KINDS: Final = ("node", "edge")
_STEM: Final = re.compile(r"[^-.]*")


def type_named(text: object, catalog: Catalog) -> TypeRef:
    """The type of a name such as `Person`, `node:Person` or `edge:Knows`.

    Raises:
        InvalidInput: There is none of this name, or there are two.
    """
    if not isinstance(text, str):
        raise InvalidInput(
            Code.INPUT_INVALID, f"a mapping leads from names of types to rows, not from {text!r}"
        )
    found = _candidates(text, catalog)
    if len(found) == 1:
        return found[0]
    if found:
        fault = f"{text!r} names a node type and an edge type: say 'node:{text}' or 'edge:{text}'"
        raise InvalidInput(Code.INPUT_INVALID, fault, type=text)
    raise InvalidInput(Code.INPUT_INVALID, _unknown(text, catalog), type=text)


def type_in_schema(schema: pa.Schema, catalog: Catalog) -> TypeRef | None:
    """The type that the metadata of a schema names; None if it names none.

    Raises:
        InvalidInput: It names one that the graph does not have.
    """
    metadata: Mapping[bytes, bytes] = schema.metadata or {}
    text = metadata.get(TYPE_KEY)
    return None if text is None else type_named(text.decode(errors="replace"), catalog)


def type_of_file(name: str, catalog: Catalog) -> TypeRef:
    """The type that the name of a file stands for, or else the name of its folder.

    The name counts up to the first `-` or `.`: `Person-00003.parquet`, `people/Person.csv`,
    `Person/part-0.parquet`.

    Raises:
        InvalidInput: Neither names exactly one type.
    """
    path = PurePosixPath(name)
    stems = [_stem(path.name), path.parent.name]
    for stem in stems:
        found = _candidates(stem, catalog)
        if len(found) == 1:
            return found[0]
    near = next((hint for stem in stems if (hint := did_you_mean(stem, _names(catalog)))), None)
    raise InvalidInput(
        Code.INPUT_INVALID,
        f"{name}: neither the name nor the folder says whose rows these are; give a mapping such"
        f' as {{"{_example(catalog)}": "{name}"}}' + (f" ({near})" if near else ""),
        file=name,
    )


def _stem(name: str) -> str:
    found = _STEM.match(name)
    return found.group() if found else ""


def _candidates(text: str, catalog: Catalog) -> list[TypeRef]:
    kind, separator, name = text.partition(":")
    if separator and kind in _KINDS:
        known = catalog.node_by_name if kind == "node" else catalog.edge_by_name
        return [TypeRef(kind=kind, name=name)] if name in known else []  # type: ignore[arg-type]
    found = []
    if text in catalog.node_by_name:
        found.append(TypeRef(kind="node", name=text))
    if text in catalog.edge_by_name:
        found.append(TypeRef(kind="edge", name=text))
    return found


def _unknown(text: str, catalog: Catalog) -> str:
    kind, separator, name = text.partition(":")
    bare = name if separator and kind in _KINDS else text
    near = did_you_mean(bare, _names(catalog))
    return f"the graph has no type {text!r}" + (f"; {near}" if near else "")


def _names(catalog: Catalog) -> list[str]:
    return [item.name for item in (*catalog.nodes, *catalog.edges)]


def _example(catalog: Catalog) -> str:
    return next(iter(_names(catalog)), "Person")
