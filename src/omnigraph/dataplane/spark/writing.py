"""`df.write.format("omnigraph")`: rows of one type become one commit.

The parts of a write run in different processes: a plan is made where the query is planned, tasks
write fragments, and the commit is made by a third. What one of them needs travels with the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.dataplane.load.frames import FrameTask
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.request import LoadRequest
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.source.model import FrameInput
from omnigraph.dataplane.spark.carried_errors import carried_errors
from omnigraph.dataplane.spark.driver import Address, StagedLoad, finished_by
from omnigraph.dataplane.spark.opened import Opened, flag, whole_number
from omnigraph.dataplane.spark.settings import DRIVER_VARIABLE
from omnigraph.embed.config import configured_embedder
from omnigraph.embed.source import Embeddings
from omnigraph.errors import Code, InvalidInput
from omnigraph.store.root import Root
from omnigraph.types import Actor, IdempotencyKey, LoadMode

_VIOLATIONS_MAX: Final = 100  # so many are listed in the text of the error


@dataclass
class Written(WriterCommitMessage):
    """The rows that one task wrote."""

    receipt: ReadReceipt


class TypeWriter(DataSourceArrowWriter):
    """Writes rows of one type. Travels to the tasks and to the commit as it is."""

    def __init__(
        self,
        root: Root,
        request: LoadRequest,
        plan: LoadPlan,
        task: FrameTask,
        driver: Address | None,
    ) -> None:
        """Write by this plan; use `begin`."""
        self._root = root
        self._request = request
        self._plan = plan
        self._task = task
        self._driver = driver

    @classmethod
    def begin(
        cls,
        options: Mapping[str, str],
        columns: tuple[str, ...],
        *,
        overwrite: bool,
        driver: tuple[str, str] | None = None,
    ) -> TypeWriter:
        """Plan a write from the options of a DataFrameWriter.

        Args:
            options: The options.
            columns: The columns of the DataFrame.
            overwrite: True if the rows replace all others of the type.
            driver: The socket of the driver's process, and the session that judges the rows; by
                default what the environment says. Without either, the process that commits does.
        """
        opened = Opened(options, mode=OpenMode.READ_WRITE)
        name = f"Spark rows of {opened.entity.name}"
        request = LoadRequest(
            inputs=(FrameInput(name=name, type=opened.type, frame=None),),
            catalog=opened.catalog,
            mode=_mode(options, overwrite=overwrite),
            branch=opened.snapshot.branch,
            replace=flag(options, "replace"),
            cascade=flag(options, "cascade"),
            actor=_option(options, "actor", Actor),
            idempotency_key=_option(options, "idempotency_key", IdempotencyKey),
            violations_max=whole_number(options, "violations_max", _VIOLATIONS_MAX),
            violations_file=options.get("violations_file"),
        )
        # The process that plans finds in its own environment how vectors are computed; the others
        # find it in the plan.
        embeddings = Embeddings(lambda: configured_embedder(opened.variables))
        loader = Loader(opened.repo, embeddings)
        plan = loader.plan(request, opened.snapshot, None, is_remote=True)
        task = FrameTask(plan=plan, type=opened.type, name=name, columns=columns)
        named = opened.variables.get(DRIVER_VARIABLE)
        at = driver or ((named, "") if named else None)
        return cls(opened.root, request, plan, task, None if at is None else Address(*at))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one partition."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        with carried_errors():
            return Written(self._task(number, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Judge everything and publish it, or refuse it."""
        receipts = [message.receipt for message in messages if isinstance(message, Written)]
        staged = StagedLoad(
            root=self._root, request=self._request, plan=self._plan, receipts=receipts
        )
        with carried_errors(self._request.violations_file):
            if not finished_by(self._driver, staged):
                staged.finish(InProcessRunner())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was written. A commit that failed may have used it; then it stays."""
        repo = Repository.open(self._root, components(self._root), OpenMode.READ_WRITE)
        Loader(repo).abandon(self._plan)


def _mode(options: Mapping[str, str], *, overwrite: bool) -> LoadMode:
    merge = flag(options, "merge")
    if overwrite and merge:
        raise InvalidInput(Code.INPUT_INVALID, 'option merge is for .mode("append")')
    if overwrite:
        return "overwrite"
    return "merge" if merge else "append"


def _option(options: Mapping[str, str], name: str, kind: type[str]) -> str | None:
    text = options.get(name)
    return None if text is None else kind(text)
