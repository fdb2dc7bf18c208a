"""`df.write.format("omnigraph")`: rows of one type become one commit.

The parts of a write run in different processes: a plan is made where the query is planned, tasks
write fragments, and the commit is made by a third. What one of them needs travels with the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.dataplane.load.frames import FrameTask
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.request import LoadRequest
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.source.model import FrameInput
from omnigraph.dataplane.spark.opened import Opened, flag
from omnigraph.embed.config import configured_embedder
from omnigraph.embed.source import Embeddings
from omnigraph.errors import Code, InvalidInput
from omnigraph.store.root import Root
from omnigraph.types import Actor, IdempotencyKey, LoadMode


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote."""

    receipt: ReadReceipt


class TypeWriter(DataSourceArrowWriter):
    """Writes rows of one type. Travels to the tasks and to the commit as it is."""

    def __init__(self, root: Root, request: LoadRequest, plan: LoadPlan, task: FrameTask) -> None:
        """Write by this plan; use `begin`."""
        self._root = root
        self._request = request
        self._plan = plan
        self._task = task

    @classmethod
    def begin(
        cls, options: Mapping[str, str], columns: tuple[str, ...], *, overwrite: bool
    ) -> TypeWriter:
        """Plan a write from the options of a DataFrameWriter."""
        opened = Opened(options, mode=OpenMode.READ_WRITE)
        name = f"Spark rows of {opened.entity.name}"
        request = LoadRequest(
            inputs=(FrameInput(name=name, type=opened.type, frame=None),),
            catalog=opened.catalog,
            mode=_mode(options, overwrite=overwrite),
            branch=opened.snapshot.branch,
            replace=flag(options, "replace"),
            cascade=flag(options, "cascade"),
            actor=_said(options, "actor", Actor),
            idempotency_key=_said(options, "idempotency_key", IdempotencyKey),
        )
        # The process that plans is told by its own environment who computes vectors; the others
        # are told by the plan.
        embeddings = Embeddings(lambda: configured_embedder(opened.variables))
        loader = Loader(opened.repo, embeddings)
        plan = loader.plan(request, opened.snapshot, None, is_remote=True)
        task = FrameTask(plan=plan, type=opened.type, name=name, columns=columns)
        return cls(opened.root, request, plan, task)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one partition."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        return Written(self._task(number, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Judge everything and publish it, or refuse it."""
        receipts = [message.receipt for message in messages if isinstance(message, Written)]
        repo = Repository.open(self._root, components(self._root), OpenMode.READ_WRITE)
        monitor = Monitor("load", "spark", "df.write", repo.clock)
        try:
            Loader(repo).finish(self._request, self._plan, receipts, InProcessRunner(), monitor)
        finally:
            self._plan.staging.remove()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Forget what was staged. Fragments stay: a commit that failed may have used them."""
        self._plan.staging.remove()


def _mode(options: Mapping[str, str], *, overwrite: bool) -> LoadMode:
    merge = flag(options, "merge")
    if overwrite and merge:
        raise InvalidInput(Code.INPUT_INVALID, 'option merge is for .mode("append")')
    if overwrite:
        return "overwrite"
    return "merge" if merge else "append"


def _said(options: Mapping[str, str], name: str, kind: type[str]) -> str | None:
    text = options.get(name)
    return None if text is None else kind(text)
