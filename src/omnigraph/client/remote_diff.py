"""The difference of two states of a graph behind a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from omnigraph.client.transport import HttpTransport
from omnigraph.dataplane.counts import ChangeCounts
from omnigraph.results.changes import Change, changes_text
from omnigraph.results.wire import read_counts, read_entity_change


class RemoteDiff:
    """The changes that lead from one state to another; read by pages when they are asked for."""

    def __init__(
        self, transport: HttpTransport, path: str, older: str, newer: str, terms: Mapping[str, Any]
    ) -> None:
        """Compare two states."""
        self._transport = transport
        self._path = path
        self._terms = {"from": older, "to": newer, **terms}

    def __repr__(self) -> str:
        return f"RemoteDiff(older={self.older!r}, newer={self.newer!r})"

    @cached_property
    def _first(self) -> Mapping[str, Any]:
        return self._page(None)

    def _page(self, token: str | None, **more: str) -> Mapping[str, Any]:
        terms = {**self._terms, "page_token": token, **more}
        found: Mapping[str, Any] = self._transport.request("GET", self._path, terms=terms).json()
        return found

    @property
    def older(self) -> str:
        """The id of the commit that the changes start from."""
        return str(self._first["older"])

    @property
    def newer(self) -> str:
        """The id of the commit that they lead to."""
        return str(self._first["newer"])

    @property
    def counts(self) -> Mapping[str, ChangeCounts]:
        """The numbers of changes by type (`node:Person`); types without changes are left out."""
        return read_counts(self._first["counts"])

    @property
    def is_empty(self) -> bool:
        """True if nothing has changed."""
        return not self.counts

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, *, color: bool = False) -> str:
        """All changes as text: a line with the numbers of each type, then a line per entity."""
        return changes_text(self, self.counts, color=color)

    def __iter__(self) -> Iterator[Change]:
        return self._from(self._first)

    def after(self, position: tuple[str, str] | None) -> Iterator[Change]:
        """Yield the changes that follow one of them, given by its type (`node:Person`) and id."""
        if position is None:
            return iter(self)
        key, entity_id = position
        return self._from(self._page(None, after_type=key, after_id=entity_id))

    def _from(self, page: Mapping[str, Any]) -> Iterator[Change]:
        while True:
            yield from map(read_entity_change, page["changes"])
            token = page.get("next_page_token")
            if token is None:
                return
            page = self._page(token)
