"""The change feed of a branch: what its commits changed, in their order, from a cursor on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal, cast

import pyarrow as pa

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.layout import table_key
from omnigraph.core.locks.holds import NO_HOLD, Holder
from omnigraph.core.repository import Repository
from omnigraph.core.schema.named_types import chosen_types
from omnigraph.core.storage_errors import storage_errors
from omnigraph.dataplane.changes.commit_window import RowChange
from omnigraph.errors import Code, Gone, InvalidInput, NotFound
from omnigraph.exec import tuning
from omnigraph.exec.changes.cursor import Cursor, decode
from omnigraph.exec.changes.feed import changes_of_commits
from omnigraph.graph.arguments import seconds, whole_number
from omnigraph.graph.values import commit_of
from omnigraph.graph.versioning.diff import Diff
from omnigraph.lang.catalog.model import EntityType
from omnigraph.policy.authorization import Authorizer, Permission
from omnigraph.results.changes import Change, ChangeEvent, ChangePage, OperationName
from omnigraph.results.commits import Commit
from omnigraph.runtime import cancellation
from omnigraph.runtime.clock import Clock
from omnigraph.types import MAIN, BranchName, CommitId

Start = Literal["beginning", "now"]
# Compares two states of a graph, named by commits; types by their tokens.
Compare = Callable[[str, str, Collection[str] | None, Collection[OperationName] | None], Diff]

_US_PER_S = 1_000_000


class Baseline:
    """The state of a branch at one commit, and the cursor from which its change feed goes on.

    Iterating yields every entity as a change that inserts it, nodes before edges, as it is read;
    iterating twice reads twice, the same state.

    Attributes:
        commit: The id of the commit.
        cursor: The place in the feed behind that commit.
    """

    def __init__(self, state: Diff, cursor: str) -> None:
        """Show a state; use `ChangeFeed.baseline` instead."""
        self._state = state
        self.commit = state.newer
        self.cursor = cursor

    def __repr__(self) -> str:
        return f"Baseline(commit={self.commit!r})"

    def __iter__(self) -> Iterator[Change]:
        return self._state.newer_state()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the entities as Arrow batches, with the type of each; columns as in `Diff`."""
        return self._state.newer_state_batches()


class ChangeFeed:
    """The change feed of one graph; `graph.changes`.

    A client that keeps the cursor of the last page it has handled gets every change at least once.
    A cursor belongs to one branch, also when another branch is made under the same name, and to
    the types and operations that it was made for.
    """

    def __init__(
        self,
        repo: Repository,
        authorizer: Authorizer,
        clock: Clock,
        compare: Compare,
        branch: BranchName = MAIN,
    ) -> None:
        """Read the history of this repository."""
        self._repo = repo
        self._authorizer = authorizer
        self._clock = clock
        self._compare = compare
        self._branch = branch

    def poll(
        self,
        cursor: str | None = None,
        *,
        branch: str | None = None,
        start: Start = "beginning",
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
        limit: int = 1_000,
    ) -> ChangePage:
        """Read the changes that follow a cursor; without one, start anew.

        Example:
            ```python
            page = graph.changes.poll(start="now")
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            page = graph.changes.poll(page.cursor)
            assert [event.change.id for event in page.events] == ["Cy"]
            assert not page.more
            ```

        Args:
            cursor: Where the last page ended. It holds its branch, types and operations, so these
                may be left out; others than its own are refused.
            branch: Which branch to follow.
            start: `beginning` for all of its history, `now` for what comes from now on.
            types: Only these types, by name or as `node:Person`.
            operations: Only `insert`, `update` or `delete`.
            limit: At most so many events.

        Raises:
            Gone: The history between the cursor and now is not there any more. Start over with
                `baseline`: the present state, and a new cursor.
        """
        most = whole_number(limit, "a limit", 1)
        if cursor is None:
            place = self._started(branch, start, types, operations)
        else:
            place = self._continued(cursor, branch, types, operations)
        events: list[ChangeEvent] = []
        for commit, changes in self._delivered(place, most):
            cancellation.check()
            last: Change | None = None
            for change in changes:
                if len(events) == most:
                    if last is not None:
                        key = f"{last.kind}:{last.type}"
                        place = replace(place, commit=commit.id, type_key=key, entity_id=last.id)
                    return ChangePage(events=tuple(events), cursor=place.encode(), more=True)
                events.append(ChangeEvent(commit=commit, change=change))
                last = change
            place = replace(place, commit=commit.id, type_key=None, entity_id=None)
        return ChangePage(events=tuple(events), cursor=place.encode(), more=False)

    def baseline(
        self,
        *,
        branch: str | None = None,
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
    ) -> Baseline:
        """Read the present state, and the cursor from which the feed goes on.

        This is how a copy is made that the feed then keeps up to date, and how to start over
        after a `Gone`. Both belong to one commit: no change is lost between them, and none comes
        twice.

        Example:
            ```python
            base = graph.changes.baseline()
            copy = {(item.type, item.id): item.after for item in base}
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            for event in graph.changes.poll(base.cursor).events:
                copy[event.change.type, event.change.id] = event.change.after
            assert ("Person", "Cy") in copy
            ```

        Args:
            branch: Which branch.
            types: Only these types, by name or as `node:Person`, here and in the feed.
            operations: Only these operations, in the feed.
        """
        self._authorizer.ask(
            Permission.EXPORT, self._branch if branch is None else BranchName(branch)
        )
        place = self._started(branch, "now", types, operations)
        commit = str(place.commit)
        return Baseline(self._compare(commit, commit, place.types, None), place.encode())

    def follow(
        self,
        cursor: str | None = None,
        *,
        branch: str | None = None,
        start: Start = "now",
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
        limit: int = 1_000,
        every: float = 1.0,
    ) -> Iterator[ChangePage]:
        """Yield pages with events without end, and wait while there are none.

        From this call on, clean-ups keep what is still to come, until the iterator is closed.

        Example:
            ```python
            for page in graph.changes.follow(start="beginning"):
                handled = [event.change for event in page.events]
                break
            ```

        Args:
            cursor: Where the last page ended.
            branch: Which branch to follow.
            start: `beginning` for all of its history, `now` for what comes from now on.
            types: Only these types.
            operations: Only these operations.
            limit: At most so many events on a page.
            every: How many seconds to wait before looking again.
        """
        pause = int((seconds(every) or 1.0) * _US_PER_S)
        if cursor is None:
            cursor = self._started(branch, start, types, operations).encode()
        else:
            self._continued(cursor, branch, types, operations)
        pages = self._pages(cursor, limit, pause)
        next(pages)
        return cast("Iterator[ChangePage]", pages)

    def _pages(self, cursor: str, limit: int, pause: int) -> Iterator[ChangePage | None]:
        """The pages of a feed, after a None once it holds what is to come; closing ends it."""
        with self._open(decode(cursor)) as held:
            yield None
            while True:
                page = self.poll(cursor, limit=limit)
                cursor = page.cursor
                held.move(self._oldest_needed(decode(cursor)))
                if page.events:
                    yield page
                elif not page.more:
                    self._clock.wait(pause)

    def _open(self, place: Cursor) -> AbstractContextManager[Holder]:
        """Keep what follows a cursor from clean-ups as long as the feed is open."""
        state = self._oldest_needed(place)
        if state is None:
            return nullcontext(NO_HOLD)
        return self._repo.holding(state, "feed", onward=True)

    def _oldest_needed(self, place: Cursor) -> GraphVersion | None:
        """The state against which the next changes are computed; None if it is unknown."""
        branch = self._branch_of(place)
        if place.commit is None:
            commit: CommitId | None = list(self._repo.commits(branch))[-1].id
        elif place.position is None:
            commit = CommitId(place.commit)
        else:
            # The rest of this commit is still to come.
            commit = self._repo.commit_info(CommitId(place.commit), branch).parent_id
        return None if commit is None else self._repo.manifest.place_of(branch, commit)

    def _started(
        self,
        branch: str | None,
        start: str,
        types: Sequence[str] | None,
        operations: Collection[OperationName] | None,
    ) -> Cursor:
        if start not in ("beginning", "now"):
            text = f"a feed starts at the 'beginning' or 'now', not at {start!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        known = self._branch if branch is None else BranchName(branch)
        self._authorizer.ask(Permission.READ, known)
        now = self._repo.snapshot(known)
        catalog = self._repo.schema(now).catalog
        tokens = None if types is None else tuple(map(type_token, chosen_types(catalog, types)))
        # Refuses operations that do not exist.
        self._compare(now.head, now.head, tokens, operations)
        return Cursor(
            branch=str(now.branch),
            incarnation=now.incarnation,
            commit=str(now.head) if start == "now" else None,
            types=tokens,
            operations=None if operations is None else tuple(sorted(operations)),
        )

    def _continued(
        self,
        cursor: str,
        branch: str | None,
        types: Sequence[str] | None,
        operations: Collection[OperationName] | None,
    ) -> Cursor:
        """The place of a cursor, which was made for what is named now."""
        place = decode(cursor)
        if branch is None and types is None and operations is None:
            return place
        home = self._branch_of(place)
        wanted = self._started(str(home), "now", types, operations)
        differs = {
            "branch": branch is not None and not self._is_home(BranchName(branch), home, place),
            "types": types is not None and set(wanted.types or ()) != set(place.types or ()),
            "operations": operations is not None and wanted.operations != place.operations,
        }
        if any(differs.values()):
            names = ", ".join(name for name, other in differs.items() if other)
            text = f"the cursor was made for other {names}; leave them out, or start without cursor"
            raise InvalidInput(Code.INPUT_INVALID, text)
        return place

    def _delivered(self, place: Cursor, most: int) -> Iterator[tuple[Commit, Iterable[Change]]]:
        """Yield the commits behind a cursor with their changes, many small ones read at once."""
        branch = self._branch_of(place)
        commits = self._commits_after(place, branch)
        number, told = 0, 0
        while number < len(commits):
            asked: list[CommitRecord] = []
            if place.position is None or commits[number].id != place.commit:
                asked = commits[number : number + tuning.active.feed_commits_max]
            found = self._together(branch, asked, place, most - told + 1)
            for commit, changes in zip(asked, found, strict=False):
                yield commit_of(commit), changes
                told += len(changes)
            number += len(found)
            if len(found) < max(len(asked), 1):
                commit = commits[number]
                position = place.position if commit.id == place.commit else None
                yield commit_of(commit), self._changes(commit_of(commit), place).after(position)
                number += 1

    def _together(
        self, branch: BranchName, commits: Sequence[CommitRecord], place: Cursor, wanted: int
    ) -> list[list[Change]]:
        """The changes of the first of some commits, if they are small; perhaps of none."""
        start = commits[0].parent_id if len(commits) > 1 else None
        if start is None:
            return []
        operations = place.operations
        try:
            with storage_errors():
                states = self._repo.manifest.at_commits(branch, start, commits)
            catalog = self._repo.schema(states[0]).catalog
            types = [
                each
                for each in (*catalog.nodes, *catalog.edges)
                if place.types is None or type_token(each) in place.types
            ]
            keys = [table_key(each.kind, each.name) for each in types]
            for name in {state.branch for state in states}:
                self._authorizer.ask(Permission.READ, name, types=keys)
            found = changes_of_commits(self._repo, states, types, wanted)
        except (Gone, NotFound):
            return []  # whose fault it is shows when they are read one by one
        return [
            [
                _shown(entity, change)
                for entity, change in changes
                if operations is None or change.operation.value in operations
            ]
            for changes in found
        ]

    def _commits_after(self, place: Cursor, branch: BranchName) -> list[CommitRecord]:
        """The commits of which something is left to deliver, oldest first."""
        history = self._repo.commits(branch)
        if place.commit is None:
            return list(history)[::-1]
        found: list[CommitRecord] = []
        for commit in history:
            if commit.id == place.commit:
                break
            found.append(commit)
        else:
            # A clean-up may have taken its record, but not its place before the commits that stay.
            if not found or found[-1].parent_id != place.commit:
                text = f"commit {place.commit} is no longer in the history of '{branch}'"
                raise _gone(text, place)
        if place.position is not None:
            found.append(self._repo.commit_info(CommitId(place.commit), branch))
        return found[::-1]

    def _is_home(self, name: BranchName, home: BranchName, place: Cursor) -> bool:
        """True for the name of a cursor's branch, and for its former one, unless another has it."""
        return name == home or (name == place.branch and name not in self._repo.manifest.names())

    def _branch_of(self, place: Cursor) -> BranchName:
        """The branch of a cursor; it may have been renamed since."""
        branch, missing = BranchName(place.branch), None
        self._authorizer.ask(Permission.READ, branch)
        try:
            if self._repo.snapshot(branch).incarnation == place.incarnation:
                return branch
        except NotFound as error:
            missing = error
        with storage_errors():
            renamed = self._repo.manifest.find_incarnation(place.incarnation)
        if renamed is None:
            raise missing or _gone(f"branch '{branch}' was deleted and made again", place)
        self._authorizer.ask(Permission.READ, renamed)
        return renamed

    def _changes(self, commit: Commit, place: Cursor) -> Diff:
        """The changes of a commit against its first parent; the first commit changes nothing."""
        operations = place.operations
        older = commit.parent_id or commit.id
        try:
            return self._compare(older, commit.id, place.types, operations)  # type: ignore[arg-type]
        except Gone as gone:
            raise _gone(f"commit {commit.id} was removed by a clean-up", place) from gone


def type_token(entity: EntityType) -> str:
    """The name of a type in a cursor: the same at every commit, even if the type is renamed."""
    return f"{entity.kind}#{entity.id}"


def _shown(entity: EntityType, change: RowChange) -> Change:
    return Change(
        kind=entity.kind,
        type=entity.name,
        id=change.id,
        operation=change.operation.value,
        changed=change.changed,
        before=change.before,
        after=change.after,
    )


def _gone(reason: str, place: Cursor) -> Gone:
    text = f"{reason}: start over with `graph.changes.baseline()`"
    return Gone(Code.GONE, text, branch=place.branch, commit=place.commit)
