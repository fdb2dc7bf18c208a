"""The canonical JSON of a catalog, and its digests.

Equal catalogs give equal bytes: keys are sorted, nothing optional is written, every list is in
the catalog's own order. `digest` covers everything, identity included; `shape_digest` covers
what the schema says and forgets ids and rename hints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.decode import FORMAT, read
from omnigraph.lang.catalog.model import (
    Catalog,
    CustomAnnotation,
    EdgeType,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.lang.catalog.verify import corrupt
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.values import ValueType

__all__ = ["digest", "dumps", "loads", "shape_digest", "to_json"]

_Fields = dict[str, JsonValue]


def to_json(catalog: Catalog) -> dict[str, JsonValue]:
    """The catalog as plain values; `loads` reads them back."""
    return _catalog(catalog, identity=True)


def dumps(catalog: Catalog) -> str:
    """The canonical text: sorted keys, no spaces."""
    return _text(to_json(catalog))


def loads(text: str) -> Catalog:
    """The catalog of a canonical text; anything unexpected in it is `Corrupt`.

    The text may be spaced and ordered differently, but it must say what `dumps` would say.
    """
    catalog, given = read(text)
    again: JsonValue = to_json(catalog)
    canonical = _text(again)
    if canonical != text and canonical != _text(given):
        path = _difference(given, again, "catalog")
        raise corrupt(path, "is not what a schema is stored as")
    return catalog


def _difference(left: JsonValue, right: JsonValue, path: str) -> str:
    """The path of the first place where two unequal values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if key not in left or key not in right:
                return f"{path}.{key}"
            if _text(left[key]) != _text(right[key]):
                return _difference(left[key], right[key], f"{path}.{key}")
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (first, second) in enumerate(zip(left, right, strict=True)):
            if _text(first) != _text(second):
                return _difference(first, second, f"{path}[{index}]")
    return path


def digest(catalog: Catalog) -> str:
    """SHA-256 of the canonical text, ids included."""
    return _sha256(to_json(catalog))


def shape_digest(catalog: Catalog) -> str:
    """SHA-256 of the content of a schema, without the ids of its entries."""
    return _sha256(_catalog(catalog, identity=False))


def _text(value: JsonValue) -> str:
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _sha256(value: JsonValue) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()


def _catalog(catalog: Catalog, *, identity: bool) -> _Fields:
    fields: _Fields = {
        "format": FORMAT,
        "nodes": [_entity(item, identity=identity) for item in catalog.nodes],
        "edges": [_entity(item, identity=identity) for item in catalog.edges],
        "interfaces": [_interface(item, identity=identity) for item in catalog.interfaces],
        "enums": [{"name": item.name, "values": list(item.values)} for item in catalog.enums],
    }
    if identity:
        fields["retired"] = list(catalog.retired)
    return _drop_empty(fields)


def _entity(item: EntityType, *, identity: bool) -> _Fields:
    fields: _Fields = {
        "name": item.name,
        "properties": [_property(prop, identity=identity) for prop in item.properties],
        "key": _columns(item.key, identity=identity),
        "uniques": _column_lists(item.uniques, identity=identity),
        "indexes": _column_lists(item.indexes, identity=identity),
        "description": item.description,
        "instruction": item.instruction,
        "annotations": [_annotation(note) for note in item.annotations],
    }
    if identity:
        fields["id"] = item.id
        fields["next_property_id"] = item.next_property_id
        fields["renamed_from"] = item.renamed_from
        fields["retired"] = list(item.retired)
    if isinstance(item, NodeType):
        fields["implements"] = list(item.implements)
        fields["ranges"] = [
            _drop_empty({"property": rule.property, "low": rule.low, "high": rule.high})
            for rule in item.ranges
        ]
        fields["checks"] = [
            {"property": rule.property, "pattern": rule.pattern} for rule in item.checks
        ]
    if isinstance(item, EdgeType):
        fields["source"] = item.source
        fields["target"] = item.target
        card = item.cardinality
        fields["cardinality"] = _drop_empty({"low": card.low, "high": card.high})
    return _drop_empty(fields)


def _interface(item: InterfaceType, *, identity: bool) -> _Fields:
    properties = [_property(prop, identity=identity) for prop in item.properties]
    return _drop_empty({"name": item.name, "properties": properties})


def _property(prop: Property, *, identity: bool) -> _Fields:
    fields: _Fields = {
        "name": prop.name,
        "type": _type(prop.type),
        "enum_name": prop.enum_name,
        "default": literal_to_json(prop.default) if prop.default is not None else None,
        "metric": str(prop.metric) if prop.metric is not None else None,
        "description": prop.description,
        "annotations": [_annotation(note) for note in prop.annotations],
    }
    if prop.embed is not None:
        fields["embed"] = _drop_empty({"source": prop.embed.source, "model": prop.embed.model})
    if identity:
        fields["id"] = prop.id
        fields["renamed_from"] = prop.renamed_from
        fields["birth_name"] = prop.birth_name
        fields["fill"] = literal_to_json(prop.fill) if prop.fill is not None else None
    return _drop_empty(fields)


def _type(of_type: ValueType) -> _Fields:
    fields: _Fields = {
        "base": of_type.base.value,
        "nullable": of_type.nullable or None,
        "list": of_type.is_list or None,
        "dim": of_type.dim or None,
        "enum": list(of_type.enum),
    }
    return _drop_empty(fields)


def _annotation(note: CustomAnnotation) -> _Fields:
    args: list[JsonValue] = [
        arg if isinstance(arg, str) else literal_to_json(arg) for arg in note.args
    ]
    kwargs: _Fields = {key: literal_to_json(value) for key, value in note.kwargs}
    return _drop_empty({"name": note.name, "args": args, "kwargs": kwargs})


def literal_to_json(literal: Literal) -> _Fields:
    """A literal with its kind; dates stay the numbers they are stored as."""
    if literal.kind is LiteralKind.LIST:
        return {"kind": "list", "items": [literal_to_json(item) for item in literal.items]}
    return {"kind": str(literal.kind), "value": literal.value}


def _columns(columns: tuple[str, ...], *, identity: bool) -> list[JsonValue]:
    # The order of columns follows property ids, so the shape has to use another one.
    return list(columns if identity else sorted(columns))


def _column_lists(lists: Iterable[tuple[str, ...]], *, identity: bool) -> list[JsonValue]:
    if identity:
        return [list(columns) for columns in lists]
    return [list(columns) for columns in sorted(tuple(sorted(item)) for item in lists)]


def _drop_empty(fields: _Fields) -> _Fields:
    return {key: value for key, value in fields.items() if value not in (None, [], {})}
