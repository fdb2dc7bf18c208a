"""Every type of property: made, written, changed and read back, on the trunk and on a branch."""

from typing import Any

import pyarrow as pa

from omnigraph.core.schema.arrow_types import arrow_type, table_schema
from omnigraph.lang import compile_schema
from omnigraph.lang.values import SCALARS, Base, ValueType
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.conformance.table_steps import compacted
from tests.graphs import Delta, audit, make, reopen, rows, write

SCALAR_VALUES: dict[Base, list[Any]] = {
    Base.STRING: ["", "plain", "emoji 🌍 and \x00"],
    Base.BOOL: [True, False],
    Base.I32: [-(2**31), 2**31 - 1],
    Base.I64: [-(2**63), 2**63 - 1],
    Base.U32: [0, 2**32 - 1],
    Base.U64: [0, 2**64 - 1],
    Base.F32: [0.5, -1.5],
    Base.F64: [0.1, -1e308],
    Base.DATE: [-1, 20_000],
    Base.DATETIME: [-1, 1_700_000_000_123],
}
LISTED = [base for base in SCALAR_VALUES if base is not Base.BLOB]
BLOBS = [b"", b"\x00\xff" * 10, b"x" * 200_000, b"y" * 5_000_000]

SCHEMA = "\n".join(
    [
        "node All {",
        "name: String @key",
        *(f"p{base.value}: {base.value}?" for base in SCALAR_VALUES),
        *(f"l{base.value}: [{base.value}]?" for base in LISTED),
        "v: Vector(3)?",
        "mood: enum(good, bad)?",
        "blob: Blob?",
        "}",
        "edge Has: All -> All {",
        *(f"p{base.value}: {base.value}?" for base in SCALAR_VALUES),
        "blob: Blob?",
        "}",
    ]
)
ALL, HAS = "node:All", "edge:Has"


def row(number: int) -> dict[str, Any]:
    full: dict[str, Any] = {"name": f"n{number}"}
    for base, values in SCALAR_VALUES.items():
        full[f"p{base.value}"] = values[number % len(values)]
    for base in LISTED:
        full[f"l{base.value}"] = [[], SCALAR_VALUES[base], SCALAR_VALUES[base][:1]][number % 3]
    full["v"] = [0.5, number, -1.0]
    full["mood"] = ["good", "bad"][number % 2]
    full["blob"] = BLOBS[number % len(BLOBS)]
    return full


def numeric(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with dates as numbers, as the languages have them."""
    for number, field in enumerate(table.schema):
        plain = {pa.date32(): pa.int32(), pa.timestamp("ms", "UTC"): pa.int64()}
        listed = {pa.list_(key): pa.list_(value) for key, value in plain.items()}
        target = {**plain, **listed}.get(field.type)
        if target is not None:
            table = table.set_column(number, field.name, table.column(number).cast(target))
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_the_schema_covers_every_type() -> None:
    catalog = compile_schema(SCHEMA)
    used = {item.type.base for item in catalog.nodes[0].properties}
    assert used == set(SCALARS.values()) | {Base.VECTOR}
    for item in catalog.nodes[0].properties:
        assert table_schema(catalog.nodes[0]).field(item.name).nullable
    assert arrow_type(ValueType(Base.VECTOR, dim=7)) == pa.list_(pa.float32(), 7)


def test_every_type_comes_back_as_it_went(root: Root) -> None:
    graph = make(root, SCHEMA)
    given = [{"id": f"n{number}", **row(number)} for number in range(6)]
    empty = {"id": "nothing", "name": "nothing"}
    # Arrow takes day and millisecond numbers for dates only in columns of numbers.
    write(graph, {ALL: Delta(insert=[*map(dated, given), empty])})
    for repo in (graph, reopen(root)):
        table = repo.read(repo.snapshot(), ALL)
        found = {each["id"]: each for each in numeric(table)}
        assert found == {
            **{each["id"]: each for each in given},
            "nothing": {**dict.fromkeys(table.column_names), **empty},
        }


def dated(values: dict[str, Any]) -> dict[str, Any]:
    """Dates as Arrow's converter wants them."""
    convert = {
        Base.DATE.value: lambda number: pa.scalar(number, pa.int32()).cast(pa.date32()).as_py(),
        Base.DATETIME.value: lambda number: (
            pa.scalar(number, pa.int64()).cast(pa.timestamp("ms", "UTC")).as_py()
        ),
    }
    result = dict(values)
    for name, value in values.items():
        change = convert.get(name[1:])
        if change is None or value is None:
            continue
        result[name] = [change(each) for each in value] if name[0] == "l" else change(value)
    return result


def test_blobs_survive_changes_of_other_properties(root: Root) -> None:
    graph = make(root, SCHEMA)
    given = [dated({"id": f"n{number}", **row(number)}) for number in range(4)]
    write(graph, {ALL: Delta(insert=given)})
    dev = BranchName("dev")
    graph.create_branch(dev)
    delta = Delta(update={"n1": {"pI32": 7}, "n2": {"blob": b"new"}}, delete=["n3"])
    write(graph, {ALL: delta}, branch=dev)
    write(graph, {HAS: Delta(insert=[{"id": "e", "src": "n0", "dst": "n1", "blob": b"edge"}])})
    blobs = {name: each["blob"] for name, each in rows(graph, ALL, graph.snapshot(dev)).items()}
    assert blobs == {"n0": BLOBS[0], "n1": BLOBS[1], "n2": b"new"}
    assert rows(graph, ALL, graph.snapshot(MAIN))["n2"]["blob"] == BLOBS[2]
    assert rows(graph, HAS)["e"]["blob"] == b"edge"
    table = graph.table(graph.snapshot(dev).pin(ALL))
    compacted(graph.tables, table.pin.path, table.pin.branch)
    audit_after = graph.tables.open(
        type(table.pin)(
            table.pin.path, graph.tables.head(table.pin.path, table.pin.branch), table.pin.branch
        )
    )
    found = audit_after.read(["id", "blob"]).to_pylist()
    assert {each["id"]: each["blob"] for each in found} == blobs


def test_a_scan_that_does_not_ask_for_blobs_reads_none(root: Root) -> None:
    graph = make(root, SCHEMA)
    write(graph, {ALL: Delta(insert=[dated({"id": "n", **row(3)})])})
    table = graph.table(graph.snapshot().pin(ALL))
    big = sorted(root.local_path.rglob("*.blob"))
    assert big
    for file in big:
        file.unlink()
    fresh = reopen(root)
    narrow = fresh.table(fresh.snapshot().pin(ALL)).read(["id", "name"])
    assert narrow.to_pylist() == [{"id": "n", "name": "n3"}]
    assert table.schema.field("blob").type == pa.large_binary()
    audit(graph)
