"""What a load should do, spelled out row by row: the reference for the bulk loader.

Entities are dictionaries, rules are loops. A schema of its own keeps it short: one property of each
sort that matters.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA = """
node P { k: String @key  u: String? @unique  a: I32?  r: String @default("d")  @range(a, 0..9) }
node Q { t: String  u: I32? @unique }
edge K: P -> P { n: I32? }
edge C: P -> Q @card(1..2) { n: I32? }
edge R: P -> P { s: I32  @key(src, dst) }
"""
NODES, EDGES = ("P", "Q"), ("K", "C", "R")
ENDS = {"K": ("P", "P"), "C": ("P", "Q"), "R": ("P", "P")}
PROPERTIES: dict[str, tuple[str, ...]] = {
    "P": ("a", "k", "r", "u"),
    "Q": ("t", "u"),
    "K": ("n",),
    "C": ("n",),
    "R": ("s",),
}
REQUIRED = {"P": ("k", "r"), "Q": ("t",), "K": (), "C": (), "R": ("s",)}
DEFAULTS = {"P": {"r": "d"}}
KEYED = ("P", "R")
RULES = ("required", "range", "key", "unique", "endpoint", "cardinality")

Row = dict[str, Any]
Told = tuple[int | None, str, str | None, str, tuple[str, ...]]  # line, type, id, rule, properties


@dataclass
class Entity:
    """A line of the input."""

    line: int
    type: str
    id: str | None
    named: Row
    row: Row = field(default_factory=dict)
    old: Row | None = None


@dataclass
class Model:
    """A graph: per type, the rows that have a known id, and how many others there are."""

    known: dict[str, dict[str, Row]] = field(
        default_factory=lambda: {name: {} for name in (*NODES, *EDGES)}
    )
    others: dict[str, list[Row]] = field(
        default_factory=lambda: {name: [] for name in (*NODES, *EDGES)}
    )

    def rows(self, name: str) -> list[tuple[str | None, Row]]:
        return [*self.known[name].items(), *((None, row) for row in self.others[name])]

    # -- loading -----------------------------------------------------------------------------------

    def load(
        self, lines: Sequence[Mapping[str, Any]], mode: str, *, replace: bool, cascade: bool
    ) -> "tuple[list[Told], Model | None]":
        """The violations, or the graph afterwards."""
        told: list[Told] = []
        entities = [_entity(number, line) for number, line in enumerate(lines, 1)]
        present = {each.type for each in entities}
        replaced = present if mode == "overwrite" else set()
        chosen = self._chosen(entities, mode, told)
        for each in chosen:
            self._image(each, mode, replace)
            told += _row_rules(each)
        told += self._uniques(chosen, replaced)
        nodes = self._nodes(entities, replaced)
        gone = self._orphans(nodes, replaced, cascade, told)
        for each in chosen:
            if each.type in EDGES and _moves(each):
                for end, node in zip(("src", "dst"), ENDS[each.type], strict=True):
                    if each.row[end] not in nodes[node]:
                        told.append((each.line, each.type, each.id, "endpoint", (end,)))
        after = self._after(chosen, replaced, gone)
        told += self._cardinality(chosen, replaced, gone, nodes)
        if told:
            return sorted(told, key=_rank), None
        return [], after

    def _chosen(self, entities: list[Entity], mode: str, told: list[Told]) -> list[Entity]:
        """The entities that count, after judging ids."""
        chosen: list[Entity] = []
        seen: dict[tuple[str, str], Entity] = {}
        for each in entities:
            if each.id is not None:
                name = (each.type, each.id)
                properties = {"P": ("k",), "R": ("src", "dst")}.get(each.type, ("id",))
                if name in seen:
                    if mode != "merge" or each.type in KEYED:
                        told.append((each.line, each.type, each.id, "key", properties))
                    else:
                        chosen.remove(seen[name])
                elif mode == "append" and each.id in self.known[each.type]:
                    told.append((each.line, each.type, each.id, "key", properties))
                seen[name] = each
            chosen.append(each)
        return chosen

    def _image(self, each: Entity, mode: str, replace: bool) -> None:
        fixed = ("src", "dst") if each.type in EDGES else ()
        columns = (*fixed, *PROPERTIES[each.type])
        old = self.known[each.type].get(each.id or "") if mode == "merge" and each.id else None
        each.old = old
        base = DEFAULTS.get(each.type, {}) if old is None or replace else old
        each.row = {name: each.named.get(name, base.get(name)) for name in columns}

    def _uniques(self, chosen: list[Entity], replaced: set[str]) -> list[Told]:
        told: list[Told] = []
        for name in NODES:
            mine = [each for each in chosen if each.type == name]
            changed = [e for e in mine if e.old is None or e.old["u"] != e.row["u"]]
            released = {e.id for e in changed if e.old is not None}
            stored = [] if name in replaced else [(k, r["u"]) for k, r in self.known[name].items()]
            stored += [] if name in replaced else [("~", r["u"]) for r in self.others[name]]
            for each in changed:
                value = each.row["u"]
                if value is None:
                    continue
                holders = sorted(k for k, v in stored if v == value and k not in released)
                first: str | None = holders[0] if holders else None
                at = next(e for e in changed if e.row["u"] == value)
                if not holders:
                    if at is each:
                        continue
                    first = at.id
                if first is None or first != each.id:
                    told.append((each.line, name, each.id, "unique", ("u",)))
        return told

    def _nodes(self, entities: list[Entity], replaced: set[str]) -> dict[str, set[str]]:
        nodes: dict[str, set[str]] = {}
        for name in NODES:
            nodes[name] = {e.id for e in entities if e.type == name and e.id is not None}
            nodes[name] |= set() if name in replaced else set(self.known[name])
        return nodes

    def _orphans(
        self, nodes: Mapping[str, set[str]], replaced: set[str], cascade: bool, told: list[Told]
    ) -> list[Row]:
        """The committed edges that go along, told as violations unless they may."""
        gone: list[Row] = []
        for name in EDGES:
            for id_, row in self.rows(name) if name not in replaced else ():
                lost = [
                    end
                    for end, node in zip(("src", "dst"), ENDS[name], strict=True)
                    if node in replaced and row[end] not in nodes[node]
                ]
                if lost and cascade:
                    gone.append(row)
                elif lost:
                    told += [(None, name, id_ or "~", "endpoint", (end,)) for end in lost]
        return gone

    def _after(self, chosen: list[Entity], replaced: set[str], gone: list[Row]) -> "Model":
        after = Model()
        for name in (*NODES, *EDGES):
            if name not in replaced:
                stays = [(k, row) for k, row in self.rows(name) if not _among(row, gone)]
                after.known[name] = {k: row for k, row in stays if k is not None}
                after.others[name] = [row for k, row in stays if k is None]
        for each in chosen:
            if each.id is None:
                after.others[each.type].append(each.row)
            else:
                after.known[each.type][each.id] = each.row
        return after

    def _cardinality(
        self,
        chosen: list[Entity],
        replaced: set[str],
        gone: list[Row],
        nodes: Mapping[str, set[str]],
    ) -> list[Told]:
        touched: dict[str, int | None] = {}
        for row in [row for _, row in self.rows("C") if "C" in replaced] + gone:
            if any(row is each for _, each in self.rows("C")):
                touched.setdefault(row["src"], None)
        for each in chosen:
            if each.type == "C" and _moves(each):
                for source in {each.row["src"], (each.old or each.row)["src"]}:
                    if touched.get(source) is None:
                        touched[source] = each.line
        # Every line counts, those that are refused for their ids included.
        changed = [each.old for each in chosen if each.old is not None]
        stays = [] if "C" in replaced else [row for _, row in self.rows("C")]
        sources = [row["src"] for row in stays if not _among(row, gone + changed)]
        counts = Counter([*sources, *(each.row["src"] for each in chosen if each.type == "C")])
        return [
            (line, "C", source, "cardinality", ("src",))
            for source, line in touched.items()
            if source in nodes["P"] and not 1 <= counts[source] <= 2
        ]


def _among(row: Row, rows: list[Row]) -> bool:
    return any(row is each for each in rows)


def _moves(each: Entity) -> bool:
    ends = ("src", "dst")
    return each.old is None or any(each.old[end] != each.row[end] for end in ends)


def _entity(number: int, line: Mapping[str, Any]) -> Entity:
    data = dict(line.get("data", {}))
    given = data.pop("id", None)
    name = line.get("type") or line["edge"]
    if "edge" in line:
        data = {"src": line["from"], "dst": line["to"], **data}
    if name == "P":
        given = data.get("k")
    elif name == "R":
        given = f'["{data["src"]}","{data["dst"]}"]'
    return Entity(number, str(name), given, data)


def _row_rules(each: Entity) -> list[Told]:
    told: list[Told] = [
        (each.line, each.type, each.id, "required", (name,))
        for name in REQUIRED[each.type]
        if each.row[name] is None
    ]
    age = each.row.get("a")
    if age is not None and not 0 <= age <= 9:
        told.append((each.line, each.type, each.id, "range", ("a",)))
    return told


def _rank(told: Told) -> tuple[Any, ...]:
    line, name, id_, rule, properties = told
    return (line or 0, name in EDGES, name, id_ or "", RULES.index(rule), properties)
