"""Conflicts of a merge behind a server, settled by a side, a file or a function of the caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from omnigraph.errors import Conflict, InvalidInput, NotFound
from omnigraph.exec.merge.conflicts import (
    SIDES,
    Choice,
    ConflictKey,
    MergeConflict,
    Resolve,
    resolver,
)
from omnigraph.exec.merge.resolution_file import (
    Resolution,
    ResolutionFile,
    file_of,
    read_text,
    template,
)
from omnigraph.results.json_values import json_value
from omnigraph.results.merging import MergeResult

_NAME: Final = "resolve"
_ATTEMPTS_MAX: Final = 5


class RemoteResolving:
    """A merge or a revert that is asked of a server, with what settles its conflicts."""

    def __init__(
        self,
        ask: Callable[[Mapping[str, Any]], MergeResult],
        heads: Callable[[], Sequence[str]],
    ) -> None:
        """Merge by `ask`, which gets the fields that differ; `heads` shows whether others write."""
        self._ask = ask
        self._heads = heads

    def run(self, resolve: Resolution | None, *, dry_run: bool) -> MergeResult:
        """Merge, or say what that would do.

        Raises:
            Conflict: There are conflicts that nothing settles.
            InvalidInput: `resolve` is nothing that settles conflicts, or does not fit them.
        """
        path = file_of(resolve)
        if path is not None:
            text = read_text(path)
            ResolutionFile.parse(str(path), text)
            return self._send({"name": str(path), "text": text}, dry_run)
        if resolve is None or (isinstance(resolve, str) and resolve in SIDES):
            return self._send(resolve, dry_run)
        return self._by_function(resolver(resolve), dry_run)

    def _send(self, resolve: object, dry_run: bool) -> MergeResult:
        return self._ask({"resolve": resolve, "dry_run": dry_run})

    def _by_function(self, function: Resolve, dry_run: bool) -> MergeResult:
        """Ask the function about the conflicts of dry runs, and merge with its answers.

        An answer holds only for the values that it was given for. So if they do not fit any more,
        and there was a write, it starts over.
        """
        attempt = 0
        while True:
            attempt += 1
            heads = self._known_heads()
            try:
                settled, planned = self._settled(function)
                return planned if dry_run else self._send(_lines(settled), dry_run=False)
            except (Conflict, InvalidInput):
                if attempt == _ATTEMPTS_MAX or self._known_heads() == heads:
                    raise

    def _known_heads(self) -> Sequence[str]:
        """The heads; none after a first call with the same key has deleted the branch."""
        try:
            return self._heads()
        except NotFound:
            return ()

    def _settled(self, function: Resolve) -> tuple[list[tuple[MergeConflict, Choice]], MergeResult]:
        """The answers, and the dry run that has no other conflict that the function settles."""
        asked: set[ConflictKey] = set()
        settled: list[tuple[MergeConflict, Choice]] = []
        while True:
            planned = self._send(_lines(settled), dry_run=True)
            before = len(settled)
            for conflict in planned.conflicts:
                if conflict.key not in asked:
                    asked.add(conflict.key)
                    choice = function(conflict)
                    if choice is not None:
                        settled.append((conflict, choice))
            # Settling a conflict can make others.
            if len(settled) == before:
                return settled, planned


def _lines(settled: Sequence[tuple[MergeConflict, Choice]]) -> dict[str, str] | None:
    if not settled:
        return None
    known = [(each, json_value(choice)) for each, choice in settled]
    return {"name": _NAME, "text": "".join(template((), known))}
