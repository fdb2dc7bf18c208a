"""Vectors that a write could not compute, because no provider is configured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omnigraph.embed.provider import PROVIDER_VARIABLE, no_provider
from omnigraph.errors import InvalidInput, JsonValue

DETAIL = "vectors_missing"  # the name among the details of a commit


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingVectors:
    """The number of entities of a type that have a text but were left without its vector."""

    table_key: str
    property: str
    count: int


def summed(items: Iterable[MissingVectors]) -> tuple[MissingVectors, ...]:
    """One value per property, sorted; those without any are left out."""
    counts: dict[tuple[str, str], int] = {}
    for item in items:
        place = (item.table_key, item.property)
        counts[place] = counts.get(place, 0) + item.count
    return tuple(
        MissingVectors(table_key=key, property=name, count=count)
        for (key, name), count in sorted(counts.items())
        if count
    )


def as_json(items: Iterable[MissingVectors]) -> JsonValue:
    """Returns the form that is stored in the details of a commit."""
    return [[item.table_key, item.property, item.count] for item in items]


def from_json(value: JsonValue) -> tuple[MissingVectors, ...]:
    """Reads the form that is stored in the details of a commit."""
    found: list[MissingVectors] = []
    for item in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
        match item:
            case [str(key), str(name), int(count)]:
                found.append(MissingVectors(table_key=key, property=name, count=count))
            case _:
                pass
    return tuple(found)


def vector_needed(type_name: str, target: str, source: str) -> InvalidInput:
    """The error of a write that must not leave a vector null."""
    return no_provider(
        f"`{type_name}.{target}` is computed from `{source}` and cannot be null; "
        f"set {PROVIDER_VARIABLE}, or give `{target}`"
    )
