"""Schemas and rows of a branch as dictionaries: a model that knows nothing about tables.

Properties are known by identity and rows by the identities of their cells. A step changes the
schema or the rows of a graph and of the model alike; two sides are merged by what they had in
common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

import omnigraph as og

ROWS = ("r0", "r1", "r2")
PROPERTIES = ("p0", "p1", "p2")
TYPES = ("T0", "T1", "T2")
Cells = dict[str, int | None]


@dataclass(frozen=True)
class Column:
    """A property: its name, its type, and the value of rows that were there before it."""

    name: str
    kind: str = "I32"
    fill: int | None = None

    @property
    def declared(self) -> str:
        rest = "?" if self.fill is None else f" @default({self.fill})"
        return f"{self.name}: {self.kind}{rest}"


@dataclass(frozen=True)
class Side:
    """A branch as the model has it; `known` are all identities that it ever had."""

    type: str = "T0"
    columns: Mapping[str, Column] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    rows: Mapping[str, Cells] = field(default_factory=dict)

    @property
    def schema(self) -> tuple[str, Mapping[str, Column]]:
        return self.type, self.columns

    def shown(self) -> dict[str, Cells]:
        """The rows by the names that properties have."""
        return {
            name: {self.columns[key].name: value for key, value in row.items()}
            for name, row in self.rows.items()
        }

    def aligned(self, columns: Mapping[str, Column]) -> dict[str, Cells]:
        """The rows as another schema has them."""

        def cell(row: Cells, key: str) -> int | None:
            return row.get(key) if key in self.known else columns[key].fill

        return {name: {key: cell(row, key) for key in columns} for name, row in self.rows.items()}


# -- steps -----------------------------------------------------------------------------------------

SCHEMA_STEPS = ("add", "fill", "rename", "drop", "widen", "rename_type")
STEP = st.tuples(
    st.sampled_from((*SCHEMA_STEPS, "insert", "set", "set", "delete", "optimize")),
    st.sampled_from(PROPERTIES),
    st.sampled_from(PROPERTIES),
    st.sampled_from(ROWS),
    st.integers(0, 9),
)


def minted(name: str, known: frozenset[str]) -> str:
    taken = [name, *(f"{name}#{number}" for number in range(2, 99))]
    return next(each for each in taken if each not in known)


def redeclared(
    side: Side, step: tuple[str, str, str, str, int]
) -> tuple[Side, dict[str, str]] | None:
    """The side with another schema, and rename hints by new name; None when it does not fit."""
    what, one, other, _, value = step
    keys = {column.name: key for key, column in side.columns.items()}
    columns, rows = dict(side.columns), {name: dict(row) for name, row in side.rows.items()}
    if what == "rename_type":
        target = TYPES[value % len(TYPES)]
        return None if target == side.type else (replace(side, type=target), {target: side.type})
    if what in ("add", "fill"):
        if one in keys:
            return None
        key = minted(one, side.known)
        columns[key] = Column(one, fill=value if what == "fill" else None)
        for row in rows.values():
            row[key] = columns[key].fill
        found = replace(side, columns=columns, known=side.known | {key}, rows=rows)
        return found, {}
    if one not in keys:
        return None
    key = keys[one]
    if what == "drop":
        del columns[key]
        for row in rows.values():
            del row[key]
        return replace(side, columns=columns, rows=rows), {}
    if what == "rename" and other not in keys:
        columns[key] = replace(columns[key], name=other)
        return replace(side, columns=columns), {other: one}
    if what == "widen" and columns[key].kind == "I32":
        columns[key] = replace(columns[key], kind="I64")
        return replace(side, columns=columns), {}
    return None


def schema_text(side: Side, hints: Mapping[str, str]) -> str:
    def hint(name: str) -> str:
        return f' @rename_from("{hints[name]}")' if name in hints else ""

    members = [f"{each.declared}{hint(each.name)}" for each in side.columns.values()]
    return f"node {side.type}{hint(side.type)} {{ name: String @key  {'  '.join(members)} }}"


def act(graph: og.Graph, branch: str, side: Side, step: tuple[str, str, str, str, int]) -> Side:
    what, one, _, row, value = step
    if what in SCHEMA_STEPS:
        found = redeclared(side, step)
        if found is None:
            return side
        graph.schema.apply(schema_text(*found), branch=branch)
        return found[0]
    if what == "optimize":
        graph.optimize(branch=branch)
        return side
    rows = {name: dict(cells) for name, cells in side.rows.items()}
    keys = {column.name: key for key, column in side.columns.items()}
    if what == "insert" and row not in rows:
        text = f'insert {side.type} {{ name: "{row}" }}'
        rows[row] = {key: column.fill for key, column in side.columns.items()}
    elif what == "set" and row in rows and one in keys:
        text = f'update {side.type} set {{ {one}: {value} }} where name = "{row}"'
        rows[row][keys[one]] = value
    elif what == "delete" and row in rows:
        text = f'delete {side.type} where name = "{row}"'
        del rows[row]
    else:
        return side
    graph.mutate(f"query q() {{ {text} }}", branch=branch)
    return replace(side, rows=rows)


def state(graph: og.Graph | og.Snapshot, side: Side, **options: str) -> dict[str, Cells]:
    """The rows of a graph, or of a snapshot of it."""
    text = f"query q() {{ match {{ $p: {side.type} }} return {{ $p }} }}"
    return shown(row["p"] for row in graph.query(text, **options).to_pylist())  # type: ignore[arg-type]


def shown(rows: Iterable[Mapping[str, Any]]) -> dict[str, Cells]:
    """Rows by their key, without what the model does not have."""
    return {
        row["name"]: {key: value for key, value in row.items() if key not in ("id", "name")}
        for row in rows
    }


# -- merging ---------------------------------------------------------------------------------------


class SchemaClash(Exception):
    """The schemas do not go together."""


def picked(base: Any, ours: Any, theirs: Any) -> Any:
    if theirs in (base, ours):
        return ours
    if ours != base:
        raise SchemaClash
    return theirs


def merged_columns(base: Side, ours: Side, theirs: Side) -> dict[str, Column]:
    found: dict[str, Column] = {}
    for key in {**ours.columns, **theirs.columns}:
        b, o, t = (each.columns.get(key) for each in (base, ours, theirs))
        if b is None and o is not None and t is not None:
            found[key] = picked(None, o, t)
        elif b is not None and o is not None and t is not None:
            parts = [
                picked(*(getattr(each, name) for each in (b, o, t)))
                for name in ("name", "kind", "fill")
            ]
            found[key] = Column(*parts)
        elif b is None:
            found[key] = (o or t) or Column("")
        elif b not in (o, t):
            raise SchemaClash
    names = [column.name for column in found.values()]
    if len(set(names)) != len(names):
        raise SchemaClash
    return found


def merged(base: Side, ours: Side, theirs: Side) -> tuple[Side, bool]:
    """The merge, and whether there are conflicts about rows."""
    kind, columns = picked(base.type, ours.type, theirs.type), merged_columns(base, ours, theirs)
    before, mine, other = (each.aligned(columns) for each in (base, ours, theirs))
    result, is_disputed = dict(mine), False
    for name in {**before, **other}:
        b, o, t = before.get(name), mine.get(name), other.get(name)
        if t in (b, o):
            continue
        if o == b:
            if t is None:
                del result[name]
            else:
                result[name] = t
        elif o is None or t is None:
            is_disputed = True
        else:
            cells = dict(o)
            for key in columns:
                if t[key] == o[key] or (b is not None and t[key] == b[key]):
                    continue
                if b is None or o[key] != b[key]:
                    is_disputed = True
                cells[key] = t[key]
            result[name] = cells
    known = ours.known | theirs.known
    return Side(kind, columns, known, result), is_disputed
