"""Making a graph: once, whole or not at all, whatever was there before."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import pytest

from omnigraph.core.failpoints import Fp
from omnigraph.core.layout import (
    INIT_CLAIM,
    SCHEMA_IR,
    SCHEMA_STATE,
    SCHEMA_TEXT,
    table_path,
)
from omnigraph.core.locks.claims import open_claims
from omnigraph.core.locks.liveness import LIVE_OPERATIONS
from omnigraph.core.repository import OpenMode, Repository
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.errors import Code, Conflict, GraphError, InvalidInput, NotFound, Unavailable
from omnigraph.runtime import failpoints, telemetry
from omnigraph.runtime.failpoints import CRASH_STATUS, Crash, Fault, LostReply, Plan, Refuse
from omnigraph.store.io.storage_calls import StorageCall
from omnigraph.store.root import Root
from omnigraph.types import BranchName
from tests.graphs import (
    PERSON,
    SCHEMA,
    Delta,
    accepted,
    audit,
    fresh_parts,
    ids,
    make,
    many_types,
    people,
    reopen,
    write,
)

OTHER_SCHEMA = "node Thing { name: String @key  weight: F64? }\nnode Person { label: String @key }"
RACERS = 6
INIT = [point for point in Fp if point.value.startswith("init.")]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root.parse(str(tmp_path / "graph"))


def test_a_new_graph_is_whole(root: Root) -> None:
    repo = make(root)
    snapshot = repo.snapshot()
    assert set(snapshot.tables) == {"node:Person", "node:Company", "edge:Knows"}
    assert repo.schema(snapshot).text == SCHEMA
    assert repo.schema(snapshot).digest == snapshot.schema_digest
    assert [commit.kind for commit in repo.commits()] == ["init"]
    for name in (SCHEMA_TEXT, SCHEMA_IR, SCHEMA_STATE):
        assert (root.local_path / name).is_file()
    # Nothing of the making is left.
    assert not list(root.local_path.glob("__claims/**/*.claim"))
    audit(repo)


def test_a_schema_without_types_is_a_schema(root: Root) -> None:
    repo = make(root, "")
    assert dict(repo.snapshot().tables) == {}
    write(repo, {})
    assert len(list(reopen(root).commits())) == 2
    repo.create_branch(BranchName("dev"))
    assert repo.snapshot(BranchName("dev")).head == repo.snapshot().head


def test_an_existing_graph_is_refused_and_untouched(root: Root) -> None:
    repo = make(root)
    write(repo, {PERSON: people("a")})
    for text in (SCHEMA, OTHER_SCHEMA):
        with pytest.raises(Conflict) as caught:
            make(root, text)
        assert caught.value.code is Code.GRAPH_EXISTS
    assert ids(repo, PERSON) == {"a"}
    assert (root.local_path / SCHEMA_TEXT).read_text() == SCHEMA


# -- where it may be made --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [["notes.txt"], ["src/main.py"], ["nodes/people.csv"], ["edges"], ["other.omni/__manifest/x"]],
    ids=lambda names: names[0],
)
def test_a_folder_with_other_files_is_refused_and_untouched(root: Root, names: list[str]) -> None:
    for name in names:
        path = root.local_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    before = sorted(root.local_path.rglob("*"))
    with pytest.raises(InvalidInput) as caught:
        make(root)
    assert caught.value.code is Code.FOLDER_NOT_EMPTY
    first = names[0] if names[0].startswith("nodes/") else names[0].partition("/")[0]
    assert caught.value.details["names"] == [first]
    assert first in str(caught.value)
    assert sorted(root.local_path.rglob("*")) == before


def test_a_file_is_no_place_for_a_graph(root: Root) -> None:
    root.local_path.write_text("mine")
    with pytest.raises(InvalidInput, match="is a file") as caught:
        make(root)
    assert caught.value.code is Code.FOLDER_NOT_EMPTY
    for mode in OpenMode:
        with pytest.raises(NotFound, match="it is a file"):
            Repository.open(root, fresh_parts(root), mode)


def test_a_question_mark_is_refused_because_branches_would_break(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="without") as caught:
        make(Root.parse(str(tmp_path / "what?")))
    assert caught.value.code is Code.INPUT_INVALID
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["h#y", "p%20q", "a b", "ä", "[1]*", "a&b:c'd"])
def test_other_signs_in_a_path_mean_themselves(tmp_path: Path, name: str) -> None:
    repo = make(Root.parse(str(tmp_path / name)))
    repo.create_branch(BranchName("side"))
    write(repo, {PERSON: people("a")}, branch=BranchName("side"))
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert ids(reopen(Root.parse(str(tmp_path / name))), PERSON, BranchName("side")) == {"a"}


def test_only_a_few_of_many_files_are_named(root: Root) -> None:
    root.local_path.mkdir()
    for number in range(100):
        (root.local_path / f"{number:03}").touch()
    with pytest.raises(InvalidInput, match=r"000, 001, 002, 003, 004, \.\.\.") as caught:
        make(root)
    assert caught.value.details["count"] == 100


def test_an_empty_folder_and_hidden_files_are_fine(root: Root) -> None:
    for name in (".DS_Store", ".git/config", "lost+found/x", "nodes/.DS_Store"):
        path = root.local_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    audit(make(root))


def test_looking_for_foreign_files_does_not_walk_through_them(root: Root) -> None:
    with telemetry.counting() as counts:
        make(root)
    lists = counts.snapshot()["object.list"]
    other = Root.parse(str(root.local_path.with_name("other")))
    with telemetry.counting() as counts:
        make(other, many_types(40))
    assert counts.snapshot()["object.list"] == lists


# -- what it costs ---------------------------------------------------------------------------------


def test_a_type_costs_one_call_and_few_syncs(tmp_path: Path) -> None:
    found = []
    for types in (10, 50):
        with telemetry.counting() as counts:
            make(Root.parse(str(tmp_path / str(types))), many_types(types), durable=True)
        found.append(counts.snapshot())
    few, many = found
    # Heads are looked at by the opening that follows.
    calls = [n for n in many if n.startswith(("table.", "object.")) and n != "table.head"]
    assert sum(many[name] - few[name] for name in calls) == 40
    assert many["disk.files"] - few["disk.files"] == 40  # the version
    assert many["disk.dirs"] - few["disk.dirs"] == 2 * 40  # its folder, and the table's


def field_ids(fields: list[Any]) -> list[Any]:
    return [(field.name(), field.id(), field_ids(field.children())) for field in fields]


def test_tables_are_those_that_are_made_one_by_one(tmp_path: Path) -> None:
    text = """
    node Thing {
        name: String @key  a: I32  b: [String]?  v: Vector(3)?  at: DateTime?  c: Blob?
        kind: enum(x, y)?
    }
    edge Has: Thing -> Thing { since: Date?  proof: Blob? }
    """
    root = Root.parse(str(tmp_path / "g"))
    repo = make(root, text)
    catalog = repo.schema(repo.snapshot()).catalog
    for entity in (*catalog.nodes, *catalog.edges):
        path = f"alone/{entity.id}"
        repo.tables.create(path, table_schema(entity))
        made = lance.dataset(root.join(table_path(entity.kind, entity.id)))
        alone = lance.dataset(root.join(path))
        assert made.schema.equals(alone.schema, check_metadata=True)
        assert field_ids(made.lance_schema.fields()) == field_ids(alone.lance_schema.fields())
        assert made.data_storage_version == alone.data_storage_version
        assert made.has_stable_row_ids
        assert alone.has_stable_row_ids
        assert made.version == alone.version == 1
        assert made.config() == alone.config()
        assert made.metadata == alone.metadata


def test_what_a_power_cut_left_of_tables_is_removed(root: Root) -> None:
    with failpoints.armed({Fp.INIT_SCHEMA: Refuse()}), suppress(Exception):
        make(root)
    left = [path for path in root.local_path.glob("nodes/**/*") if path.is_file()]
    assert left
    for number, path in enumerate(left):
        path.write_bytes(b"" if number % 2 else path.read_bytes()[:7])
    repo = make(root)
    write(repo, {PERSON: people("a")})
    assert ids(reopen(root), PERSON) == {"a"}
    audit(repo)


# -- races -----------------------------------------------------------------------------------------


def attempt(root: Root, number: int) -> str:
    """Make a graph; contenders want different schemas, so a mixture would show."""
    text = SCHEMA if number % 2 else OTHER_SCHEMA
    try:
        Repository.init(root, accepted(text), fresh_parts(root))
    except GraphError as error:
        return error.code.value
    return f"made {number}"


def attempt_elsewhere(root: Root, number: int, starter: Any, queue: Any) -> None:
    starter.wait()
    queue.put(attempt(root, number))


def judge(root: Root, outcomes: list[str]) -> None:
    winners = [outcome for outcome in outcomes if outcome.startswith("made")]
    assert len(winners) == 1, outcomes
    assert set(outcomes) - set(winners) <= {Code.GRAPH_EXISTS, Code.INIT_IN_PROGRESS}
    repo = reopen(root)
    text = SCHEMA if int(winners[0].split()[1]) % 2 else OTHER_SCHEMA
    assert repo.schema(repo.snapshot()).text == text
    column = "name" if text == SCHEMA else "label"
    assert column in repo.read(repo.snapshot(), PERSON).column_names
    write(repo, {PERSON: people("a") if text == SCHEMA else labelled("a")})
    audit(repo)


def labelled(name: str) -> Delta:
    return Delta(insert=[{"id": name, "label": name}])


def test_threads_race_for_one_graph(root: Root) -> None:
    with ThreadPoolExecutor(RACERS) as pool:
        judge(root, list(pool.map(lambda number: attempt(root, number), range(RACERS))))


def test_processes_race_for_one_graph(root: Root) -> None:
    context = multiprocessing.get_context("spawn")
    starter, queue = context.Barrier(4), context.Queue()
    racers = [
        context.Process(target=attempt_elsewhere, args=(root, number, starter, queue))
        for number in range(4)
    ]
    for racer in racers:
        racer.start()
    outcomes = [queue.get(timeout=120) for _ in racers]
    for racer in racers:
        racer.join()
        racer.close()
    queue.close()
    queue.join_thread()
    judge(root, outcomes)


def test_a_late_maker_does_not_take_a_finished_graph_for_leftovers(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked before the graph was there and got the claim after it was finished."""
    late = fresh_parts(root)
    answers = iter([False])
    exists = late.tables.exists
    monkeypatch.setattr(late.tables, "exists", lambda path: next(answers, None) or exists(path))
    # The first look says no; everything after it sees the truth.
    write(make(root), {PERSON: people("a")})
    with pytest.raises(Conflict) as caught:
        Repository.init(root, accepted(OTHER_SCHEMA), late)
    assert caught.value.code is Code.GRAPH_EXISTS
    assert ids(reopen(root), PERSON) == {"a"}


# -- faults ----------------------------------------------------------------------------------------


def dying(root: Root, plan: Plan) -> None:
    failpoints.arm(plan)
    make(root)


def die(root: Root, plan: Plan) -> int | None:
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=dying, args=(root, plan))
    child.start()
    child.join()
    status = child.exitcode
    child.close()
    return status


def settle(root: Root) -> None:
    """After any failure there is either nothing, and the next attempt works, or a graph."""
    try:
        repo = reopen(root)
    except NotFound:
        repo = make(root, OTHER_SCHEMA)
        write(repo, {PERSON: labelled("a")})
    else:
        with pytest.raises(Conflict):
            make(root, OTHER_SCHEMA)
        write(repo, {PERSON: people("a")})
    assert ids(repo, PERSON) == {"a"}
    audit(repo)


@pytest.mark.parametrize("point", INIT)
def test_a_maker_that_dies_leaves_nothing_or_a_graph(root: Root, point: Fp) -> None:
    assert die(root, Plan(faults=((point, Crash()),))) == CRASH_STATUS
    settle(root)


@pytest.mark.parametrize("fault", [Refuse(), LostReply()], ids=lambda each: type(each).__name__)
def test_any_storage_call_of_making_may_fail(tmp_path: Path, fault: Fault) -> None:
    calls = dict.fromkeys(StorageCall, fault)
    for number in range(1, 500):
        root = Root.parse(str(tmp_path / f"{number}"))
        with failpoints.armed(calls, nth=number) as state, suppress(Unavailable, Conflict):
            make(root)
        settle(root)
        if not state.fired:
            return
    raise AssertionError("the faults never end")


def test_a_failed_attempt_does_not_block_the_next_one_of_this_process(root: Root) -> None:
    with failpoints.armed({Fp.INIT_PUBLISH: Refuse()}), pytest.raises(Unavailable):
        make(root)
    make(root)


def test_a_maker_at_work_is_respected(root: Root) -> None:
    """Its claim is there, and it runs: in this process, under a token that is at work."""
    parts = fresh_parts(root)
    claims = open_claims(parts.objects, parts.clock, parts.ids, LIVE_OPERATIONS)
    with claims.holding(INIT_CLAIM):
        with pytest.raises(Conflict) as caught:
            make(root)
        assert caught.value.code is Code.INIT_IN_PROGRESS
    make(root)
