"""The first stage: inputs become splits, and every split is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from omnigraph.dataplane import tuning
from omnigraph.dataplane.load.exchange import PARTITIONS_MAX
from omnigraph.dataplane.load.frames import FRAME_SPLITS, FrameTask
from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.load.read_task import ReadTask, read_pack
from omnigraph.dataplane.load.receipt import ReadReceipt
from omnigraph.dataplane.load.request import LoadRequest
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import FrameRunner, Runner
from omnigraph.dataplane.source.model import (
    FileInput,
    FileSplit,
    FrameInput,
    Input,
    SmallFiles,
    SparkTable,
    SplitPack,
    StreamInput,
    TableInput,
)
from omnigraph.dataplane.source.sizing import LINE_BYTES, Sizes
from omnigraph.dataplane.source.split import OPEN_BYTES, pack, split
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog, EntityType

_NUMBER_BYTES: Final = 4
_PARTITIONS_UNKNOWN: Final = 64


def read_inputs(
    request: LoadRequest,
    plan: LoadPlan,
    runner: Runner,
    monitor: Monitor,
    sizes: Sizes | None = None,
) -> list[ReadReceipt]:
    """Read everything; the receipts, in the order of the input."""
    sizes = Sizes(request.inputs) if sizes is None else sizes
    monitor.stage("split")
    frames = [item for item in request.inputs if isinstance(item, FrameInput)]
    streams = [item for item in request.inputs if isinstance(item, StreamInput)]
    wanted = _split_bytes(request, sizes, runner)
    splits = split(
        tuple(item for item in request.inputs if not isinstance(item, FrameInput | StreamInput)),
        bytes_per_split=wanted,
        spool_to=plan.staging.address,
        storage_options=plan.staging.storage_options,
        is_remote=runner.is_remote,
        sizes=sizes,
    )
    packs = pack(splits, bytes_per_task=wanted)
    monitor.expect(bytes_of(request.inputs))
    monitor.stage("read", None if frames or streams else len(packs))
    is_alone = len(packs) == 1 and not frames and not streams
    tasks = [ReadTask(plan=plan, pack=each, is_alone=is_alone) for each in packs]
    receipts: list[ReadReceipt] = []
    found = runner.run("read", read_pack, tasks)
    others = _read_frames(frames, plan, runner), _read_streams(streams, plan, runner, len(packs))
    for _, receipt in chain(found, *others):
        receipts.append(receipt)
        monitor.add(
            tasks=1,
            rows=receipt.rows,
            bytes=receipt.bytes,
            violations=receipt.violations.total,
        )
        monitor.check()
    return sorted(receipts, key=lambda receipt: receipt.split)


def _split_bytes(request: LoadRequest, sizes: Sizes, runner: Runner) -> int:
    """The number of bytes that one task reads: fewer where some tasks would have no work."""
    total = sum((sizes.plain(item) or 0) + _files(item) * OPEN_BYTES for item in request.inputs)
    fair = max(tuning.active.task_bytes_min, -(-total // runner.parallelism))
    return min(request.split_bytes, fair)


def _files(item: Input) -> int:
    return len(item.uris) if isinstance(item, SmallFiles) else 1


def _read_streams(
    streams: Sequence[StreamInput], plan: LoadPlan, runner: Runner, first: int
) -> Iterator[tuple[int, ReadReceipt]]:
    """Read rows while they arrive; a piece of them is gone as soon as it is read."""
    read: dict[int, str] = {}

    def tasks() -> Iterator[ReadTask]:
        for stream in streams:
            for number, item in enumerate(stream.pieces):
                place = first + len(read)
                read[len(read)] = item.uri
                row = None if number else 1
                size = item.size or 0
                part = FileSplit(number=place, input=item, first_row=row, bytes=size)
                yield ReadTask(plan=plan, pack=SplitPack(number=place, parts=(part,)))

    if not streams:
        return
    if not isinstance(runner, InProcessRunner):
        raise InvalidInput(Code.INPUT_INVALID, f"{streams[0].name} is read by this process only")
    for number, receipt in runner.run_arriving("read", read_pack, tasks()):
        os.unlink(read[number])
        yield number, receipt


def _read_frames(
    frames: Sequence[FrameInput], plan: LoadPlan, runner: Runner
) -> Iterator[tuple[int, ReadReceipt]]:
    for number, item in enumerate(frames, start=1):
        if not isinstance(runner, FrameRunner):
            text = f"{item.name} can be read by Spark only"
            raise InvalidInput(Code.INPUT_INVALID, text)
        frame: Any = item.frame
        if isinstance(frame, SparkTable):
            frame = runner.session.table(frame.name)
        task = FrameTask(
            plan=plan,
            type=item.type,
            name=item.name,
            columns=tuple(frame.columns),
            first_split=number * FRAME_SPLITS,
        )
        yield from runner.run_frame("read", task, frame)


def bytes_of(inputs: tuple[Input, ...]) -> int | None:
    """The number of bytes to read; None if it is not known."""
    sizes = [_size(item) for item in inputs]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def partitions_for(request: LoadRequest, sizes: Sizes, *, is_far: bool) -> int:
    """The number of parts into which keys are divided, so that one of them fits in memory."""
    if request.partitions is not None:
        return request.partitions
    total = 0
    for item in request.inputs:
        size = sizes.of(item)
        if size is None:
            return _PARTITIONS_UNKNOWN
        # Where rows are counted, vectors are not part of the size.
        share = 1.0 if size.rows is not None else _share(item, request.catalog)
        total += int(size.as_lines * share)
    if total <= tuning.active.undivided_bytes_max:
        return 1
    wanted = tuning.active.remote_partition_bytes if is_far else tuning.active.partition_bytes
    return min(PARTITIONS_MAX, max(2, -(-total // wanted)))


def _size(item: Input) -> int | None:
    if isinstance(item, FileInput | StreamInput):
        return item.size
    if isinstance(item, SmallFiles):
        return item.bytes
    if isinstance(item, TableInput):
        return int(item.table.nbytes)
    return None


def _share(item: Input, catalog: Catalog) -> float:
    """The share of an input that is not vectors, about: they come without keys."""
    if item.type is None:
        return 1.0
    types: Mapping[str, EntityType] = (
        catalog.node_by_name if item.type.kind == "node" else catalog.edge_by_name
    )
    numbers = sum(p.type.dim for p in types[item.type.name].properties)
    return LINE_BYTES / (LINE_BYTES + numbers * _NUMBER_BYTES)
