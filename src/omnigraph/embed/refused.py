"""Texts that a provider refuses, for instance because they are too long for its model.

A provider is asked for many texts at once and says no to all of them. The one that is to blame is
found, and the error names the entity that it belongs to: the write fails as a whole, as it does for
any other value that cannot be stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from omnigraph.errors import Code, InvalidInput, JsonValue

_POSITION: Final = "position"
_SHOWN_CHARS_MAX: Final = 80


def refused_text(problem: InvalidInput, text: str, position: int) -> InvalidInput:
    """The error of a request for one text; `position` is its place among the given ones."""
    details: dict[str, JsonValue] = {
        **problem.details,
        "text": text[:_SHOWN_CHARS_MAX],
        "characters": len(text),
        _POSITION: position,
    }
    return InvalidInput(Code.INPUT_INVALID, str(problem), **details)


def position_of(problem: InvalidInput) -> int | None:
    """The position of the text that is refused among those given; None if it is not known."""
    found = problem.details.get(_POSITION)
    return found if isinstance(found, int) else None


def moved(problem: InvalidInput, position: int) -> InvalidInput:
    """The same error, for a list in which the text has another position."""
    return InvalidInput(problem.code, str(problem), **{**problem.details, _POSITION: position})


@contextmanager
def naming_entity(
    type_name: str, target: str, source: str, id_of: Callable[[int], str | None]
) -> Iterator[None]:
    """Name the entity of a text that is refused in the block; `id_of` gives it by position."""
    try:
        yield
    except InvalidInput as problem:
        position = position_of(problem)
        if position is None:
            raise
        details = {key: value for key, value in problem.details.items() if key != _POSITION}
        entity = id_of(position)
        name = type_name if entity is None else f"{type_name} {entity!r}"
        text = (
            f"`{target}` of {name} cannot be computed from `{source}`: {problem}. "
            f"Change the text, or give `{target}` with it; null counts as given"
        )
        raise InvalidInput(
            Code.INPUT_INVALID, text, type=type_name, id=entity, property=target, **details
        ) from problem
