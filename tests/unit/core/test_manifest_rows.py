"""Rows of the manifest: their form on disk, and what they add up to in any order."""

import itertools
import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.core.commits.graph_version import TablePin
from omnigraph.core.commits.records import (
    ARROW_SCHEMA,
    COMMIT_COLUMNS,
    COMMIT_KIND,
    OUTLINE_COLUMNS,
    VERSION_KIND,
    CommitRecord,
    HeadRecord,
    Record,
    TableRecord,
    TombstoneRecord,
    VersionRecord,
    decode,
    encode,
    encode_dated,
)
from omnigraph.core.manifest.index import ManifestIndex, sort_out
from omnigraph.errors import Code, Corrupt, NotFound
from omnigraph.runtime import ids as ulid
from omnigraph.store.table import CREATED_AT, UPDATED_AT
from omnigraph.types import MAIN, BranchName, CommitId

DEV = BranchName("dev/one")


def cid(number: int) -> CommitId:
    return CommitId(ulid.encode(number))


def dated(*entries: tuple[Record, int, int]) -> pa.Table:
    """Rows as a reader gets them, with the versions that made and last wrote them."""
    table = encode([record for record, _, _ in entries])
    table = table.append_column(CREATED_AT, pa.array([c for _, c, _ in entries], pa.uint64()))
    return table.append_column(UPDATED_AT, pa.array([u for _, _, u in entries], pa.uint64()))


def index_of(*chunks: pa.Table) -> ManifestIndex:
    index = ManifestIndex()
    for chunk in chunks:
        index.fold(chunk)
    return index


def plain(index: ManifestIndex) -> object:
    commits = {each.id: (each, index.commits.manifest_version(each.id)) for each in index.commits}
    return (dict(index.pins()), dict(index.heads), commits, dict(index.tombstones))


texts = st.text(max_size=8)
branches = st.sampled_from([MAIN, DEV])
numbers = st.integers(1, 2**40)
commit_ids = st.integers(0, 2**128 // 32 * 8 - 1).map(lambda n: cid(n % 2**127))
records = st.one_of(
    st.builds(TableRecord, table_key=texts, location=texts),
    st.builds(
        VersionRecord,
        table_key=texts,
        location=texts,
        version=numbers,
        table_branch=st.none() | texts,
        row_count=numbers,
    ),
    st.builds(TombstoneRecord, table_key=texts, location=texts, version=numbers),
    st.builds(
        CommitRecord,
        id=commit_ids,
        parent_id=st.none() | commit_ids,
        merged_parent_id=st.none() | commit_ids,
        branch=branches,
        actor=st.none() | texts,
        created_at=numbers,
        idempotency_key=st.none() | texts,
        kind=texts,
        details=st.dictionaries(texts, st.none() | texts | numbers),
    ),
    st.builds(HeadRecord, branch=branches, commit=commit_ids, schema_digest=texts),
)


@given(st.lists(records))
def test_records_come_back_as_they_went(items: Sequence[Record]) -> None:
    table = encode(items)
    assert table.schema == ARROW_SCHEMA
    assert list(decode(table)) == list(items)


@pytest.mark.parametrize(
    "damage",
    [
        {"object_type": "graph_tag"},
        {"metadata": "{"},
        {"metadata": "[]"},
        {"metadata": None},
        {"metadata": json.dumps({"graph_commit_id": "no", "schema_digest": "d"})},
        {"metadata": json.dumps({"graph_commit_id": "0" * 26})},
    ],
    ids=str,
)
def test_rows_that_cannot_be_read_are_refused_by_name(damage: dict[str, object]) -> None:
    good = encode([HeadRecord(branch=MAIN, commit=cid(1), schema_digest="d")]).to_pylist()[0]
    with pytest.raises(Corrupt) as caught:
        list(decode(pa.Table.from_pylist([{**good, **damage}], schema=ARROW_SCHEMA)))
    assert caught.value.code is Code.CORRUPT
    assert caught.value.details["object_id"] == "graph_head:main"


def test_an_unknown_kind_of_row_is_refused_when_folded() -> None:
    rows = dated((HeadRecord(branch=MAIN, commit=cid(1), schema_digest="d"), 1, 1))
    at = rows.schema.get_field_index("object_type")
    odd = rows.set_column(at, rows.schema.field(at), pa.array(["graph_tag"]))
    with pytest.raises(Corrupt):
        index_of(odd)


# -- folding ---------------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Record, int, int]]:
    """The rows that a manifest can hold: heads and tables are rewritten, the rest is added."""
    entries: list[tuple[Record, int, int]] = []
    locations = ["nodes/1", "nodes/2", "edges/3"]
    versions = dict.fromkeys(locations, 0)
    for number, at in enumerate(locations):
        entries.append((TableRecord(table_key=f"node:T{number}", location=at), 1, 1))
    steps = draw(st.integers(1, 12))
    for step in range(2, steps + 2):
        at = draw(st.sampled_from(locations))
        branch = draw(branches)
        versions[at] += draw(st.integers(1, 3))
        kind = draw(st.sampled_from(["version", "version", "tombstone", "rename"]))
        if kind == "tombstone":
            stone = TombstoneRecord(table_key="node:T", location=at, version=versions[at])
            entries.append((stone, step, step))
        elif kind == "rename":
            entries.append((TableRecord(table_key=f"node:R{step}", location=at), 1, step))
        else:
            record = VersionRecord(
                table_key="node:T",
                location=at,
                version=versions[at],
                table_branch=draw(st.none() | st.just("f")),
                row_count=step,
            )
            entries.append((record, step, step))
        commit = CommitRecord(
            id=cid(step),
            parent_id=None if step == 2 else cid(step - 1),
            branch=branch,
            actor=None,
            created_at=step,
            idempotency_key=draw(st.none() | st.just(f"k{step}")),
        )
        entries.append((commit, step, step))
        head = HeadRecord(branch=branch, commit=commit.id, schema_digest=f"d{step}")
        entries.append((head, 1, step))
    return entries


@given(histories(), st.data())
def test_folding_does_not_depend_on_split_order_or_repetition(
    entries: list[tuple[Record, int, int]], data: st.DataObject
) -> None:
    expected = plain(index_of(dated(*entries)))
    again = data.draw(st.lists(st.sampled_from(entries), max_size=10))
    shuffled = data.draw(st.permutations([*entries, *again]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(shuffled)), max_size=6)))
    edges = [0, *cuts, len(shuffled)]
    chunks = [shuffled[a:b] for a, b in itertools.pairwise(edges) if a < b]
    assert plain(index_of(*(dated(*chunk) for chunk in chunks))) == expected


@given(histories())
def test_records_add_up_to_what_their_rows_do(entries: list[tuple[Record, int, int]]) -> None:
    """A process takes in what it has published as records; others read the rows."""
    index = ManifestIndex()
    for version, group in itertools.groupby(entries, key=lambda entry: entry[2]):
        index.add([record for record, _, _ in group], version)
    rows = encode_dated((record, written) for record, _, written in entries)
    assert plain(index) == plain(index_of(rows))


def stored(
    entries: Sequence[tuple[Record, int, int]], at: int
) -> dict[str, tuple[Record, int, int]]:
    """The rows that a manifest holds at a version, by key: of each the latest state."""
    states = [entry for entry in entries if entry[2] <= at]
    return dict(zip(dated(*states).column("object_id").to_pylist(), states, strict=True))


@given(histories(), st.data())
def test_a_start_and_what_follows_add_up_to_the_whole(
    entries: list[tuple[Record, int, int]], data: st.DataObject
) -> None:
    """Rows that are read again, after a compaction, are as the later version has them."""
    newest = max(written for _, _, written in entries)
    first = stored(entries, data.draw(st.integers(1, newest)))
    last = stored(entries, newest)
    rows = dated(*data.draw(st.permutations(list(first.values()))))
    commits, present = (rows.take(places) for places in sort_out(rows))
    index = ManifestIndex()
    index.start(present)
    index.commits.add(commits.select(COMMIT_COLUMNS), commits.column(CREATED_AT).to_pylist())
    again = data.draw(st.lists(st.sampled_from(list(last.values())), max_size=10, unique_by=id))
    fresh = [entry for key, entry in last.items() if entry != first.get(key)]
    for chunk in data.draw(st.permutations([fresh, again])):
        if chunk:
            index.fold(dated(*chunk))
    assert plain(index) == plain(index_of(dated(*last.values())))


KINDS = ("table", "table_version", "table_tombstone", "graph_commit", "graph_head", "odd", None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(KINDS), st.sampled_from(["n/1", "n/2", None]), st.none() | numbers
        )
    )
)
def test_sorting_out_is_what_a_loop_would_do(
    cells: list[tuple[str | None, str | None, int | None]],
) -> None:
    """Damaged rows, and such of an unknown kind, belong to the present: decoding reports them.

    A commit with a location sets a ref, and of each ref the last one belongs to the present.
    """
    latest: dict[str | None, tuple[int, int]] = {}
    for place, (kind, location, number) in enumerate(cells):
        if kind == VERSION_KIND or (kind == COMMIT_KIND and location is not None):
            known = latest.get(location)
            if known is None or (number or -1) > known[0]:
                latest[location] = (number or -1, place)
    others = [place for place, row in enumerate(cells) if row[0] not in (COMMIT_KIND, VERSION_KIND)]
    schema = pa.schema([pa.field(name, ARROW_SCHEMA.field(name).type) for name in OUTLINE_COLUMNS])
    plain_rows = [dict(zip(OUTLINE_COLUMNS, row, strict=True)) for row in cells]
    rows = pa.Table.from_pylist(plain_rows, schema=schema)
    commits, present = sort_out(rows)
    assert commits.tolist() == [at for at, row in enumerate(cells) if row[0] == COMMIT_KIND]
    assert sorted(present.tolist()) == sorted([*others, *(place for _, place in latest.values())])


def pin(**values: object) -> TablePin:
    base = {
        "table_key": "node:A",
        "path": "n/1",
        "version": 1,
        "table_branch": None,
        "row_count": 0,
    }
    return TablePin(**{**base, **values})  # type: ignore[arg-type]


def version(number: int, *, at: str = "n/1", rows: int = 0, on: str | None = None) -> VersionRecord:
    return VersionRecord(
        table_key="node:A", location=at, version=number, table_branch=on, row_count=rows
    )


TABLE = TableRecord(table_key="node:A", location="n/1")


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([TABLE], {}, id="registered, no version"),
        pytest.param([version(3)], {}, id="a version of nothing"),
        pytest.param([TABLE, version(1)], {"node:A": pin()}, id="one version"),
        pytest.param(
            [TABLE, version(1), version(7, rows=2), version(3)],
            {"node:A": pin(version=7, row_count=2)},
            id="the latest version",
        ),
        pytest.param(
            [TABLE, version(1), version(2, on="f")],
            {"node:A": pin(version=2, table_branch="f")},
            id="on a fork",
        ),
        pytest.param(
            [TABLE, version(4), TombstoneRecord(table_key="node:A", location="n/1", version=4)],
            {},
            id="dropped",
        ),
        pytest.param(
            [TABLE, version(5), TombstoneRecord(table_key="node:A", location="n/1", version=4)],
            {"node:A": pin(version=5)},
            id="written after an older tombstone",
        ),
        pytest.param(
            [
                TABLE,
                version(4),
                TombstoneRecord(table_key="node:A", location="n/1", version=4),
                TableRecord(table_key="node:A", location="n/2"),
                version(1, at="n/2"),
            ],
            {"node:A": pin(path="n/2")},
            id="a new type under an old name",
        ),
    ],
)
def test_pins(records: list[Record], expected: dict[str, TablePin]) -> None:
    index = index_of(dated(*((record, 1, 1) for record in records)))
    assert dict(index.pins()) == expected


def test_a_branch_without_commits_stands_where_its_parent_stood() -> None:
    head = HeadRecord(branch=MAIN, commit=cid(1), schema_digest="d")
    index = index_of(dated((TABLE, 1, 1), (version(1), 1, 1), (head, 1, 1)))
    snapshot = index.snapshot(DEV, (DEV, MAIN), "incarnation", 4)
    assert (snapshot.branch, snapshot.head, snapshot.manifest_version) == (DEV, cid(1), 4)
    index.fold(dated((HeadRecord(branch=DEV, commit=cid(2), schema_digest="e"), 5, 5)))
    assert index.snapshot(DEV, (DEV, MAIN), "incarnation", 5).head == cid(2)
    assert index.snapshot(MAIN, (MAIN,), "main", 5).head == cid(1)
    with pytest.raises(Corrupt):
        index.snapshot(DEV, (BranchName("other"),), "i", 5)
    with pytest.raises(NotFound):
        snapshot.pin("node:B")


def test_a_long_history_is_decoded_only_where_it_is_asked_for() -> None:
    """Damage far back in history does not stand in the way of what is asked."""
    size = 500
    commits = [
        CommitRecord(
            id=cid(n),
            parent_id=None if n == 1 else cid(n - 1),
            branch=MAIN,
            actor=None,
            created_at=n,
            idempotency_key=f"key-{n}",
        )
        for n in range(1, size + 1)
    ]
    rows = dated(*((each, each.created_at, each.created_at) for each in commits))
    column = rows.column("metadata").to_pylist()
    column[6] = "{"
    at = rows.schema.get_field_index("metadata")
    index = index_of(rows.set_column(at, rows.schema.field(at), pa.array(column)))
    assert len(index.commits) == size
    assert index.commits.get(cid(3)) == commits[2]
    assert index.commits.find_key("key-41") == commits[40]
    assert index.commits.find_key("key-") is None
    assert index.commits.manifest_version(cid(77)) == 77
    assert cid(7) in index.commits
    assert None not in index.commits
    assert index.commits.get(cid(size + 1)) is None
    with pytest.raises(Corrupt):
        index.commits.get(cid(7))
    with pytest.raises(KeyError):
        index.commits[cid(size + 1)]
