"""Copying a graph while others may write to it: plan, copy, compare, repeat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Final

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.locks.claims import Claim
from omnigraph.core.locks.holds import Holder
from omnigraph.core.maintenance.copy_plan import CopyPlan, CopyPlanner
from omnigraph.core.maintenance.copy_target import CopyTarget
from omnigraph.core.repository import Repository, components
from omnigraph.core.storage_errors import damaged, storage_errors
from omnigraph.dataplane.copy.files import CopyReceipt, CopyTask, copy_files, gather
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.runner import Runner
from omnigraph.errors import Busy, Code, Gone, InvalidInput
from omnigraph.store.root import Root
from omnigraph.types import BranchName, CommitId

_STAGE: Final = "copy"
# So often a copy is planned anew whose files were removed by a clean-up or with their branch.
_PLANS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRequest:
    """A copy as it is asked for: of everything, of one branch, or of one state."""

    target: Root
    branch: BranchName | None = None
    at: GraphVersion | None = None
    verify: bool = True
    hold: bool = False  # keep clean-ups away with a handle for reading, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A copy that is a graph now."""

    head: CommitId
    branches: tuple[BranchName, ...]
    files: int
    bytes: int
    reused: int


class Copier:
    """Copies one graph."""

    def __init__(self, repo: Repository) -> None:
        """Copy this graph."""
        self._repo = repo

    def bytes(self, request: CopyRequest) -> int:
        """The number of bytes to copy."""
        with storage_errors():
            return CopyPlanner(self._repo).plan(request.branch, request.at).bytes

    def copy(self, request: CopyRequest, runner: Runner, monitor: Monitor) -> Copied:
        """Make the copy, or go on with one that was interrupted.

        Raises:
            Conflict: There is a graph at the target, or one is being made.
            Busy: Files of the graph were removed again and again while they were copied.
        """
        _refuse_overlap(self._repo.root, request.target)
        target = CopyTarget(request.target, components(request.target))
        with storage_errors(), target.held(self._repo.root.uri) as claim:
            for _ in range(_PLANS_MAX):
                done = self._attempt(request, target, claim, runner, monitor)
                if done is not None:
                    return done
        text = "files of the graph were removed while they were copied; try again"
        raise Busy(Code.BUSY, text, uri=self._repo.root.uri)

    def _attempt(
        self,
        request: CopyRequest,
        target: CopyTarget,
        claim: Claim,
        runner: Runner,
        monitor: Monitor,
    ) -> Copied | None:
        """Copy what is there now; None if a part of it went meanwhile."""
        planner = CopyPlanner(self._repo)
        with ExitStack() as stack:
            try:
                held = [stack.enter_context(hold) for hold in self._holds(planner, request)]
            except Gone:
                if request.at is not None:
                    raise
                return None

            def keep() -> None:
                claim.check()
                for each in held:
                    each.move()

            monitor.keep = keep
            plan = planner.plan(request.branch, request.at)
            present = _present(plan, target)
            receipts = self._run(plan, present, request, runner, monitor)
            missing = {path for each in receipts for path in each.missing}
            if planner.needs(missing):
                return None
            claim.check()
            return self._finish(plan, missing, target, receipts)

    def _holds(
        self, planner: CopyPlanner, request: CopyRequest
    ) -> Iterator[AbstractContextManager[Holder]]:
        """Keep clean-ups away from the states of a copy; without `at`, from all later ones, too."""
        is_onward = request.at is None
        for state in planner.oldest_states(request.branch, request.at):
            yield self._repo.holding(state, "copy", onward=is_onward, insist=request.hold)

    def _run(
        self,
        plan: CopyPlan,
        present: frozenset[str],
        request: CopyRequest,
        runner: Runner,
        monitor: Monitor,
    ) -> list[CopyReceipt]:
        tasks = [
            CopyTask(
                source=self._repo.root,
                target=request.target,
                files=group,
                present=present & {file.path for file in group},
                verify=request.verify,
            )
            for group in gather(plan.files)
        ]
        monitor.stage(_STAGE, len(tasks))
        monitor.expect(plan.bytes)
        receipts = []
        for _, receipt in runner.run(_STAGE, copy_files, tasks):
            receipts.append(receipt)
            monitor.add(tasks=1, bytes=receipt.bytes)
            monitor.check()
        return receipts

    @staticmethod
    def _finish(
        plan: CopyPlan, missing: set[str], target: CopyTarget, receipts: list[CopyReceipt]
    ) -> Copied:
        """Compare the sizes of what is there once more, then make it a graph."""
        wanted = {file.path: file for file in plan.files if file.path not in missing}
        sizes = target.sizes()
        for path, file in wanted.items():
            if path not in sizes or (file.is_fixed and sizes[path] != file.size):
                raise damaged(path, f"it did not arrive whole at {target.root.uri}")
        target.finish(wanted, plan.schema)
        copied = sum(each.copied for each in receipts)
        return Copied(
            head=plan.head,
            branches=plan.branches,
            files=len(wanted),
            bytes=sum(each.bytes for each in receipts),
            reused=len(wanted) - copied,
        )


def _present(plan: CopyPlan, target: CopyTarget) -> frozenset[str]:
    """The files that an earlier attempt brought to the target."""
    sizes = target.sizes()
    return frozenset(
        file.path for file in plan.files if file.is_fixed and sizes.get(file.path) == file.size
    )


def _refuse_overlap(source: Root, target: Root) -> None:
    """Refuse a target inside of the graph, or around it."""
    one, other = f"{source.uri}/", f"{target.uri}/"
    if one.startswith(other) or other.startswith(one):
        text = f"a graph at {source.uri} cannot be copied to {target.uri}: one holds the other"
        raise InvalidInput(Code.INPUT_INVALID, text, uri=target.uri)
