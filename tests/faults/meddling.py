"""Writes during which something else happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, cast

from omnigraph.core.journal.intent import WriterKind
from omnigraph.core.publish.publisher import Published
from omnigraph.core.repository import Components, OpenMode, Repository
from omnigraph.core.write import Prepared
from omnigraph.store.tables import Tables
from omnigraph.types import MAIN, CommitId
from tests.faults import worlds
from tests.faults.worlds import PERSON

Hooks: TypeAlias = Mapping[str, Callable[[], None]]


def staged(
    repo: Repository,
    *,
    judged: Mapping[str, int] | None = None,
    head: CommitId | None = None,
    key: str | None = None,
) -> Prepared:
    """A write of one row, with conditions."""
    plain = worlds.insertion(repo, MAIN, {PERSON: ("cond",)}, kind=WriterKind.MUTATION, key=key)
    return replace(plain, judged=judged or {}, head=head)


class Hooked:
    """Tables that let something else happen before or after a call."""

    def __init__(self, inner: Tables, before: Hooks, after: Hooks) -> None:
        self._inner = inner
        self._before = before
        self._after = after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._before.get(name, _nothing)()
            result = found(*args, **kwargs)
            self._after.get(name, _nothing)()
            return result

        return call


def _nothing() -> None:
    return None


def hooked(
    repo: Repository, *, before: Hooks | None = None, after: Hooks | None = None
) -> Repository:
    """The same graph, with something else happening before or after calls to its tables."""
    parts = Components(
        objects=repo.objects,
        tables=cast("Tables", Hooked(repo.tables, before or {}, after or {})),
        clock=repo.clock,
        ids=repo.ids,
    )
    return Repository(repo.root, parts, OpenMode.READ_WRITE)


def commit_with(
    repo: Repository, prepared: Prepared, *, before: Hooks | None = None, after: Hooks | None = None
) -> Published:
    """Commit while something else happens before or after a call to the tables."""
    return hooked(repo, before=before, after=after).commit(prepared)
