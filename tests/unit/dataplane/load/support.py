"""A graph to load into, for the tests beside this file."""

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from omnigraph.core.layout import STAGING
from omnigraph.core.locks.liveness import LIVE_OPERATIONS
from omnigraph.core.repository import Repository
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.request import Loaded, LoadRequest
from omnigraph.dataplane.progress import Listener, Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.source.model import FileInput, Format, Input, TableInput, TypeRef
from omnigraph.errors import ConstraintViolated
from omnigraph.lang.catalog.model import Catalog
from omnigraph.store.root import Root
from omnigraph.types import MAIN, BranchName
from tests.graphs import Row, make, rows

Item = TypeVar("Item")
Result = TypeVar("Result")
Line = dict[str, Any]

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    email: String? @unique
    role: enum(admin, guest) @default("guest")
    bio: Blob?
    score: F64?
    seat: I64?
    hall: String?
    @unique(hall, seat)
    @range(age, 0..150)
}
node Company { name: String @key  size: I32? }
node Note { text: String  stars: I32 @default(3)  tag: String? @unique }
edge Knows: Person -> Person { since: Date?  note: String? }
edge WorksAt: Person -> Company @card(0..2) { title: String? }
edge Owns: Company -> Company @card(1..) { share: F64? }
edge Rates: Person -> Company { stars: I32  @key(src, dst) }
"""
PERSON, COMPANY, NOTE = "node:Person", "node:Company", "node:Note"
KNOWS, WORKS, OWNS, RATES = "edge:Knows", "edge:WorksAt", "edge:Owns", "edge:Rates"


def person(name: str, **data: Any) -> Line:
    return {"type": "Person", "data": {"name": name, **data}}


def company(name: str, **data: Any) -> Line:
    return {"type": "Company", "data": {"name": name, **data}}


def note(text: str | None = None, **data: Any) -> Line:
    return {"type": "Note", "data": {**({} if text is None else {"text": text}), **data}}


def edge(kind: str, source: str, target: str, **data: Any) -> Line:
    return {"edge": kind, "from": source, "to": target, "data": data}


class PicklingRunner:
    """Runs tasks one by one as if in another process: whatever goes in or out is pickled."""

    is_remote = True
    parallelism = 3

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        # The last comes first, and every task runs twice: the order means nothing, and only one
        # of the results counts.
        for number in reversed(range(len(items))):
            item = pickle.dumps(items[number])
            task(pickle.loads(item))
            yield number, pickle.loads(pickle.dumps(task(pickle.loads(item))))


# The same load in one piece, in many, and in many that run elsewhere.
WAYS: list[dict[str, Any]] = [
    {},
    {"split_bytes": 60, "partitions": 4},
    {"split_bytes": 90, "partitions": 2, "runner": PicklingRunner()},
]


@dataclass
class Lab:
    """A repository, and loads into it."""

    repo: Repository
    folder: Path
    count: int = 0

    @property
    def catalog(self) -> Catalog:
        return self.repo.schema(self.repo.snapshot()).catalog

    def file(self, lines: Sequence[Line | str], name: str = "") -> FileInput:
        self.count += 1
        path = self.folder / (name or f"{self.count}.jsonl")
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(f"{text}\n" for text in texts))
        size = path.stat().st_size
        return FileInput(uri=str(path), name=path.name, format=Format.NDJSON, size=size)

    def request(self, *inputs: Input, mode: Any = "append", **terms: Any) -> LoadRequest:
        return LoadRequest(inputs=tuple(inputs), catalog=self.catalog, mode=mode, **terms)

    def run(
        self,
        request: LoadRequest,
        runner: Runner | None = None,
        listener: Listener | None = None,
        monitor: Monitor | None = None,
    ) -> Loaded:
        watched = monitor or Monitor("load", "inprocess", "a test", self.repo.clock, listener)
        loaded = Loader(self.repo, wait=lambda _: None).load(
            request, runner or InProcessRunner(2), watched
        )
        self.check_clean()
        return loaded

    def load(
        self,
        lines: Sequence[Line | str],
        mode: Any = "append",
        *,
        runner: Runner | None = None,
        **terms: Any,
    ) -> Loaded:
        return self.run(self.request(self.file(lines), mode=mode, **terms), runner)

    def refused(
        self, lines: Sequence[Line | str], mode: Any = "append", **terms: Any
    ) -> list[tuple[Any, ...]]:
        """The violations of a load that is refused: rule, id, properties and line; all of them."""
        return [
            (each["rule"], each["id"], tuple(each["properties"]), each["line"])
            for each in self.violations(lines, mode, **terms)
        ]

    def violations(
        self,
        lines: Sequence[Line | str],
        mode: Any = "append",
        *,
        runner: Runner | None = None,
        **terms: Any,
    ) -> list[dict[str, Any]]:
        return self.violations_of(self.request(self.file(lines), mode=mode, **terms), runner)

    def violations_of(
        self, request: LoadRequest, runner: Runner | None = None
    ) -> list[dict[str, Any]]:
        before = self.repo.snapshot(request.branch)
        with pytest.raises(ConstraintViolated) as caught:
            self.run(request, runner)
        self.check_clean()
        assert self.repo.snapshot(request.branch).head == before.head
        assert caught.value.details["total"] == len(caught.value.violations)
        return [dict(each) for each in caught.value.violations]

    def rows(self, key: str, branch: BranchName = MAIN) -> dict[str, Row]:
        return rows(self.repo, key, self.repo.snapshot(branch))

    def edges(self, key: str, branch: BranchName = MAIN) -> list[tuple[str, str]]:
        found = rows(self.repo, key, self.repo.snapshot(branch)).values()
        return sorted((row["src"], row["dst"]) for row in found)

    def versions(self, branch: BranchName = MAIN) -> dict[str, int]:
        return {key: pin.version for key, pin in self.repo.snapshot(branch).tables.items()}

    def row_ids(self, key: str) -> dict[str, int]:
        table = self.repo.table(self.repo.snapshot().pin(key))
        found = table.read(["id"], row_id=True)
        return dict(
            zip(found.column("id").to_pylist(), found.column("_rowid").to_pylist(), strict=True)
        )

    def check_clean(self) -> None:
        """Nothing stays behind in the staging area."""
        staged = self.repo.root.local_path / STAGING
        found = list(staged.iterdir()) if staged.exists() else []
        left = [each for each in found if not LIVE_OPERATIONS.holds(each.name) and each.exists()]
        assert not left


def lab_at(path: Path, schema: str = SCHEMA) -> Lab:
    folder = path / "input"
    folder.mkdir(parents=True)
    return Lab(make(Root.parse(str(path / "graph")), schema), folder)


def table_of(kind: str, name: str, rows: Sequence[Row]) -> TableInput:
    assert kind in ("node", "edge")
    ref = TypeRef(kind="node" if kind == "node" else "edge", name=name)
    return TableInput(name=name, type=ref, table=pa.Table.from_pylist([dict(r) for r in rows]))
