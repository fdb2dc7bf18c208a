"""Reading a catalog back from its canonical JSON.

The text comes from a graph's own files, so a surprise in it means damage: every read names the
path of what it did not like, and nothing is skipped or guessed. Shapes are read here, what must
hold between them is in `verify`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from typing import NoReturn, TypeVar

from omnigraph.errors import JsonValue
from omnigraph.lang.catalog.model import (
    Cardinality,
    Catalog,
    Check,
    CustomAnnotation,
    EdgeType,
    Embed,
    EntityFields,
    EnumType,
    InterfaceType,
    NodeType,
    Property,
    Range,
)
from omnigraph.lang.catalog.verify import corrupt, verify
from omnigraph.lang.literal import Literal, LiteralKind
from omnigraph.lang.values import DAYS, MILLIS, Base, ValueType
from omnigraph.types import Metric

FORMAT = 1
_NESTED_LISTS_MAX = 70
_INT_LITERAL_MAX = 10**20

_T = TypeVar("_T")


def read(text: str) -> tuple[Catalog, JsonValue]:
    """The catalog of a text and the plain values it was made of; anything odd is `Corrupt`."""
    try:
        value: object = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates
        )
        tree = _plain(value, "catalog")
    except (ValueError, RecursionError) as error:
        raise corrupt("catalog", f"is not JSON: {error}") from error
    catalog = _catalog(_Object(tree, "catalog"))
    verify(catalog)
    return catalog, tree


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


class _Duplicate:
    """A placeholder for an object that has a key twice, until its path is known."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object] | _Duplicate:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    names = sorted(key for key, _ in pairs)
    return _Duplicate(next(left for left, right in pairwise(names) if left == right))


def _plain(value: object, path: str) -> JsonValue:
    """The value itself, if it can be written again: finite numbers and valid Unicode only."""
    if isinstance(value, str):
        return _unicode(value, path)
    if isinstance(value, float):
        # Minus zero would make two texts of one catalog.
        if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            raise corrupt(path, "is not a number that is stored")
        return value
    if isinstance(value, list):
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {_unicode(key, path): _plain(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, _Duplicate):
        raise corrupt(path, f"has the key {value.key!r} twice")
    if value is None or isinstance(value, int):
        return value
    raise corrupt(path, "is not a plain value")


def _unicode(text: str, path: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise corrupt(path, "is not valid Unicode") from None
    return text


class _Object:
    """A JSON object and its path. Each key is taken once; `close` refuses what is left."""

    __slots__ = ("_fields", "path")

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise corrupt(path, "is not an object")
        self._fields: dict[str, object] = dict(value)
        self.path = path

    def close(self) -> None:
        if self._fields:
            raise corrupt(f"{self.path}.{min(self._fields)}", "is not known here")

    def at(self, key: str) -> str:
        return f"{self.path}.{key}"

    def keys(self) -> list[str]:
        return sorted(self._fields)

    def take(self, key: str) -> object:
        return self._fields.pop(key, None)

    def text(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str):
            raise corrupt(self.at(key), "is not a text")
        return value

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if key in self._fields else None

    def integer(self, key: str, default: int | None = None) -> int:
        if default is not None and key not in self._fields:
            return default
        value = self.take(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise corrupt(self.at(key), "is not an integer")
        return value

    def optional_integer(self, key: str) -> int | None:
        return self.integer(key) if key in self._fields else None

    def optional_number(self, key: str) -> int | float | None:
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise corrupt(self.at(key), "is not a number")
        return value

    def flag(self, key: str) -> bool:
        value = self.take(key)
        if value is not None and value is not True:
            raise corrupt(self.at(key), "is not true")
        return value is True

    def items(self, key: str) -> list[tuple[object, str]]:
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise corrupt(self.at(key), "is not a list")
        return [(item, f"{self.at(key)}[{index}]") for index, item in enumerate(value)]

    def texts(self, key: str) -> tuple[str, ...]:
        return tuple(_as_text(item, path) for item, path in self.items(key))

    def each(self, key: str, read: Callable[[_Object], _T]) -> tuple[_T, ...]:
        return tuple(_closed(item, path, read) for item, path in self.items(key))

    def one(self, key: str, read: Callable[[_Object], _T]) -> _T | None:
        value = self.take(key)
        return None if value is None else _closed(value, self.at(key), read)


def _closed(value: object, path: str, read: Callable[[_Object], _T]) -> _T:
    fields = _Object(value, path)
    result = read(fields)
    fields.close()
    return result


def _as_text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise corrupt(path, "is not a text")
    return value


# -- the shapes ------------------------------------------------------------------------------------


def _catalog(fields: _Object) -> Catalog:
    version = fields.integer("format")
    if version != FORMAT:
        raise corrupt(fields.at("format"), f"is {version}, this version reads {FORMAT}")
    catalog = Catalog(
        nodes=fields.each("nodes", _node),
        edges=fields.each("edges", _edge),
        interfaces=fields.each("interfaces", _interface),
        enums=fields.each("enums", _enum),
        retired=fields.texts("retired"),
    )
    fields.close()
    return catalog


def _node(fields: _Object) -> NodeType:
    return NodeType(
        **_entity(fields),
        implements=fields.texts("implements"),
        ranges=fields.each("ranges", _range),
        checks=fields.each("checks", _check),
    )


def _edge(fields: _Object) -> EdgeType:
    return EdgeType(
        **_entity(fields),
        source=fields.text("source"),
        target=fields.text("target"),
        cardinality=fields.one("cardinality", _cardinality) or Cardinality(),
    )


def _entity(fields: _Object) -> EntityFields:
    return {
        "name": fields.text("name"),
        "id": fields.text("id"),
        "properties": fields.each("properties", _property),
        "key": fields.texts("key"),
        "uniques": _column_lists(fields, "uniques"),
        "indexes": _column_lists(fields, "indexes"),
        "description": fields.optional_text("description"),
        "instruction": fields.optional_text("instruction"),
        "annotations": fields.each("annotations", _annotation),
        "renamed_from": fields.optional_text("renamed_from"),
        "next_property_id": fields.integer("next_property_id"),
        "retired": fields.texts("retired"),
    }


def _interface(fields: _Object) -> InterfaceType:
    return InterfaceType(name=fields.text("name"), properties=fields.each("properties", _property))


def _enum(fields: _Object) -> EnumType:
    return EnumType(name=fields.text("name"), values=fields.texts("values"))


def _property(fields: _Object) -> Property:
    of_type = fields.one("type", _type)
    if of_type is None:
        raise corrupt(fields.at("type"), "is missing")
    metric = fields.optional_text("metric")
    if metric is not None and metric not in _METRICS:
        raise corrupt(fields.at("metric"), "is not a known metric")
    return Property(
        name=fields.text("name"),
        id=fields.integer("id"),
        type=of_type,
        enum_name=fields.optional_text("enum_name"),
        default=fields.one("default", _literal),
        embed=fields.one("embed", _embed),
        metric=_METRICS[metric] if metric is not None else None,
        description=fields.optional_text("description"),
        annotations=fields.each("annotations", _annotation),
        renamed_from=fields.optional_text("renamed_from"),
        birth_name=fields.optional_text("birth_name"),
        fill=fields.one("fill", _literal),
    )


_METRICS = {str(metric): metric for metric in Metric}
_BASES = {base.value: base for base in Base if base is not Base.ENTITY}
_KINDS = {str(kind): kind for kind in LiteralKind}


def _type(fields: _Object) -> ValueType:
    base = _BASES.get(fields.text("base"))
    if base is None:
        raise corrupt(fields.at("base"), "is not a known type")
    return ValueType(
        base,
        nullable=fields.flag("nullable"),
        is_list=fields.flag("list"),
        dim=fields.integer("dim", 0),
        enum=fields.texts("enum"),
    )


def _embed(fields: _Object) -> Embed:
    return Embed(source=fields.text("source"), model=fields.optional_text("model"))


def _range(fields: _Object) -> Range:
    return Range(
        property=fields.text("property"),
        low=fields.optional_number("low"),
        high=fields.optional_number("high"),
    )


def _check(fields: _Object) -> Check:
    return Check(property=fields.text("property"), pattern=fields.text("pattern"))


def _cardinality(fields: _Object) -> Cardinality:
    return Cardinality(low=fields.integer("low", 0), high=fields.optional_integer("high"))


def _column_lists(fields: _Object, key: str) -> tuple[tuple[str, ...], ...]:
    lists: list[tuple[str, ...]] = []
    for value, path in fields.items(key):
        if not isinstance(value, list):
            raise corrupt(path, "is not a list")
        lists.append(tuple(_as_text(item, path) for item in value))
    return tuple(lists)


def _annotation(fields: _Object) -> CustomAnnotation:
    name = fields.text("name")
    args = tuple(
        item if isinstance(item, str) else _closed(item, path, _literal)
        for item, path in fields.items("args")
    )
    named = _Object(fields.take("kwargs") or {}, fields.at("kwargs"))
    kwargs = tuple(
        (key, _closed(named.take(key), named.at(key), _literal))
        for key in named.keys()  # noqa: SIM118 - not a dict
    )
    return CustomAnnotation(name=name, args=args, kwargs=kwargs)


def _literal(fields: _Object) -> Literal:
    kind = _KINDS.get(fields.text("kind"))
    if kind is None:
        raise corrupt(fields.at("kind"), "is not a known kind of literal")
    if kind is LiteralKind.LIST:
        if fields.path.count(".items[") > _NESTED_LISTS_MAX:
            raise corrupt(fields.path, "is nested too deeply")
        return Literal(kind, None, fields.each("items", _literal))
    value = fields.take("value")
    wanted = _VALUE_TYPES[kind]
    if not isinstance(value, wanted) or isinstance(value, bool) != (kind is LiteralKind.BOOL):
        raise corrupt(fields.at("value"), f"is not the value of a {kind} literal")
    if isinstance(value, int) and value not in _INT_VALUES.get(kind, _INT_LITERALS):
        raise corrupt(fields.at("value"), f"is out of the range of a {kind} literal")
    return Literal(kind, value)


_INT_LITERALS = range(1 - _INT_LITERAL_MAX, _INT_LITERAL_MAX)
_INT_VALUES = {LiteralKind.DATE: DAYS, LiteralKind.DATETIME: MILLIS}


_VALUE_TYPES: dict[LiteralKind, type[str] | type[int] | type[float] | type[None]] = {
    LiteralKind.STRING: str,
    LiteralKind.INT: int,
    LiteralKind.FLOAT: float,
    LiteralKind.BOOL: bool,
    LiteralKind.NULL: type(None),
    LiteralKind.DATE: int,
    LiteralKind.DATETIME: int,
}
