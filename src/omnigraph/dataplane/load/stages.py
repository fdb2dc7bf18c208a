"""The stages of a load, one after another, each run by a runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, TypeVar

from omnigraph.dataplane import tuning
from omnigraph.dataplane.load.committed import (
    ColumnRequest,
    LoadBase,
    ScanTask,
    scan_stored,
    scan_tasks,
)
from omnigraph.dataplane.load.deletions import (
    DeletionTask,
    Shares,
    StagedDeletions,
    deletion_tasks,
    shares_of,
    write_deletions,
)
from omnigraph.dataplane.load.exchange import (
    ID,
    Placed,
    SentKeys,
    ends_channel,
    ids_channel,
    left_channel,
    values_channel,
)
from omnigraph.dataplane.load.judge import JudgeTask, judge_partitions
from omnigraph.dataplane.load.judge_nodes import ends_of, is_counted
from omnigraph.dataplane.load.match import MATCHED, MatchTask, match_partitions
from omnigraph.dataplane.load.overwrite import (
    OrphanTask,
    find_orphans,
    retained,
    retained_requests,
)
from omnigraph.dataplane.load.plan import LoadPlan, key_of
from omnigraph.dataplane.load.receipt import Fragments, ReadReceipt
from omnigraph.dataplane.load.violations import LoadViolations, collector
from omnigraph.dataplane.load.write_task import WriteTask, write_split
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.staging import StagedPart
from omnigraph.embed.missing import MissingVectors
from omnigraph.lang.catalog.model import EdgeType
from omnigraph.rules.unique import uniques
from omnigraph.rules.violation import Violations
from omnigraph.store.table import LIST_KEYS_MAX
from omnigraph.store.tables import DeletionReceipt, FragmentReceipt, Table

Item = TypeVar("Item")
Result = TypeVar("Result")

_OF_KEYS: Final = frozenset({"match", "judge", "orphans"})
_COMMITTED: Final = -1  # the split of what no input says


@dataclass(slots=True)
class Verdict:
    """The result of judging a load on one base.

    Attributes:
        violations: Everything that breaks a rule; files are splits still.
        fragments: What was written, by table key.
        dead: Where the addresses of committed rows are that go or are replaced.
        missing: Vectors that were left null for want of a provider.
    """

    violations: LoadViolations
    fragments: dict[str, list[FragmentReceipt]] = field(default_factory=dict)
    dead: list[StagedDeletions] = field(default_factory=list)
    missing: list[MissingVectors] = field(default_factory=list)

    def add_fragments(self, found: Mapping[str, Sequence[FragmentReceipt]]) -> None:
        """Take over what a task wrote."""
        for key, receipts in found.items():
            self.fragments.setdefault(key, []).extend(receipts)


class Stages:
    """Runs the stages that follow the reading. One object per base."""

    def __init__(
        self,
        plan: LoadPlan,
        base: LoadBase,
        receipts: Sequence[ReadReceipt],
        runner: Runner,
        monitor: Monitor,
    ) -> None:
        """Work on what was read."""
        divided = max((receipt.partitions for receipt in receipts), default=1)
        self._plan = replace(plan, partitions=divided)
        self._base = base
        self._receipts = receipts
        self._runner = runner
        self._monitor = monitor
        self._sent: list[list[SentKeys]] = [[] for _ in range(divided)]
        self._channels: set[str] = set()
        self._stored: set[ColumnRequest] = set()
        for receipt in receipts:
            self._send(receipt.split, receipt.staged_parts)

    @property
    def _is_divided(self) -> bool:
        return len(self._sent) > 1

    def run(self, *, cascade: bool) -> Verdict:
        """Take the load as far as it gets without a commit."""
        verdict = Verdict(collector(self._plan))
        for receipt in self._receipts:
            verdict.violations.merge(receipt.violations)
            verdict.add_fragments(receipt.fragments)
            verdict.missing += receipt.missing
        if self._plan.mode == "merge":
            self._match_and_write(verdict)
        if self._plan.mode == "overwrite":
            self._find_orphans(verdict, cascade)
        self._judge(verdict)
        return verdict

    def delete(
        self, verdict: Verdict, tables: Mapping[str, Table]
    ) -> Mapping[str, list[DeletionReceipt]]:
        """Write the deletion files of tables for the rows that go; the receipts, by table key."""
        held = {
            key: self._plan.worker_tables.tables.fragments_to_compact(table)
            for key, table in tables.items()
        }
        tasks = deletion_tasks(self._plan, verdict.dead, tables, held)
        found: dict[str, list[DeletionReceipt]] = {}
        for number, receipt in self._numbered("delete", write_deletions, tasks):
            found.setdefault(tasks[number].key, []).append(receipt)
        return found

    def _shares(self, keys: Iterable[str]) -> Shares:
        tables = self._plan.worker_tables.tables
        return {key: shares_of(tables.open(self._base.tables[key].pin)) for key in keys}

    # -- the stages --------------------------------------------------------------------------------

    def _match_and_write(self, verdict: Verdict) -> None:
        waiting = [receipt for receipt in self._receipts if receipt.spilled]
        if not waiting:
            return
        entities = (*self._plan.catalog.nodes, *self._plan.catalog.edges)
        matched = [key_of(e) for e in entities if self._plan.is_matched(e)]
        self._scan(
            ColumnRequest(key=k, columns=MATCHED) for k in matched if self._has(ids_channel(k))
        )
        tasks = [
            MatchTask(
                plan=self._plan, base=self._base, partitions=group, is_divided=self._is_divided
            )
            for group in self._groups()
        ]
        matches: dict[int, list[StagedPart]] = {}
        for found in self._run("match", match_partitions, tasks):
            verdict.violations.merge(found.violations)
            for split, staged_part in found.staged_parts:
                matches.setdefault(split, []).append(staged_part)
        shares = self._shares(key for key in matched if self._base.tables[key].rows)
        writes = [
            WriteTask(
                plan=self._plan,
                base=self._base,
                split=receipt.split,
                spilled=receipt.spilled,
                matches=tuple(matches.get(receipt.split, ())),
                shares=shares,
                writes=not verdict.violations,
            )
            for receipt in waiting
        ]
        done = dict(self._numbered("write", write_split, writes))
        for number, receipt in enumerate(waiting):
            written = done[number]
            verdict.violations.merge(written.violations)
            verdict.add_fragments(written.fragments)
            verdict.dead += written.dead
            verdict.missing += written.missing
            self._send(receipt.split, written.staged_parts)

    def _find_orphans(self, verdict: Verdict, cascade: bool) -> None:
        if not any(retained(self._plan.catalog, self._base)):
            return
        self._scan(retained_requests(self._plan.catalog, self._base))
        edges = (edge for _, edge, _, _ in retained(self._plan.catalog, self._base))
        shares = self._shares({key_of(edge) for edge in edges})
        tasks = [
            OrphanTask(
                plan=self._plan,
                base=self._base,
                partitions=group,
                is_divided=self._is_divided,
                shares=shares,
                cascade=cascade,
            )
            for group in self._groups()
        ]
        for found in self._run("orphans", find_orphans, tasks):
            verdict.violations.merge(found.violations)
            verdict.dead += found.dead
            self._send(_COMMITTED, found.staged_parts)

    def _judge(self, verdict: Verdict) -> None:
        if not self._channels and not self._base.replaced:
            return
        self._scan(self._requests())
        tasks = [
            JudgeTask(
                plan=self._plan, base=self._base, partitions=group, is_divided=self._is_divided
            )
            for group in self._groups()
        ]
        for found in self._run("judge", judge_partitions, tasks):
            verdict.violations.merge(found.violations)

    def _scan(self, requests: Iterable[ColumnRequest]) -> None:
        """Send committed rows to their partitions, if there are any."""
        if not self._is_divided:
            return
        wanted = {
            request for request in requests if self._base.tables[request.key].rows
        } - self._stored
        self._stored |= wanted
        tasks = scan_tasks(self._plan, self._base, sorted(wanted, key=lambda w: (w.key, w.columns)))
        for found in self._run("scan", scan_stored, tasks):
            self._send(_COMMITTED, found.staged_parts)

    # -- what the judges need of committed rows ----------------------------------------------------

    def _requests(self) -> list[ColumnRequest]:
        catalog, replaced = self._plan.catalog, self._base.replaced
        requests: list[ColumnRequest] = []
        for node in catalog.nodes:
            key = key_of(node)
            ends = ends_of(catalog, node)
            named = any(self._has(ends_channel(edge.name, end)) for edge, end in ends)
            left = any(end == "src" and self._leaves(edge) for edge, end in ends)
            if key not in replaced and (named or left or self._adds(key)):
                requests.append(ColumnRequest(key=key, columns=(ID,)))
        for edge in catalog.edges:
            key = key_of(edge)
            if key not in replaced and self._adds(key):
                requests.append(ColumnRequest(key=key, columns=(ID,)))
            if self._counts(edge):
                requests.append(ColumnRequest(key=key, columns=("src",)))
        for entity in (*catalog.nodes, *catalog.edges):
            key = key_of(entity)
            requests += [
                ColumnRequest(key=key, columns=(*columns, ID), keys=len(columns))
                for columns in uniques(entity)
                if key not in replaced and self._has(values_channel(key, columns))
            ]
        return requests

    def _adds(self, key: str) -> bool:
        """True if the ids of the type must be new."""
        return self._plan.mode == "append" and self._has(ids_channel(key))

    def _counts(self, edge: EdgeType) -> bool:
        """True if a rule depends on how many committed edges there are."""
        if key_of(edge) in self._base.replaced:
            return bool(edge.cardinality.low)
        touched = self._has(ends_channel(edge.name, "src")) or self._leaves(edge)
        return is_counted(edge) and touched

    def _leaves(self, edge: EdgeType) -> bool:
        """True if some sources may have fewer edges than before."""
        return self._has(left_channel(edge.name)) or key_of(edge) in self._base.replaced

    def _has(self, channel: str) -> bool:
        return channel in self._channels

    def _stays_here(self, stage: str, items: Sequence[object]) -> bool:
        """True if there is so little to do that sending it to workers takes longer.

        This process looks at no more than `driver_keys`; on Spark only if it is one task.
        """
        is_near = self._plan.worker_tables.root.is_local and stage in _OF_KEYS
        if stage == "write" or not (is_near or len(items) == 1):
            return False
        if stage == "delete":
            rows = sum(item.rows for item in items if isinstance(item, DeletionTask))
            return rows <= min(tuning.active.few_keys_max, self._plan.driver_keys)
        keys = sum(map(_keys_in, self._sent))
        rows = sum(item.rows for item in items if isinstance(item, ScanTask))
        if not self._is_divided and keys > LIST_KEYS_MAX:
            rows += sum(self._base.tables[key].rows for key in self._read_by(stage))
        return rows + keys <= self._plan.driver_keys

    def _read_by(self, stage: str) -> set[str]:
        """The committed tables that a stage reads through, unless their rows were sent to it."""
        if stage == "match":
            return {key for key in self._base.tables if self._has(ids_channel(key))}
        if stage == "orphans":
            return {key_of(edge) for _, edge, _, _ in retained(self._plan.catalog, self._base)}
        return {request.key for request in self._requests()}

    # -- running -----------------------------------------------------------------------------------

    def _send(self, split: int, staged_parts: Iterable[Placed]) -> None:
        for partition, staged_part in staged_parts:
            self._sent[partition].append(SentKeys(split=split, staged_part=staged_part))
            self._channels.update(staged_part.rows)

    def _groups(self) -> list[tuple[tuple[SentKeys, ...], ...]]:
        """The partitions, several for one task where they are small."""
        ends = list(accumulate(map(_keys_in, self._sent)))
        total = ends[-1]
        wanted = (
            1
            if total < tuning.active.few_keys_max
            else max(self._runner.parallelism, total // tuning.active.task_keys)
        )
        groups: list[list[tuple[SentKeys, ...]]] = [[] for _ in range(wanted)]
        for sent, end in zip(self._sent, ends, strict=True):
            groups[max(0, end - 1) * wanted // max(1, total)].append(tuple(sent))
        return [tuple(group) for group in groups if group]

    def _run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterable[Result]:
        return (result for _, result in self._numbered(stage, task, items))

    def _numbered(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterable[tuple[int, Result]]:
        if not items:
            return
        self._monitor.stage(stage, len(items))
        runner = self._runner
        if runner.is_remote and self._stays_here(stage, items):
            runner = InProcessRunner(stop=self._monitor.stop)
        results = runner.run(stage, task, items)
        for number, result in results:
            found: Violations | None = getattr(result, "violations", None)
            self._monitor.add(
                tasks=1,
                violations=0 if found is None else found.total,
                rows_again=_rows_in(result),
            )
            self._monitor.check()
            yield number, result


def _rows_in(receipt: object) -> int:
    """The number of rows that a task wrote; of one that only sent keys on, of those."""
    fragments: Fragments | None = getattr(receipt, "fragments", None)
    if fragments:
        return sum(each.rows for found in fragments.values() for each in found)
    staged_parts = getattr(receipt, "staged_parts", ())
    return sum(sum(staged_part.rows.values()) for _, staged_part in staged_parts)


def _keys_in(sent: Iterable[SentKeys]) -> int:
    """The number of keys that were sent to a partition."""
    return sum(sum(each.staged_part.rows.values()) for each in sent)
