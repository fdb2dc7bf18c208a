"""Verification of what a graph says about itself: branches, commits, schemas, pins, forks, intents.

Nothing is repaired, and nothing that is wrong keeps the rest from being looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from omnigraph.core import tuning
from omnigraph.core.branches.branches import is_own
from omnigraph.core.commits.graph_version import GraphVersion, TablePin
from omnigraph.core.commits.lineage import Ancestry
from omnigraph.core.layout import DELETED_BRANCHES, MANIFEST, fork_mark, intent_path, table_key
from omnigraph.core.manifest.lost_head import lost_head
from omnigraph.core.storage_errors import public, storage_errors
from omnigraph.errors import GraphError
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.tables import Pin
from omnigraph.types import MAIN, BranchName

if TYPE_CHECKING:
    from omnigraph.core.repository import Repository
    from omnigraph.store.maintenance.inventory import TableInventory

T = TypeVar("T")
_RESTORE = "restore it from a backup"


class Aspect(StrEnum):
    """The parts of a graph that are verified."""

    MANIFEST = "manifest"
    LINEAGE = "lineage"
    SCHEMA = "schema"
    PIN = "pin"
    ROW_COUNT = "row_count"
    DRIFT = "drift"
    FORK = "fork"
    INTENT = "intent"
    FILE = "file"
    INDEX = "index"
    ROWS = "rows"
    KEY = "key"
    ENDPOINT = "endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flaw:
    """Something that is not as it should be.

    Attributes:
        aspect: What was verified.
        place: The file, folder or branch that it is about.
        text: What is wrong, and what to do.
        is_harmless: Nothing is lost or wrong; it is only worth knowing.
    """

    aspect: Aspect
    place: str
    text: str
    is_harmless: bool = False


class MetadataVerifier:
    """Verifies the metadata of one graph; remembers the states that it could read."""

    def __init__(self, repo: Repository) -> None:
        """Look at this graph."""
        self._repo = repo
        self.heads: dict[BranchName, GraphVersion] = {}
        self.commits = 0
        self._lost: set[BranchName] = set()  # those whose newest commits are gone

    def flaws(self) -> Iterator[Flaw]:
        """Look at everything, and yield what is wrong."""
        yield from self._intents()
        for name in self._names():
            try:
                head = self._repo.snapshot(name)
            except (GraphError, StorageFailure) as error:
                yield Flaw(aspect=Aspect.MANIFEST, place=f"branch {name}", text=message_of(error))
                continue
            self.heads[name] = head
            yield from self._newest(head)
            yield from self._lineage(head)
            yield from self._schema(head)
        for pin in self.pins():
            yield from self._pin(pin)
        for head in self.heads.values():
            if head.branch not in self._lost:  # there, the tables are right
                yield from self._drift(head)
        yield from self._forks()

    def pins(self) -> list[TablePin]:
        """The versions of tables that the heads consist of, each once."""
        found = {
            (pin.path, pin.table_branch, pin.version): pin
            for head in self.heads.values()
            for pin in head.tables.values()
        }
        return [found[key] for key in sorted(found, key=str)]

    def _names(self) -> tuple[BranchName, ...]:
        try:
            return self._repo.branches.list()
        except StorageFailure as failure:
            raise public(failure) from failure

    def _intents(self) -> Iterator[Flaw]:
        found = self._repo.intents.scan()
        for error in found.unreadable:
            yield Flaw(aspect=Aspect.INTENT, place=str(error.details["path"]), text=str(error))
        for intent in found.intents:
            text = "a write is under way, or has stopped half-way: `omnigraph recover` settles it"
            yield Flaw(
                aspect=Aspect.INTENT,
                place=intent_path(intent.operation_id),
                text=text,
                is_harmless=True,
            )

    def _newest(self, head: GraphVersion) -> Iterator[Flaw]:
        lost = lost_head(self._repo.tables, head)
        if lost is not None:
            self._lost.add(head.branch)
            yield Flaw(aspect=Aspect.MANIFEST, place=lost.file, text=lost.text)
        for version in self._repo.tables.torn_versions(MANIFEST, head.fork):
            place = self._repo.tables.version_file(Pin(MANIFEST, version, head.fork))
            text = (
                f"it is cut short, so branch '{head.branch}' shows the state before it: if a "
                "backup has it, restore it; otherwise the next write sets it aside"
            )
            yield Flaw(aspect=Aspect.MANIFEST, place=place, text=text)

    def _lineage(self, head: GraphVersion) -> Iterator[Flaw]:
        place = f"branch {head.branch}"
        log = self._repo.manifest.commits(head.branch)
        find = Ancestry(log.get).find
        if log.get(head.head) is None:
            text = f"its head, commit {head.head}, is not in its history: {_RESTORE}"
            yield Flaw(aspect=Aspect.LINEAGE, place=place, text=text)
        for commit in log:
            self.commits += 1
            if commit.parent_id is not None and find(commit.parent_id) is None:
                text = f"commit {commit.id} follows {commit.parent_id}, which is not stored"
                yield Flaw(aspect=Aspect.LINEAGE, place=place, text=f"{text}: {_RESTORE}")
            version = log.manifest_version(commit.id) or 0
            if not 0 < version <= head.manifest_version:
                text = f"commit {commit.id} names version {version} of the manifest, not stored yet"
                yield Flaw(aspect=Aspect.LINEAGE, place=place, text=f"{text}: {_RESTORE}")

    def _schema(self, head: GraphVersion) -> Iterator[Flaw]:
        place = f"branch {head.branch}"
        try:
            schema = self._repo.schemas.load(head.schema_digest)
            copies = self._repo.schemas.drift(schema) if head.branch == MAIN else ()
        except (GraphError, StorageFailure) as error:
            yield Flaw(aspect=Aspect.SCHEMA, place=place, text=message_of(error))
            return
        for copy in copies:
            name, _, reason = copy.partition(" ")
            text = f"it {reason}, and does no harm: the next change of the schema writes it again"
            yield Flaw(aspect=Aspect.SCHEMA, place=name, text=text, is_harmless=True)
        catalog = schema.catalog
        types = {table_key(item.kind, item.name) for item in (*catalog.nodes, *catalog.edges)}
        for key in sorted(types ^ set(head.tables)):
            which = "has no table" if key in types else "has a table and is not in the schema"
            text = f"{key} {which}: {_RESTORE}"
            yield Flaw(aspect=Aspect.SCHEMA, place=place, text=text)

    def _pin(self, pin: TablePin) -> Iterator[Flaw]:
        at = pin.store_pin
        try:
            count = self._repo.tables.open(at).row_count
        except StorageFailure as failure:
            what = f"version {pin.version} of {pin.table_key}"
            if failure.kind is FailureKind.NOT_FOUND:
                place, text = self._repo.tables.version_file(at), f"{what} is missing: {_RESTORE}"
            else:
                place, text = failure.place, f"{what} cannot be read: {public(failure)}"
            yield Flaw(aspect=Aspect.PIN, place=place, text=text)
            return
        if count != pin.row_count:
            text = f"{pin.table_key} has {count} rows, the history says {pin.row_count}: {_RESTORE}"
            yield Flaw(aspect=Aspect.ROW_COUNT, place=pin.path, text=text)

    def _drift(self, head: GraphVersion) -> Iterator[Flaw]:
        """Tables that are further than what is published, with no write that accounts for it."""
        for pin in head.tables.values():
            if not is_own(pin, head):
                continue
            try:
                newest = self._repo.tables.head(pin.path, pin.table_branch, known=pin.version)
            except StorageFailure:
                continue  # its pin has been reported
            if newest > pin.version and not self._is_accounted_for(head, pin, newest):
                text = (
                    f"{pin.table_key} is published at version {pin.version}, and its table is at "
                    f"{newest}: `omnigraph recover` takes back what is ours, `omnigraph repair` "
                    "shows the rest"
                )
                yield Flaw(aspect=Aspect.DRIFT, place=pin.path, text=text)

    def _is_accounted_for(self, head: GraphVersion, pin: TablePin, newest: int) -> bool:
        """True if a write is under way, or has published the newest version since."""
        # In this order: a write publishes before its intent goes.
        if self._repo.intents.scan().intents:
            return True
        now = self._repo.snapshot(head.branch).tables.get(pin.table_key)
        return now is None or now.table_branch != pin.table_branch or now.version >= newest

    def _forks(self) -> Iterator[Flaw]:
        try:
            lost = self._repo.manifest.lost.all()
            living = {fork_mark(name) for name in self._repo.manifest.incarnations()}
        except (GraphError, StorageFailure) as error:
            yield Flaw(aspect=Aspect.FORK, place=place_of(error, MANIFEST), text=message_of(error))
            return
        for branch in lost:
            yield Flaw(aspect=Aspect.MANIFEST, place=branch.record, text=str(branch.error()))
        if lost:
            return  # which forks of tables are theirs, only their records tell
        # The original names forks of tables like the branch.
        living.update(head.fork for head in self.heads.values() if head.fork is not None)
        main = self.heads.get(MAIN)
        for pin in main.tables.values() if main is not None else ():
            try:
                forks = self._repo.tables.forks(pin.path)
            except (GraphError, StorageFailure) as error:
                yield Flaw(
                    aspect=Aspect.FORK, place=place_of(error, pin.path), text=message_of(error)
                )
                continue
            for name in sorted(forks):
                if living.isdisjoint((name, name.partition(".")[0])):
                    text = f"fork {name} is left of a deleted branch: `omnigraph cleanup` drops it"
                    yield Flaw(aspect=Aspect.FORK, place=pin.path, text=text, is_harmless=True)

    def missing_files(self) -> Iterator[Flaw]:
        """Files that stored versions refer to, of whatever age, and that are not there."""
        for path in self.paths():
            try:
                yield from missing_files(self._repo.tables.inventories.take(path))
            except (GraphError, StorageFailure) as error:
                yield Flaw(aspect=Aspect.FILE, place=place_of(error, path), text=message_of(error))

    def paths(self) -> list[str]:
        """The manifest, and the tables that any branch has."""
        return [MANIFEST, *sorted({pin.path for pin in self.pins()})]


def message_of(error: GraphError | StorageFailure) -> str:
    """The words of an error for a user."""
    return str(public(error) if isinstance(error, StorageFailure) else error)


def place_of(error: GraphError | StorageFailure, otherwise: str) -> str:
    """The file or folder that an error is about."""
    if isinstance(error, StorageFailure):
        return error.place
    return str(error.details.get("path", otherwise))


def looked(repo: Repository, look: Callable[[], T], flaws: Callable[[T], Iterable[Flaw]]) -> T:
    """Look for flaws; again if there are some, which may have come of a branch that is gone now."""
    for _ in range(tuning.active.verify_looks_max - 1):
        before = _branches(repo)
        found = look()
        if all(flaw.is_harmless for flaw in flaws(found)) or _branches(repo) == before:
            return found
    return look()


def _branches(repo: Repository) -> tuple[object, object]:
    """The names of branches, and what was deleted."""
    with storage_errors():
        return repo.branches.list(), repo.objects.list(DELETED_BRANCHES)


def irreparable(repo: Repository) -> list[Flaw]:
    """The flaws that only a backup mends, as far as they show without reading the files."""
    return looked(repo, lambda: _irreparable(repo), iter)


def _irreparable(repo: Repository) -> list[Flaw]:
    metadata = MetadataVerifier(repo)
    found = [flaw for flaw in metadata.flaws() if flaw.aspect is not Aspect.DRIFT]
    found.extend(metadata.missing_files())
    return [flaw for flaw in found if not flaw.is_harmless]


def missing_files(found: TableInventory) -> Iterator[Flaw]:
    """Files of one table that its stored versions refer to, and that are not there."""
    stored = {each.owner for each in found.files}
    stored.update(item.info.path for item in found.versions)
    for path in sorted(found.all_referenced() - stored):
        # Landing removes the copy of a transaction that Lance makes; versions hold it.
        if "/_transactions/" in path or not path.startswith(f"{found.path}/"):
            continue
        text = f"it is missing, and a stored version of {found.path} refers to it: {_RESTORE}"
        yield Flaw(aspect=Aspect.FILE, place=path, text=text)
