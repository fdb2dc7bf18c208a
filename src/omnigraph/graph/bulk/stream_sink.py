"""The sink of a stream: the function that `foreachBatch` of Spark calls for every batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.dataplane.load.request import LoadRequest, StreamBatch
from omnigraph.dataplane.load.stream import check_stream_name
from omnigraph.dataplane.spark.carried_errors import carried_errors
from omnigraph.embed.source import Embeddings
from omnigraph.graph.bulk.bulk import Bulk, Execution
from omnigraph.store.root import Root
from omnigraph.types import BranchName, LoadMode

# The properties of the thread that runs a batch, in Spark's own words.
_QUERY_ID: Final = "sql.streaming.queryId"
_OTHERS: Final = "load the rows of the batch with graph.load(..., violations_file=path)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTerms:
    """The type, the branch and the mode that batches of a stream are loaded with."""

    type_name: str
    stream: str
    mode: LoadMode
    branch: BranchName
    replace: bool
    actor: str | None


class StreamSink:
    """Takes batches of a stream into a graph. Picklable: elsewhere it opens the graph anew."""

    def __init__(self, repo: Repository, embeddings: Embeddings, terms: SinkTerms) -> None:
        """Load into this graph.

        Raises:
            InvalidInput: The stream has no proper name.
        """
        check_stream_name(terms.stream)
        self._repo: Repository | None = repo
        self._root = repo.root
        self._embeddings = embeddings
        self._terms = terms

    def __call__(self, frame: Any, batch: int) -> None:
        """Load one batch, unless it was loaded before."""
        with carried_errors(others=_OTHERS):
            self._load(frame, batch)

    def _load(self, frame: Any, batch: int) -> None:
        repo, terms = self._opened(), self._terms
        request = LoadRequest(
            catalog=repo.schema(repo.snapshot(terms.branch)).catalog,
            mode=terms.mode,
            branch=terms.branch,
            replace=terms.replace,
            actor=terms.actor,
            batch=StreamBatch(stream=terms.stream, number=int(batch), query=_query_of(frame)),
        )
        Bulk(repo, self._embeddings).load({terms.type_name: frame}, request, Execution())

    def _opened(self) -> Repository:
        if self._repo is None:
            root = self._root
            self._repo = Repository.open(root, components(root), OpenMode.READ_WRITE)
        return self._repo

    def __getstate__(self) -> tuple[Root, Embeddings, SinkTerms]:
        return self._root, self._embeddings, self._terms

    def __setstate__(self, state: tuple[Root, Embeddings, SinkTerms]) -> None:
        self._root, self._embeddings, self._terms = state
        self._repo = None


def _query_of(frame: Any) -> str | None:
    """The id of the query that a batch comes from; None where Spark does not say (Connect)."""
    context = getattr(getattr(frame, "sparkSession", None), "_sc", None)
    if context is None:
        return None
    found = context.getLocalProperty(_QUERY_ID)
    return None if found is None else str(found)
