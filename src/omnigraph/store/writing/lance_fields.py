"""The fields of a Lance schema: renamed, left out, added and put in order, without a commit.

A commit that changes columns needs a ``LanceSchema`` whose fields keep their numbers, and Lance
offers no way to make one. It can be pickled, though: each field is then one protobuf message, of
which a few entries are read and replaced here. Guard tests compare this with what Lance makes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from lance.schema import LanceSchema

from omnigraph.store.versions.protobuf import BYTES, VARINT, Entry, encoded, entries

__all__ = ["LanceColumn", "columns_of", "new_column", "schema_of"]

_NAME: Final = 2
_ID: Final = 3
_PARENT: Final = 4
_NULLABLE: Final = 6
_ROOT: Final = -1
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class LanceColumn:
    """One column: the message of its field, then those of the fields inside of it."""

    fields: tuple[tuple[Entry, ...], ...]

    @property
    def name(self) -> str:
        """The name of the column."""
        found = _get(self.fields[0], _NAME)
        assert isinstance(found, bytes)
        return found.decode()

    @property
    def last(self) -> int:
        """The greatest number of its fields."""
        return max(self.numbers)

    @property
    def numbers(self) -> list[int]:
        """The numbers of its fields."""
        return [_number(field, _ID) for field in self.fields]

    @property
    def leaves(self) -> list[int]:
        """The numbers of its fields that have values of their own: a column of a file each."""
        parents = {_number(field, _PARENT) for field in self.fields}
        return [number for number in self.numbers if number not in parents]

    def renamed(self, name: str) -> "LanceColumn":
        """Return the column under another name."""
        first = _put(self.fields[0], _NAME, name.encode())
        return LanceColumn((first, *self.fields[1:]))

    def nullable(self) -> "LanceColumn":
        """Return the column so that it may be null."""
        return LanceColumn((_put(self.fields[0], _NULLABLE, 1), *self.fields[1:]))

    def numbered(self, first: int) -> "LanceColumn":
        """Return the column with its fields numbered from ``first`` on."""
        numbers = {_number(field, _ID): at for at, field in enumerate(self.fields, first)}
        fields = []
        for field in self.fields:
            parent = numbers.get(_number(field, _PARENT), _ROOT)
            again = _put(_put(field, _ID, numbers[_number(field, _ID)]), _PARENT, parent & _MASK)
            fields.append(again)
        return LanceColumn(tuple(fields))


def columns_of(schema: Any) -> tuple[Any, dict[str, LanceColumn]]:
    """Return the metadata of a Lance schema, and its columns by name."""
    _, (metadata, *messages) = schema.__reduce__()
    found: list[list[tuple[Entry, ...]]] = []
    for message in messages:
        field = tuple(entries(message))
        if _number(field, _PARENT) == _ROOT:
            found.append([])
        found[-1].append(field)
    columns = [LanceColumn(tuple(fields)) for fields in found]
    return metadata, {column.name: column for column in columns}


def new_column(field: pa.Field, first: int) -> LanceColumn:
    """Return a column that no file has yet, with its fields numbered from ``first`` on."""
    _, columns = columns_of(LanceSchema.from_pyarrow(pa.schema([field])))
    return columns[field.name].numbered(first)


def schema_of(metadata: Any, columns: Sequence[LanceColumn]) -> Any:
    """Return a Lance schema of these columns in this order."""
    messages = [encoded(field) for column in columns for field in column.fields]
    return LanceSchema._from_protos(metadata, *messages)


def _number(field: Sequence[Entry], entry: int) -> int:
    """A number of a message; missing is zero, and the greatest ones are negative."""
    value = _get(field, entry)
    assert isinstance(value, int)
    return value - (_MASK + 1) if value >> 63 else value


def _get(field: Sequence[Entry], entry: int) -> int | bytes:
    return next((value for number, _, value in field if number == entry), 0)


def _put(field: Sequence[Entry], entry: int, value: int | bytes) -> tuple[Entry, ...]:
    """The message with one entry replaced. Zero is written by leaving the entry out."""
    kind = BYTES if isinstance(value, bytes) else VARINT
    others = [each for each in field if each[0] != entry]
    added: list[Entry] = [(entry, kind, value)] if value else []
    return tuple(sorted([*others, *added], key=lambda each: each[0]))
