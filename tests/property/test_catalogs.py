"""What holds for every catalog, and for every step from one to another."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Corrupt
from omnigraph.lang.catalog.canonical import (
    digest,
    dumps,
    loads,
    shape_digest,
)
from omnigraph.lang.catalog.identity import adopt
from omnigraph.lang.catalog.migrate import plan
from omnigraph.lang.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.lang.catalog.steps import (
    AddType,
    DropProperty,
    DropType,
    RenameProperty,
    RenameType,
    Step,
    Tier,
    UnsupportedChange,
)
from omnigraph.lang.schema import SchemaFile, compile_schema, format_schema
from omnigraph.lang.schema.ast import Annotation, Declaration, EdgeDecl, NodeDecl
from omnigraph.lang.source import Name
from omnigraph.testing.strategies_schema import catalogs, hinted_catalogs, valid_schema_files


@given(catalogs())
def test_canonical_text_round_trips(catalog: Catalog) -> None:
    again = loads(dumps(catalog))
    assert again == catalog
    assert dumps(again) == dumps(catalog)
    assert digest(again) == digest(catalog)
    assert pickle.loads(pickle.dumps(catalog)) == catalog


@given(catalogs(), st.data())
def test_damaged_text_is_read_or_refused(catalog: Catalog, data: st.DataObject) -> None:
    tree = json.loads(dumps(catalog))
    for _ in range(data.draw(st.integers(1, 3))):
        damage(tree, data)
    text = json.dumps(tree, allow_nan=False)
    try:
        found = loads(text)
    except Corrupt:
        return
    # What is read is what was written, and everything can be done with it.
    assert json.loads(dumps(found)) == tree
    assert loads(dumps(found)) == found
    assert digest(loads(dumps(found))) == digest(found)
    assert shape_digest(adopt(found, Catalog())) == shape_digest(found)
    assert plan(found, found).steps == ()
    assert adopt(found, found) == found
    json.dumps(plan(Catalog(), found).to_json())
    json.dumps(plan(found, Catalog()).to_json())
    json.dumps(plan(catalog, found).to_json())


WRONG = [None, -1, 0, 1, 1.5, 10**30, "", "x", "A", "\ud800", True, False, [], {}, [1], {"a": 1}]


def damage(tree: Any, data: st.DataObject) -> None:
    """Delete, replace or repeat one place of a JSON tree."""
    spots = list(walk(tree))
    if not spots:
        return
    holder, key = data.draw(st.sampled_from(spots))
    match data.draw(st.sampled_from(["delete", "replace", "copy", "repeat"])):
        case "delete":
            del holder[key]
        case "replace":
            holder[key] = data.draw(st.sampled_from(WRONG))
        case "copy":
            other, place = data.draw(st.sampled_from(spots))
            holder[key] = json.loads(json.dumps(other[place]))
        case _:
            copied = json.loads(json.dumps(holder[key]))
            if isinstance(holder, list):
                holder.insert(key, copied)
            else:
                holder[f"{key}s"] = copied


def walk(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON tree, as a container and a key."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(pairs):
        yield tree, key
        if isinstance(value, dict | list):
            yield from walk(value)


@given(catalogs())
def test_a_catalog_adopts_itself(catalog: Catalog) -> None:
    assert adopt(catalog, catalog) == catalog
    assert adopt(catalog, Catalog()) == catalog
    assert plan(catalog, catalog).steps == ()


@given(hinted_catalogs(), hinted_catalogs(), hinted_catalogs())
def test_hints_lose_nothing_and_are_applied_once(
    first: Catalog, second: Catalog, third: Catalog
) -> None:
    accepted = adopt(first, Catalog())
    for wanted in (second, third):
        found = plan(accepted, wanted)
        result = found.result
        check_continuity("node", accepted.nodes, result.nodes, found.steps)
        check_continuity("edge", accepted.edges, result.edges, found.steps)
        assert not any(item.renamed_from for item in (*result.nodes, *result.edges))
        if found.supported:
            assert loads(dumps(result)) == result
            assert plan(result, wanted).steps == ()
            assert plan(result, wanted).result == result
            accepted = result


def check_continuity(
    kind: str,
    before: Sequence[NodeType] | Sequence[EdgeType],
    after: Sequence[NodeType] | Sequence[EdgeType],
    steps: Sequence[Step],
) -> None:
    """What was there goes on under its id, or is dropped by a step before its name is taken."""
    at: dict[tuple[str, str | None, int | None], int] = {}
    for number, step in enumerate(steps):
        if isinstance(step, DropType | DropProperty) and step.entity.kind == kind:
            place = (step.kind, step.entity.id, step.entity.property_id)
            assert place not in at
            at[place] = number
    renamed = {
        (step.entity.id if isinstance(step, RenameProperty) else None, new_name(step)): number
        for number, step in enumerate(steps)
        if isinstance(step, RenameType | RenameProperty) and step.entity.kind == kind
    }
    kept = {item.id: item for item in after}
    assert len(kept) == len(after)
    for item in before:
        dropped = at.pop(("drop_type", item.id, None), None)
        assert (dropped is not None) == (item.id not in kept)
        if dropped is not None:
            assert dropped < renamed.get((None, item.name), len(steps))
            continue
        numbers = {prop.id for prop in kept[item.id].properties}
        assert len(numbers) == len(kept[item.id].properties)
        for prop in item.properties:
            gone = at.pop(("drop_property", item.id, prop.id), None)
            assert (gone is not None) == (prop.id not in numbers)
            if gone is not None:
                assert gone < renamed.get((item.id, prop.name), len(steps))
    assert at == {}


def new_name(step: RenameType | RenameProperty) -> str:
    return step.entity.property or step.entity.name


@given(catalogs(), catalogs(), st.booleans())
def test_a_plan_arrives_at_what_is_wanted(
    accepted: Catalog, wanted: Catalog, allow_data_loss: bool
) -> None:
    found = plan(accepted, wanted, allow_data_loss=allow_data_loss)
    assert shape_digest(found.result) == shape_digest(wanted)
    assert (found.steps == ()) == (shape_digest(accepted) == shape_digest(wanted))
    assert plan(found.result, wanted).steps == ()
    assert plan(found.result, wanted).result == found.result
    assert loads(dumps(found.result)) == found.result
    assert json.loads(json.dumps(found.to_json()))["supported"] == found.supported
    for step in found.steps:
        assert isinstance(step, UnsupportedChange) == (step.tier is Tier.REFUSED)
        if step.tier is Tier.DESTRUCTIVE:
            assert allow_data_loss


@given(catalogs(), catalogs(), catalogs())
def test_ids_are_never_given_twice(first: Catalog, second: Catalog, third: Catalog) -> None:
    middle = adopt(second, first)
    last = adopt(third, middle)
    for before, after in ((first, middle), (middle, last)):
        check_ids(by_name(before.nodes), by_name(after.nodes))
        check_ids(by_name(before.edges), by_name(after.edges))
    # What was dropped on the way and declared again is something new.
    for group in ("nodes", "edges"):
        names = {item.name for item in getattr(middle, group)}
        born = {item.name: item.id for item in getattr(first, group)}
        for item in getattr(last, group):
            if item.name in born and item.name not in names:
                assert item.id != born[item.name]


def by_name(group: Sequence[NodeType] | Sequence[EdgeType]) -> dict[str, NodeType | EdgeType]:
    return {item.name: item for item in group}


def check_ids(
    old: Mapping[str, NodeType | EdgeType], new: Mapping[str, NodeType | EdgeType]
) -> None:
    ids = [item.id for item in new.values()]
    assert len(set(ids)) == len(ids)
    for name, item in new.items():
        numbers = [prop.id for prop in item.properties]
        assert len(set(numbers)) == len(numbers)
        assert all(0 < number < item.next_property_id for number in numbers)
        if name not in old:
            assert item.id not in {other.id for other in old.values()}
            continue
        before = old[name]
        assert item.id == before.id
        assert item.next_property_id >= before.next_property_id
        for prop in item.properties:
            known = before.property_by_name.get(prop.name)
            assert prop.id == known.id if known else prop.id >= before.next_property_id


@given(valid_schema_files(), st.data())
def test_a_rename_is_only_a_rename(file: SchemaFile, data: st.DataObject) -> None:
    accepted = compile_schema(format_schema(file))
    types = [item for item in file.declarations if isinstance(item, NodeDecl)]
    chosen = {item.name.text for item in types if data.draw(st.booleans())}
    wanted = compile_schema(format_schema(renamed(file, chosen)))
    found = plan(accepted, wanted)
    assert {type(step) for step in found.steps} <= {RenameType}
    assert len(found.steps) == len(chosen)
    assert {item.id for item in found.result.nodes} == {item.id for item in accepted.nodes}
    assert found.result.retired == accepted.retired


def renamed(file: SchemaFile, chosen: set[str]) -> SchemaFile:
    """The same schema with some node types called differently."""

    def name(old: Name) -> Name:
        return Name(f"{old.text}x") if old.text in chosen else old

    items: list[Declaration] = []
    for item in file.declarations:
        if isinstance(item, NodeDecl):
            hint = Annotation("rename_from", (item.name,))
            notes = (*item.annotations, hint) if item.name.text in chosen else item.annotations
            items.append(NodeDecl(name(item.name), notes, item.implements, item.members))
        elif isinstance(item, EdgeDecl):
            source, target = name(item.source), name(item.target)
            items.append(
                EdgeDecl(item.name, source, target, item.card, item.annotations, item.members)
            )
        else:
            items.append(item)
    return SchemaFile(tuple(items))


@given(catalogs(), catalogs())
def test_steps_come_in_an_order_that_works(accepted: Catalog, wanted: Catalog) -> None:
    steps = plan(accepted, wanted).steps
    names = [step.entity for step in steps if isinstance(step, AddType)]
    kinds = [entity.kind for entity in names]
    assert kinds == sorted(kinds, key=["enum", "interface", "node", "edge"].index)
    drops = [step.entity.kind for step in steps if isinstance(step, DropType)]
    assert drops == sorted(drops, key=["edge", "node", "interface", "enum"].index)
    last_rename = max(
        (at for at, step in enumerate(steps) if isinstance(step, RenameType | RenameProperty)),
        default=-1,
    )
    first_other = min(
        (
            at
            for at, step in enumerate(steps)
            if not isinstance(step, RenameType | RenameProperty | UnsupportedChange)
        ),
        default=len(steps),
    )
    assert last_rename < first_other
    assert not steps or not isinstance(steps[0], DropType) or len(set(map(type, steps))) == 1
