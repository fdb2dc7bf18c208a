"""The calls of `Graph` that compare its states: the difference of two, the history of an entity."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.layout import table_key
from omnigraph.core.revisions import Revision
from omnigraph.core.schema.alignment import counterpart
from omnigraph.core.schema.named_types import chosen_types
from omnigraph.errors import Code, InvalidInput, NotFound
from omnigraph.graph.arguments import instance, whole_number
from omnigraph.graph.maintenance.calls import MaintenanceCalls
from omnigraph.graph.snapshot import Snapshot
from omnigraph.graph.values import commit_of
from omnigraph.lang.catalog.model import EntityType
from omnigraph.policy.authorization import Permission
from omnigraph.results.changes import BlameLine, OperationName

if TYPE_CHECKING:
    from omnigraph.graph.versioning.diff import Diff


class DiffCalls(MaintenanceCalls):
    """The part of `Graph` that compares."""

    def diff(
        self,
        older: Revision | Snapshot,
        newer: Revision | Snapshot | None = None,
        *,
        types: Sequence[str] | None = None,
        operations: Collection[OperationName] | None = None,
        kind: Literal["node", "edge"] | None = None,
    ) -> Diff:
        """Compare two states of the graph, entity by entity.

        Only files that the two states do not share are looked at. Where the schema changed in
        between, the older state is read as the newer schema has it: with the new names, and with
        what stored rows got in new properties. So a change of the schema alone changes no entity.

        Example:
            ```python
            before = graph.snapshot()
            graph.mutate('query more() { insert Person { name: "Cy" } }')
            diff = graph.diff(before, "main")
            assert diff.counts["node:Person"].inserted == 1
            assert [change.id for change in diff] == ["Cy"]
            print(diff)
            ```

        Args:
            older: The state that the changes start from: a snapshot, or a name as for
                `snapshot(at=...)`: a branch, a commit, a tag, `main~3`, a time.
            newer: The state that they lead to; by default the newest one.
            types: Only these types, by name or as `node:Person`.
            operations: Only `insert`, `update` or `delete`.
            kind: Only nodes, or only edges.

        Raises:
            NotFound: There is no such branch or commit.
            InvalidInput: There is no such type, operation or kind.
        """
        if kind not in (None, "node", "edge"):
            text = f"the kind is 'node' or 'edge', not {kind!r:.80}"
            raise InvalidInput(Code.INPUT_INVALID, text)
        states = (self._revision(older), self._revision(newer or self._branch))
        chosen = chosen_types(self._plans(states[1]).catalog, types)
        of_kind = [item for item in chosen if kind in (None, item.kind)]
        return self._diff(*states, of_kind, operations)

    def _changes_between(
        self,
        older: str,
        newer: str,
        types: Collection[str] | None,
        operations: Collection[OperationName] | None,
    ) -> Diff:
        """Compare two commits; types are matched by identity, not by name."""
        from omnigraph.graph.versioning.changes import type_token  # noqa: PLC0415

        states = (self._revision(older), self._revision(newer))
        catalog = self._plans(states[1]).catalog
        known = (*catalog.nodes, *catalog.edges)
        chosen = [item for item in known if types is None or type_token(item) in types]
        return self._diff(*states, chosen, operations)

    def _diff(
        self,
        older: GraphVersion,
        newer: GraphVersion,
        types: Sequence[EntityType],
        operations: Collection[OperationName] | None,
    ) -> Diff:
        from omnigraph.exec.changes.diff import DiffRequest, GraphDiff  # noqa: PLC0415
        from omnigraph.graph.versioning.diff import Diff, operation  # noqa: PLC0415

        catalogs = [self._plans(state).catalog for state in (older, newer)]
        for state, catalog in zip((older, newer), catalogs, strict=True):
            called = (counterpart(catalog, item) for item in types)
            keys = [table_key(item.kind, item.name) for item in called if item is not None]
            self._authorizer.ask(Permission.READ, state.branch, types=keys)
        request = DiffRequest(
            older=older,
            newer=newer,
            catalog=catalogs[1],
            older_catalog=catalogs[0],
            types=frozenset(table_key(item.kind, item.name) for item in types),
        )
        wanted = None if operations is None else frozenset(map(operation, operations))
        return Diff(GraphDiff(self._repo, request), str(older.head), str(newer.head), wanted)

    def blame(
        self,
        type_name: str,
        id: str,
        *,
        branch: str | None = None,
        at: Revision | None = None,
        limit: int | None = None,
    ) -> list[BlameLine]:
        """The commits that changed one entity, newest first, back to the one that inserted it.

        Of each commit only the rows that it changed are looked at. What a merge brought along is
        the merge's.

        Example:
            ```python
            change = 'query q() { update Person set { age: 30 } where name = "Bo" }'
            graph.mutate(change, message="a birthday")
            newest = graph.blame("Person", "Bo")[0]
            assert (newest.operation, newest.changed) == ("update", ("age",))
            assert newest.commit.message == "a birthday"
            ```

        Args:
            type_name: The type, by name or as `node:Person`.
            id: The id of the entity.
            branch: Which branch; by default `main`.
            at: An older state to start from; see `snapshot`.
            limit: At most so many commits.

        Raises:
            NotFound: No commit has changed such an entity.
            InvalidInput: There is no such type.
        """
        from omnigraph.exec.changes.blame import blame  # noqa: PLC0415

        most = None if limit is None else whole_number(limit, "a limit", 1)
        instance(id, str, "an id is a text")
        pinned = self._pinned(branch, at)
        types = chosen_types(self._plans(pinned).catalog, [type_name])
        if len(types) > 1:
            text = f"'{type_name}' is a node type and an edge type: say which, node:{type_name}"
            raise InvalidInput(Code.INPUT_INVALID, text, type=type_name)
        chosen = types[0]
        self._authorizer.ask(
            Permission.READ, pinned.branch, types=[table_key(chosen.kind, chosen.name)]
        )
        found = islice(blame(self._repo, pinned, chosen, id), most)
        lines = [
            BlameLine(
                commit=commit_of(each.commit), operation=each.operation.value, changed=each.changed
            )
            for each in found
        ]
        if not lines:
            text = f"no commit of branch '{pinned.branch}' has changed {type_name} {id!r:.80}"
            raise NotFound(Code.NOT_FOUND, text, type=type_name, id=id)
        return lines

    def _revision(self, state: Revision | Snapshot) -> GraphVersion:
        return (
            state.pinned
            if isinstance(state, Snapshot)
            else self._pins.revision(state, self._branch)
        )
