"""Group `commit`: what a commit costs beside its floor, and that cost follows the change alone."""

import itertools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

import omnigraph as og
from bench.floor import Floor
from bench.measure import Case
from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.repository import Repository, components
from omnigraph.core.schema.arrow_types import table_schema
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.core.write import Prepared, TableWrite
from omnigraph.lang import compile_schema
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.conformance.seaweed import BUCKET, serving

SCHEMA = """
node A { name: String @key  note: String? }
node B { name: String @key  note: String? }
node C { name: String @key  note: String? }
"""
SHORT, LONG = 50, 2_000
SMALL, LARGE = 10_000, 1_000_000
UPDATES, THREADS = 16, 8
_kept = ExitStack()  # folders and servers live as long as the process


def cases() -> tuple[list[Case], list[str]]:
    """The cases of this group, and remarks about them."""
    found = [*_against_floor(), *_history(), *_size(), *_branches(), *_threads(), *_on_s3()]
    return found, ["every commit is synced to disk before it counts, the floor's too"]


class Writer:
    """Commits one new row at a time into some tables of a graph."""

    def __init__(self, repo: Repository, tables: Sequence[str]) -> None:
        self.repo = repo
        self._tables = tables
        self._count = 0

    def commit(self) -> None:
        self._count += 1
        self.put([{"id": f"r{self._count}", "name": f"r{self._count}"}])

    def put(self, rows: list[dict[str, str]]) -> None:
        repo = self.repo
        base = repo.snapshot(MAIN)
        writes = []
        for key in self._tables:
            table = repo.writable_table(base, key)
            content = pa.Table.from_pylist(rows, schema=table.schema)
            staged = repo.tables.stage(table, inserts=content, uuid=repo.ids.new())
            if staged is not None:
                writes.append(TableWrite(table_key=key, staged=(staged,)))
        commit = repo.new_commit(base, WriterKind.MUTATION)
        repo.commit(Prepared(base=base, commit=commit, tables=tuple(writes)))


def _folder() -> Path:
    return Path(_kept.enter_context(tempfile.TemporaryDirectory(prefix="omnigraph-bench-")))


def _graph(schema: str = SCHEMA, root: Root | None = None) -> Repository:
    root = root or Root.parse(str(_folder() / "g"))
    accepted = AcceptedSchema(catalog=compile_schema(schema), text=schema)
    return Repository.init(root, accepted, components(root))


def _against_floor() -> list[Case]:
    schema = table_schema(compile_schema(SCHEMA).nodes[0])
    one, three = Floor(_folder(), 1, schema), Floor(_folder(), 3, schema)
    single = Writer(_graph(), ["node:A"])
    triple = Writer(_graph(), ["node:A", "node:B", "node:C"])
    return [
        Case(name="floor, 1 table", call=one.commit, calls=5),
        Case(
            name="commit, 1 table",
            call=single.commit,
            calls=5,
            against="floor, 1 table",
            ratio_max=2.0,
        ),
        Case(name="floor, 3 tables", call=three.commit, calls=5),
        Case(
            name="commit, 3 tables",
            call=triple.commit,
            calls=5,
            against="floor, 3 tables",
            ratio_max=2.0,
        ),
    ]


def _history() -> list[Case]:
    made: list[Case] = []
    for commits in (SHORT, LONG):
        repo = _graph()
        writer = Writer(repo, ["node:A"])
        for _ in range(commits):
            writer.commit()
        against = f"after {SHORT} commits" if commits == LONG else None
        made.append(
            Case(
                name=f"commit after {commits} commits",
                call=writer.commit,
                calls=5,
                against=f"commit {against}" if against else None,
                ratio_max=1.5 if against else None,
            )
        )
        root = repo.root
        made.append(
            Case(
                name=f"open after {commits} commits",
                call=_opening(root),
                calls=5,
                against=f"open {against}" if against else None,
                ratio_max=2.0 if against else None,
            )
        )
    return made


def _threads() -> list[Case]:
    """So many updates of rows of one type, by one thread and by several that share the work."""
    graph = _kept.enter_context(og.init(str(_folder() / "g"), schema=SCHEMA))
    names = [f"r{number}" for number in range(UPDATES)]
    inserts = " ".join(f'insert A {{ name: "{name}" }}' for name in names)
    graph.mutate(f"query fill() {{ {inserts} }}")
    update = "query q($a: String, $n: String) { update A set { note: $n } where name = $a }"

    def work(threads: int) -> Callable[[], object]:
        pool = _kept.enter_context(ThreadPoolExecutor(threads))
        numbers = itertools.count()

        def write(name: str) -> object:
            return graph.mutate(update, {"a": name, "n": str(next(numbers))})

        return lambda: list(pool.map(write, names))

    one, many = f"{UPDATES} updates, 1 thread", f"{UPDATES} updates, {THREADS} threads"
    return [
        Case(name=one, call=work(1)),
        Case(name=many, call=work(THREADS), against=one, ratio_max=1.1),
    ]


def _opening(root: Root) -> Callable[[], Repository]:
    return lambda: Repository.open(root, components(root))


def _on_s3() -> list[Case]:
    """The same on a real S3 server on this machine, for the figures alone."""
    options: Mapping[str, str] = _kept.enter_context(serving(_folder() / "s3"))
    repo = _graph(root=Root.parse(f"s3://{BUCKET}/bench", options))
    one = Writer(repo, ["node:A"])
    three = Writer(repo, ["node:A", "node:B", "node:C"])
    brancher = _Brancher(repo)
    return [
        Case(name="S3: commit, 1 table", call=one.commit, calls=3),
        Case(name="S3: commit, 3 tables", call=three.commit, calls=3),
        Case(name="S3: open", call=_opening(repo.root), calls=3),
        Case(name="S3: branch create", call=brancher.create, calls=3),
    ]


def _size() -> list[Case]:
    made: list[Case] = []
    for rows in (SMALL, LARGE):
        writer = Writer(_graph(), ["node:A"])
        writer.put([{"id": f"x{n}", "name": f"x{n}"} for n in range(rows)])
        small = f"commit into {SMALL:,} rows"
        made.append(
            Case(
                name=f"commit into {rows:,} rows",
                call=writer.commit,
                calls=5,
                against=small if rows == LARGE else None,
                ratio_max=2.0 if rows == LARGE else None,
            )
        )
    return made


def _branches() -> list[Case]:
    made: list[Case] = []
    for types in (5, 100):
        schema = "\n".join(f"node T{n} {{ name: String @key }}" for n in range(types))
        repo = _graph(schema)
        few = "branch create, 5 types"
        made.append(
            Case(
                name=f"branch create, {types} types",
                call=_Brancher(repo).create,
                calls=5,
                against=few if types == 100 else None,
                ratio_max=1.5 if types == 100 else None,
            )
        )
    return made


class _Brancher:
    """Makes one branch after the other."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._count = 0

    def create(self) -> None:
        self._count += 1
        self._repo.branches.create(BranchName(f"b{self._count}"))
