"""Tasks of maintenance, which workers run, and the commits that put their results to use.

Fragments are rewritten first, so that indexes are built over what the table will be. That is not
there yet, so it is drafted: a version beside the history, which has a number but no place in it.
Workers open it like any other. The draft goes when the indexes are built; the real commits follow
as one staged change each, made for one version after the other.

Lance's own compaction commits twice and takes no transaction id, so recovery could not distinguish
it from that of another writer. The parts are the same here; only the plan and the commit are ours.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from lance import FragmentMetadata, LanceOperation
from lance.optimize import Compaction as LanceCompaction
from lance.optimize import CompactionTask

from omnigraph.store.failures import StorageFailure
from omnigraph.store.io.objects import Backend
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.maintenance.indexes import build_segment, existing_segments, segments_of
from omnigraph.store.maintenance.plan import MaintenancePlan
from omnigraph.store.model import IndexSpec, Pin, RewriteReceipt, SegmentReceipt, Staged, StagedKind
from omnigraph.store.table import Table
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import Gateway, transaction, transaction_uuid, tree_path

__all__ = ["Draft", "Maintenance"]

# Whether to note where each row came from, for an index that Lance would carry over by itself.
_NOTES_ROWS: Final = "has_eager_remappable_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A table as it will be when its fragments are rewritten.

    Attributes:
        pin: What workers open.
        fragments: For each group that was rewritten, the fragments that stand for it.
        numbers: The number of each of these, by the name of its file.
        own_files: The files that the draft consists of.
    """

    pin: Pin
    fragments: Mapping[tuple[int, ...], frozenset[int]]
    numbers: Mapping[str, int]
    own_files: tuple[str, ...]

    def stands_for(self, fragments: Collection[int]) -> frozenset[int]:
        """The fragments of the draft that hold the rows of some of the table's."""
        wanted = frozenset(fragments)
        inside = [group for group in self.fragments if wanted.issuperset(group)]
        left = wanted.difference(*inside)
        return left.union(*(self.fragments[group] for group in inside))


class Maintenance:
    """Keeps the tables of one root in order. Thread-safe."""

    def __init__(self, gateway: Gateway, files: Files, backend: Backend) -> None:
        self._gateway = gateway
        self._files = files
        self._backend = backend

    # ------------------------------------------------------------ what workers do

    def rewrite(
        self, table: Table, fragments: Sequence[int], *, target_rows: int
    ) -> RewriteReceipt:
        """Write the rows of some fragments into few; nothing refers to these yet."""
        return _rewrite_fragments(self._files, table, fragments, target_rows=target_rows)

    def build(self, pin: Pin, spec: IndexSpec, fragments: Collection[int]) -> SegmentReceipt:
        """Build a piece of an index over some fragments; nothing refers to it yet."""
        # On a handle of its own: building locks it against readers.
        return build_segment(self._files, self._private(pin), spec, fragments)

    # ------------------------------------------------------------ what the driver does

    def draft(
        self, table: Table, plan: MaintenancePlan, rewritten: Sequence[RewriteReceipt], *, uuid: str
    ) -> Draft:
        """Draft a table with rewritten fragments in place, for indexes to be built on.

        Args:
            table: The table.
            plan: What is done about it.
            rewritten: One receipt for each of the groups, in their order.
            uuid: Names the draft.
        """
        place = tree_path(table.pin.path, table.pin.branch)
        # Without numbers, indexes would cover the wrong fragments; here they are not needed.
        known = existing_segments(table)
        steps: list[Any] = [LanceOperation.CreateIndex([], known)] if known else []
        steps.append(_rewrite_operation(rewritten))
        handle, own_files = table.dataset, list[str]()
        try:
            for number, operation in enumerate(steps):
                name = f"{uuid}.draft{number}"
                change = transaction(expected=int(handle.version), operation=operation, uuid=name)
                own_files.append(f"{place}/_transactions/{change.read_version}-{name}.txn")
                handle = self._drafted(place, handle, change)
                own_files.append(f"{place}/_versions/d{handle.version}.manifest")
        except BaseException:
            self._sweep(own_files)
            raise
        numbers = {
            _file_of(each.metadata): int(each.fragment_id) for each in handle.get_fragments()
        }
        groups = _rewrite_operation(rewritten).groups
        fragments = {
            group: frozenset(numbers[_file_of(new)] for new in made.new_fragments)
            for group, made in zip(plan.groups, groups, strict=True)
        }
        pin = Pin(table.pin.path, int(handle.version), table.pin.branch)
        return Draft(pin=pin, fragments=fragments, numbers=numbers, own_files=tuple(own_files))

    def drop(self, draft: Draft) -> None:
        """Remove what a draft left. Failing to costs a few files, nothing else."""
        for path in draft.own_files:
            with suppress(StorageFailure):
                storage_call(StorageCall.OBJECT_DELETE, path, partial(self._backend.delete, path))

    def stage(
        self,
        table: Table,
        plan: MaintenancePlan,
        draft: Draft | None,
        rewritten: Sequence[RewriteReceipt],
        segments: Sequence[SegmentReceipt],
        *,
        new_uuid: Callable[[], str],
    ) -> tuple[Staged, ...]:
        """Compose the commits that put everything in place, in the order they are to land.

        Segments of `plan.dropped_first` go, then the fragments change, then the new segments come.
        Usually there is only one of these to do, or the last two.
        """
        steps: list[tuple[StagedKind, Any, tuple[str, ...]]] = []
        known = existing_segments(table) if plan.replaced else []
        early = [each for each in known if each.uuid in plan.dropped_first]
        late = [each for each in known if each.uuid in plan.replaced - plan.dropped_first]
        if early:
            steps.append((StagedKind.INDEX, LanceOperation.CreateIndex([], early), ()))
        if draft is not None:
            moved = _rewrite_operation(rewritten, draft.numbers)
            steps.append((StagedKind.REWRITE, moved, _files(rewritten)))
        if segments or late:
            added = LanceOperation.CreateIndex(segments_of(segments, table.pin.version), late)
            steps.append((StagedKind.INDEX, added, _files(segments)))
        return self._chained(table, steps, new_uuid)

    # ------------------------------------------------------------ inside

    def _chained(
        self,
        table: Table,
        steps: Sequence[tuple[StagedKind, Any, tuple[str, ...]]],
        new_uuid: Callable[[], str],
    ) -> tuple[Staged, ...]:
        """Changes for one version after the other. Each names the one before it as its base."""
        place = tree_path(table.pin.path, table.pin.branch)
        # Only forks can be dropped and made again under one name, see `Lander`.
        before = None if table.pin.branch is None else transaction_uuid(table.dataset, place)
        chain: list[Staged] = []
        for expected, (kind, operation, files) in enumerate(steps, table.pin.version):
            uuid = new_uuid()
            chain.append(
                Staged(
                    path=table.pin.path,
                    branch=table.pin.branch,
                    expected=expected,
                    uuid=uuid,
                    kind=kind,
                    rows_after=table.row_count,
                    files=files,
                    base_uuid=before,
                    transaction=transaction(expected=expected, operation=operation, uuid=uuid),
                )
            )
            before = uuid
        return tuple(chain)

    def _drafted(self, place: str, base: Any, change: Any) -> Any:
        return storage_call(
            StorageCall.TABLE_DRAFT, place, lambda: self._gateway.draft(base, change)
        )

    def _sweep(self, own_files: Sequence[str]) -> None:
        for path in own_files:
            with suppress(StorageFailure):
                remove = partial(self._backend.delete, path)
                storage_call(StorageCall.OBJECT_DELETE, path, remove)

    def _private(self, pin: Pin) -> Table:
        dataset = storage_call(
            StorageCall.TABLE_OPEN,
            pin.path,
            lambda: self._gateway.open(pin.path, pin.version, pin.branch),
        )
        return Table(pin, dataset, self._files.checksums)


def _files(receipts: Sequence[RewriteReceipt] | Sequence[SegmentReceipt]) -> tuple[str, ...]:
    return tuple(file for receipt in receipts for file in receipt.files)


def _rewrite_fragments(
    files: Files, table: Table, fragments: Sequence[int], *, target_rows: int
) -> RewriteReceipt:
    """Write the rows of some fragments into few, durable on return. Runs on workers.

    Rows keep their identity and their versions; those that are deleted are left out.
    """
    place = tree_path(table.pin.path, table.pin.branch)
    task = storage_call(
        StorageCall.TABLE_COMPACT, place, lambda: _task(table, fragments, target_rows)
    )
    table.check(StorageCall.TABLE_SCAN)
    result: Any = storage_call(StorageCall.TABLE_WRITE, place, lambda: task.execute(table.dataset))
    described: Mapping[str, Any] = json.loads(result.json())
    written = files.checksums.add_to_names(place, _fragments(described["new_fragments"]))
    new = [fragment.to_json() for fragment in written]
    created = files.of_fragments(place, written)
    files.sync(place, created)
    return RewriteReceipt(json.dumps(described["original_fragments"]), json.dumps(new), created)


def _rewrite_operation(
    receipts: Sequence[RewriteReceipt], numbers: Mapping[str, int] | None = None
) -> Any:
    """Return the operation that puts rewritten fragments in place of the old ones.

    Args:
        receipts: What workers wrote.
        numbers: The number of each new fragment, by the name of its file. Lance gives numbers
            itself, but only after it has noted which fragments the indexes cover.
    """
    groups = []
    for receipt in receipts:
        new = _fragments(json.loads(receipt.new))
        for fragment in new if numbers is not None else ():
            fragment.id = (numbers or {})[_file_of(fragment)]
        groups.append(LanceOperation.RewriteGroup(_fragments(json.loads(receipt.old)), new))
    return LanceOperation.Rewrite(groups, [])


def _file_of(fragment: Any) -> str:
    """Return the name of a file that no other fragment has."""
    return str(fragment.files[0].path)


def _task(table: Table, fragments: Sequence[int], target_rows: int) -> Any:
    # Lance plans by rules of its own; of its plan only the options are used.
    plan: Any = LanceCompaction.plan(table.dataset, {"target_rows_per_fragment": target_rows})
    options = {**json.loads(plan.json())["options"], _NOTES_ROWS: False}
    chosen = [table.dataset.get_fragment(each).metadata.to_json() for each in fragments]
    task: Any = CompactionTask
    return task.from_json(
        json.dumps(
            {
                "task": {"fragments": chosen},
                "read_version": table.pin.version,
                "options": options,
            }
        )
    )


def _fragments(described: list[Any]) -> list[Any]:
    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in described]
