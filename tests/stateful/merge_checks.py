"""What has to hold of every merge, whatever the schemas and the histories of both sides are.

A merge is tried on copies of the branch that it goes into, so that each way of settling its
conflicts starts from the same state.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Callable
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Conflict, ConstraintViolated, InvalidInput
from omnigraph.exec import tuning
from omnigraph.lang.catalog.canonical import shape_digest
from omnigraph.lang.catalog.model import Catalog
from omnigraph.store.root import Root
from omnigraph.testing.naive.graph import entity_type
from tests.dice import Dice
from tests.stateful.branch_states import (
    STORED,
    State,
    applied,
    baseline,
    catalog_of,
    check_rules,
    same,
    state,
    stored,
)
from tests.stateful.drawn_writes import DrawnWrites

OTHER = {"ours": "theirs", "theirs": "ours"}
# Conflicts of one entity at which both sides look alike, and so do their values.
ENTITY_KINDS = ("divergent_insert", "divergent_update", "delete_vs_update")
TURNS_MAX = 12
BY_TASKS = {"held_merge_rows_max": 0, "merge_task_rows": 2, "merge_keys": 4, "merge_sent_rows": 5}


class MergeChecks:
    """Checks merges of a graph on copies of its branches."""

    def __init__(
        self, graph: og.Graph, folder: Path, dice: Dice, note: Callable[..., None]
    ) -> None:
        self._graph, self._folder, self._dice, self._note = graph, folder, dice, note
        self._numbers = count()
        self._copies: list[str] = []

    def check(self, source: str, into: str) -> og.MergeResult | None:
        """Check the merge of one branch into another one, and return what a dry run says.

        There is nothing to return when the schemas themselves cannot be merged.
        """
        terms: dict[str, Any] = {"granularity": "row"} if self._dice.is_so(0.1) else {}
        self._note("check merge", source, into, terms)
        try:
            plan = self._planned(source, into, **terms)
        except Conflict:
            with pytest.raises(Conflict, match="schemas of"):
                self._planned(into, source, **terms)
            return None
        self._check_mirrored(plan, self._planned(into, source, **terms))
        if plan.conflicts:
            copy = self._copy(into)
            with pytest.raises(Conflict):
                self._graph.branches.merge(source, copy, **terms)
            assert self._graph.diff(into, copy).is_empty
            self._check_sides(source, into, terms)
            self._check_function(source, into, terms)
            self._check_file(source, into, terms)
        else:
            done = self._done(source, into, None, terms)
            if done is not None and plan.outcome == "merged":
                self._check_other_way(source, into, done, None, terms)
        return plan

    def forget_copies(self) -> None:
        for name in reversed(self._copies):
            self._graph.branches.delete(name)
        self._copies.clear()

    def _copy(self, branch: str, at: str | None = None) -> str:
        name = f"copy{next(self._numbers)}"
        self._graph.branches.create(name, branch, at=at)
        self._copies.append(name)
        return name

    def _planned(self, source: str, into: str, **terms: Any) -> og.MergeResult:
        """A dry run, which writes nothing."""
        files = self._files()
        plan = self._graph.branches.merge(source, into, dry_run=True, **terms)
        assert self._files() == files
        return plan

    def _files(self) -> dict[Path, tuple[int, int]]:
        root = Path(Root.parse(self._graph.uri).uri)
        found = {path: path.stat() for path in root.rglob("*") if path.is_file()}
        return {path: (about.st_size, about.st_mtime_ns) for path, about in found.items()}

    # -- both directions ---------------------------------------------------------------------------

    @staticmethod
    def _check_mirrored(plan: og.MergeResult, mirrored: og.MergeResult) -> None:
        """The same conflicts from the other side; of equal values either owner may be named."""
        if plan.outcome != "merged":
            return
        assert mirrored.outcome == "merged"
        counts = [
            Counter(
                (item.kind, item.type, "" if item.kind == "unique_violation" else item.id)
                for item in each.conflicts
            )
            for each in (plan, mirrored)
        ]
        assert counts[0] == counts[1]
        twins = {item.key: item for item in mirrored.conflicts}
        for item in plan.conflicts:
            twin = twins.get(item.key)
            if twin is not None and item.kind != "unique_violation":
                assert (item.ours, item.theirs, item.base) == (twin.theirs, twin.ours, twin.base)

    def _check_other_way(
        self, source: str, into: str, done: str, side: str | None, terms: dict[str, Any]
    ) -> None:
        """The other way, settled by the other side, gives the same."""
        other = self._copy(source)
        self._note("the other way", into, other)
        resolve = OTHER[side] if side else None
        try:
            self._graph.branches.merge(into, other, resolve=resolve, **terms)
        except Conflict:
            assert side is not None, "only what was settled by a side may be left by the other one"
            assert self._schemas_differ(source, into)
            return
        if shape_digest(self._catalog(other)) == shape_digest(self._catalog(done)):
            same(state(self._graph, other), state(self._graph, done), "the other way")
        else:
            assert side is not None, "one schema from both sides"

    # -- one merge ---------------------------------------------------------------------------------

    def _done(self, source: str, into: str, resolve: Any, terms: dict[str, Any]) -> str | None:
        """The copy on which a merge is done; None when conflicts are left."""
        graph, copy = self._graph, self._copy(into)
        self._note("merge", source, copy, resolve if isinstance(resolve, str | None) else "by hand")
        plan = self._planned(source, copy, resolve=resolve, **terms)
        if plan.conflicts:
            with pytest.raises(Conflict) as caught:
                graph.branches.merge(source, copy, resolve=resolve, **terms)
            told = Counter((item["kind"], item["entity_id"]) for item in caught.value.conflicts)
            assert told == Counter((item.kind.value, item.id) for item in plan.conflicts)
            return None
        start = graph.snapshot(copy).commit
        before, schema = state(graph, copy), self._catalog(copy)
        done = graph.branches.merge(source, copy, resolve=resolve, **terms)
        assert (done.outcome, done.base) == (plan.outcome, plan.base)
        assert (done.counts, done.settled) == (plan.counts, plan.settled)
        after = state(graph, copy)
        if done.outcome == "already_up_to_date":
            same(after, before, "nothing to merge")
            return copy
        check_rules(self._catalog(copy), after)
        if done.outcome == "fast_forward":
            assert self._catalog(copy) == self._catalog(source)
            same(after, state(graph, source), "a fast-forward")
        self._check_chosen(done, after)
        same(baseline(graph, copy), after, "a baseline of the feed")
        if self._catalog(copy) == schema:
            same(applied(graph.diff(start, copy), before), after, "a diff")
            same(applied(graph.diff(copy, start), after), before, "a diff backwards")
            is_counted = done.outcome == "merged" or tuning.active.fast_forward_rows_min > 1
            assert not is_counted or graph.diff(start, copy).counts == done.counts
        assert graph.branches.merge(source, copy).outcome == "already_up_to_date"
        self._check_result(source, copy, start, after)
        # Of two owners of a value by hand either may be asked about, and the answers differ.
        is_one_way = not callable(resolve) or all(
            item.kind != "unique_violation" for item, _ in done.settled
        )
        if self._dice.is_so(0.3) and is_one_way:
            self._check_by_tasks(source, copy, start, resolve, terms, done)
        if done.commit is not None and self._dice.is_so(0.4):
            self._check_reverts(self._copy(copy), done.commit.id, before, after)
        return copy

    def _check_result(self, source: str, copy: str, start: str, after: State) -> None:
        """What was merged is a fast-forward for the side that it came from."""
        if self._dice.is_so(0.3):
            back = self._copy(source)
            assert self._graph.branches.merge(copy, back).outcome == "fast_forward"
            same(state(self._graph, back), after, "back to the source")

    def _check_by_tasks(
        self,
        source: str,
        copy: str,
        start: str,
        resolve: Any,
        terms: dict[str, Any],
        done: og.MergeResult,
    ) -> None:
        """A merge that is too large for the memory does the same."""
        other = self._copy(copy, start)
        with tuning.tuned(**BY_TASKS):
            found = self._graph.branches.merge(source, other, resolve=resolve, **terms)
        assert (found.outcome, found.counts) == (done.outcome, done.counts)
        assert sorted(map(repr, found.settled)) == sorted(map(repr, done.settled))
        same(state(self._graph, other), state(self._graph, copy), "by tasks")

    def _check_reverts(self, copy: str, commit: str, before: State, after: State) -> None:
        """What is taken back is as before; to take that back brings it again."""
        graph = self._graph
        self._note("revert", copy)
        try:
            reverted = graph.branches.revert(commit, copy)
            same(state(graph, copy), before, "a revert")
            if reverted.commit is not None:
                graph.branches.revert(reverted.commit.id, copy)
            same(state(graph, copy), after, "a revert of a revert")
        except ConstraintViolated:
            pass  # a state from before a rule was made breaks it
        except Conflict as error:
            if "schemas" not in str(error):
                raise

    # -- settled merges ----------------------------------------------------------------------------

    def _check_sides(self, source: str, into: str, terms: dict[str, Any]) -> None:
        for side in OTHER:
            done = self._done(source, into, side, terms)
            if done is None:
                # A value that no rule of the merged schema allows is on both sides.
                assert self._schemas_differ(source, into)
            else:
                self._check_other_way(source, into, done, side, terms)

    def _check_function(self, source: str, into: str, terms: dict[str, Any]) -> None:
        salt, catalog = self._dice.below(1 << 30), self._catalog(into)
        kinds: list[str | None] = self._dice.one(
            [["ours", "theirs"], [*OTHER, "base"], [*OTHER, None], ["value"]]
        )

        def chosen(conflict: og.MergeConflict) -> Any:
            """The same choice whenever it is asked for."""
            dice = Dice(zlib.crc32(f"{salt} {conflict.key}".encode()))
            kind = dice.one(
                [each for each in kinds if each in (None, *conflict.choices)] or ["ours"]
            )
            if kind != "value":
                return kind
            entity = entity_type(catalog, f"{conflict.entity_kind}:{conflict.type}")
            named = [each for each in entity.properties if each.name in conflict.properties]
            values = {each.name: DrawnWrites(dice).value(each) for each in named}
            return values or "ours"

        try:
            self._done(source, into, chosen, terms)
        except InvalidInput:
            assert "value" in kinds or "base" in kinds  # it breaks a rule by itself

    def _check_file(self, source: str, into: str, terms: dict[str, Any]) -> None:
        """A file of resolutions is filled until nothing is left to settle."""
        path = self._folder / f"{into}.jsonl"
        found = self._planned(source, into, **terms)
        for _ in range(TURNS_MAX):
            if not found.conflicts:
                self._done(source, into, path, terms)
                return
            found.write_resolutions(path)
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line in lines:
                free = [each for each in line["choices"] if each != "value"]
                line["choice"] = line["choice"] or self._dice.one(free)
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            try:
                found = self._planned(source, into, resolve=path, **terms)
            except (Conflict, InvalidInput) as error:
                self._note("by a file", error)
                return

    @staticmethod
    def _check_chosen(done: og.MergeResult, after: State) -> None:
        """What was chosen is there, unless another conflict was about it, too."""
        if any(item.kind not in ENTITY_KINDS for item, _ in done.settled):
            return
        about = Counter((item.entity_kind, item.type, item.id) for item, _ in done.settled)
        for item, choice in done.settled:
            if about[item.entity_kind, item.type, item.id] > 1:
                continue
            now = after.get((f"{item.entity_kind}:{item.type}", str(item.id)))
            wanted = getattr(item, choice) if isinstance(choice, str) else choice
            if wanted is None:
                assert now is None, (item, choice)
                continue
            assert now is not None, (item, choice)
            image = stored(str(item.id), wanted)
            for name in [STORED.get(each, each) for each in item.properties or wanted]:
                assert as_told(now[name]) == as_told(image[name]), (item, choice)

    def _catalog(self, branch: str) -> Catalog:
        return catalog_of(self._graph, branch)

    def _schemas_differ(self, source: str, into: str) -> bool:
        return self._catalog(source) != self._catalog(into)


def as_told(value: Any) -> Any:
    """A value as a conflict or a choice tells it: a date as text, and a blob by its size."""
    if isinstance(value, str) and value.startswith("base64:"):
        return len(base64.b64decode(value.removeprefix("base64:")))
    if isinstance(value, dict):
        return value["size"]
    return value.isoformat() if isinstance(value, date) else value
