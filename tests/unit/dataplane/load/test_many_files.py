"""Many small files: few tasks read them, few fragments hold them, and every place is right."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.dataplane.load.exchange import SentKeys, fetched
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Item, Result, Runner
from omnigraph.dataplane.source.model import Input
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.staging import READ_BYTES, STAGED_BYTES, SharedStaging
from omnigraph.errors import Code, Conflict
from omnigraph.runtime import telemetry
from omnigraph.store.root import Root
from tests.unit.dataplane.load.support import (
    COMPANY,
    KNOWS,
    NOTE,
    PERSON,
    Lab,
    PicklingRunner,
    company,
    edge,
    lab_at,
    note,
    person,
)

FILES = 300


class Counting:
    """Counts the tasks of every stage."""

    def __init__(self, runner: Runner) -> None:
        self.is_remote = runner.is_remote
        self.parallelism = runner.parallelism
        self.tasks: dict[str, int] = {}
        self._runner = runner

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        self.tasks[stage] = self.tasks.get(stage, 0) + len(items)
        return self._runner.run(stage, task, items)


RUNNERS = [InProcessRunner, PicklingRunner]


def inputs_of(lab: Lab, source: object, **options: Any) -> tuple[Input, ...]:
    return resolve(source, lab.catalog, grouping=True, **options).inputs


def fragments(lab: Lab, key: str) -> int:
    return len(lab.repo.table(lab.repo.snapshot().pin(key)).fragment_rows())


def write_lines(folder: Path, number: int, lines: Sequence[Any]) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / f"part-{number:05d}.jsonl").write_text("\n".join(texts) + "\n" * (number % 2))


@pytest.mark.parametrize("runner", RUNNERS)
def test_tiny_files_are_few_tasks_and_few_fragments(lab: Lab, runner: Callable[[], Runner]) -> None:
    for number in range(FILES):
        name = f"p{number:04d}"
        lines = [person(name), edge("Knows", name, "p0000"), note(f"of {name}")]
        write_lines(lab.folder, number, lines)
    watched = Counting(runner())
    done = lab.run(lab.request(*inputs_of(lab, str(lab.folder))), watched)
    assert watched.tasks["read"] == 1
    for key in (PERSON, KNOWS, NOTE):
        assert done.counts[key].inserted == FILES
        assert fragments(lab, key) == 1
    # Ids that were made here are in the order of the input.
    notes = sorted(lab.rows(NOTE).items())
    assert [row["text"] for _, row in notes] == [f"of p{n:04d}" for n in range(FILES)]
    size = sum(path.stat().st_size for path in lab.folder.iterdir())
    assert (done.rows, done.bytes) == (3 * FILES, size)


@pytest.mark.parametrize("runner", RUNNERS)
def test_an_update_from_tiny_files_writes_few_fragments(
    lab: Lab, runner: Callable[[], Runner]
) -> None:
    lab.load([person(f"p{number}", age=1) for number in range(FILES)])
    for number in range(FILES):
        write_lines(lab.folder, number, [person(f"p{number}", age=2)])
    watched = Counting(runner())
    parts = inputs_of(lab, f"{lab.folder}/part-*.jsonl")
    done = lab.run(lab.request(*parts, mode="merge"), watched)
    assert done.counts[PERSON].updated == FILES
    assert watched.tasks["read"] == watched.tasks["write"] == 1
    assert {row["age"] for row in lab.rows(PERSON).values()} == {2}


def test_large_files_are_divided_as_before(lab: Lab) -> None:
    for number in range(4):
        lines = [person(f"p{number}-{row}", hall="x" * 100) for row in range(200)]
        write_lines(lab.folder, number, lines)
    watched = Counting(InProcessRunner(2))
    lab.run(lab.request(*inputs_of(lab, str(lab.folder)), split_bytes=8 << 10), watched)
    size = sum(path.stat().st_size for path in lab.folder.iterdir())
    assert watched.tasks["read"] >= size // (8 << 10)
    assert len(lab.rows(PERSON)) == 800


# -- places ----------------------------------------------------------------------------------------


def as_csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def write_faulty(folder: Path) -> None:
    """Files of every format; some of them, and their neighbours, have something wrong."""
    files: dict[str, bytes] = {}
    for number in range(6):
        good = json.dumps(person(f"j{number}")).encode()
        files[f"a{number}.jsonl"] = good + b"\n\n" + good.replace(b'"j', b'"k')
        files[f"company{number}.csv"] = as_csv(
            [("name", "size"), (f"c{number}", 1), (f"d{number}", 2)]
        )
        sink = io.BytesIO()
        pq.write_table(pa.table({"name": [f"q{number}", f"r{number}"]}), sink)
        files[f"person{number}.parquet"] = sink.getvalue()
    files["a2.jsonl"] += b"\n{}\n" + json.dumps(edge("Knows", "j0", "nobody")).encode()
    files["a3.jsonl"] = b"\xef\xbb\xbf" + files["a3.jsonl"] + b"\n" + files["a1.jsonl"]
    files["a4.jsonl"] = "{}\n".encode("utf-16")
    files["a4b.jsonl"] = b""
    files["a5.jsonl.gz"] = gzip.compress(files.pop("a5.jsonl"))[:-6]
    files["company1.csv"] = as_csv([("name", "height"), ("c1", 1)])
    files["company2.csv"] = as_csv([("name", "size"), ("c2",), ("c2b", "tall")])
    files["company3.csv"] += b'"c3\n'
    files["company4.csv"] = b""
    files["company5.csv"] += b"c5,5\r\nc0,7\n\n"
    sink = io.BytesIO()
    pq.write_table(pa.table({"name": ["q0", "z"], "weight": [1, 2], "age": [1, 200]}), sink)
    files["person3.parquet"] = sink.getvalue()
    files["person4.parquet"] = files["person4.parquet"][:-9]
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def sources(folder: Path) -> list[Any]:
    return [
        {"Company": f"{folder}/company*.csv", "Person": f"{folder}/person*.parquet"},
        f"{folder}/a*",
        {
            "Person": [
                pa.table({"name": ["t0"]}),
                pa.table({"name": ["t1"], "wrong": [1]}),
                pa.table({"name": ["t0"]}),
            ]
        },
    ]


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_every_violation_is_told_where_it_is(
    tmp_path: Path, runner: Callable[[], Runner], mode: str
) -> None:
    write_faulty(tmp_path / "faulty")
    found: list[list[tuple[Any, ...]]] = []
    for number, split_bytes in enumerate((1 << 12, 1 << 20)):  # each file for itself, then packed
        lab = lab_at(tmp_path / str(number))
        lab.load([person("q5"), company("d0")])
        parts = [part for each in sources(tmp_path / "faulty") for part in inputs_of(lab, each)]
        request = lab.request(
            *parts,
            mode=mode,
            split_bytes=split_bytes,
            violations_file=str(tmp_path / f"{number}.jsonl"),
        )
        watched = Counting(runner())
        told = lab.violations_of(request, watched)
        assert (watched.tasks["read"] == 1) is (number == 1)
        found.append([(each["file"], each["line"], each["message"]) for each in told])
        lines = (tmp_path / f"{number}.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == told
    alone, packed = found
    assert packed == alone
    places = {(Path(file or "").name, line) for file, line, _ in packed}
    expected = {
        ("a2.jsonl", 4),
        ("a2.jsonl", 5),
        ("a3.jsonl", 4),
        ("a4.jsonl", 1),
        ("company1.csv", None),
        ("company2.csv", 2),
        ("company2.csv", 3),
        ("company4.csv", 1),
        ("person3.parquet", None),
        ("person3.parquet", 2),
        ("person4.parquet", 1),
    }
    assert expected <= places
    if mode == "append":
        assert {("person5.parquet", 1), ("company0.csv", 3), ("Person[2]", 1)} <= places


# -- reading ---------------------------------------------------------------------------------------


def test_a_small_file_is_read_by_one_call(lab: Lab) -> None:
    for number in range(FILES):
        write_lines(lab.folder, number, [company(f"c{number}")])
    parts = inputs_of(lab, str(lab.folder))
    with telemetry.counting() as counts:
        lab.run(lab.request(*parts))
    assert counts.snapshot()["object.get"] <= FILES + 10


def test_a_small_file_that_changes_is_refused(lab: Lab) -> None:
    for number in range(3):
        write_lines(lab.folder, number, [company(f"c{number}")])
    parts = inputs_of(lab, str(lab.folder))
    write_lines(lab.folder, 1, [company("longer than it was")])
    with pytest.raises(Conflict, match=r"part-00001.jsonl has changed") as caught:
        lab.run(lab.request(*parts))
    assert caught.value.code is Code.CONFLICT
    assert lab.rows(COMPANY) == {}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tiny_tables_of_text(lab: Lab, end: str) -> None:
    for number in range(FILES):
        rows = f"name,size{end}c{number},{number}{end}{end}d{number},"
        (lab.folder / f"Company-{number:04d}.csv").write_bytes(rows.encode())
    done = lab.run(lab.request(*inputs_of(lab, {"Company": f"{lab.folder}/*.csv"})))
    assert done.counts[COMPANY].inserted == 2 * FILES
    assert {row["size"] for row in lab.rows(COMPANY).values()} == {None, *range(FILES)}
    assert fragments(lab, COMPANY) == 1
    again = lab.violations_of(lab.request(*inputs_of(lab, {"Company": f"{lab.folder}/*.csv"})))
    places = [(Path(each["file"]).name, each["line"]) for each in again]
    assert places == [(f"Company-{n:04d}.csv", line) for n in range(FILES) for line in (2, 4)]


def test_judging_reads_what_was_staged_about_once(lab: Lab) -> None:
    """Each of many tasks stages a small object for many partitions; each part is read once."""
    people = [person(f"p{number:05d}") for number in range(4_000)]
    friends = [edge("Knows", f"p{number:05d}", "p00000") for number in range(4_000)]
    sources = [lab.file(part) for part in (people, friends)]
    request = lab.request(*sources, split_bytes=4_000, partitions=64)
    with telemetry.counting() as counts:
        lab.run(request, PicklingRunner())
    found = counts.snapshot()
    # Beyond the 32 objects that a cache may hold, and tiny: many would be read as a whole.
    assert found[STAGED_BYTES] / found[READ_BYTES] >= 1 / 1.2
    assert found[READ_BYTES] > 1_000_000


@pytest.mark.parametrize("place", ["{}", "memory:///spans"])
def test_neighbours_are_fetched_by_one_read_and_no_more_than_they_are(
    tmp_path: Path, place: str
) -> None:
    staging = SharedStaging(Root.parse(place.format(tmp_path)), "a")
    tables = [{"c": pa.table({"a": [number] * 50})} for number in range(30)]
    objects = [staging.put_all(tables) for _ in range(3)]
    groups = [
        tuple(
            SentKeys(split=s, staged_part=staged_parts[n]) for s, staged_parts in enumerate(objects)
        )
        for n in range(30)
    ]
    with telemetry.counting() as counts:
        found = list(fetched(staging, groups[10:20]))
    for number, partition in enumerate(found, 10):
        assert [t.column("a").to_pylist() for t in partition.tables("c")] == [[number] * 50] * 3
    wanted = sum(
        staged_part.bytes for staged_parts in objects for staged_part in staged_parts[10:20]
    )
    assert counts.snapshot()[READ_BYTES] == wanted
    with telemetry.counting() as counts:
        small = list(fetched(staging, groups, bytes_at_once=1))
    assert len(small) == 30
    assert counts.snapshot()[READ_BYTES] == 3 * wanted
