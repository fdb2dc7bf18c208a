"""Thresholds of work on Spark: how much a task, a row or a broadcast holds, and how long we wait.

Results never depend on them. The unit is in each name, the reason or the group of `make bench`
that shows the effect beside it. Tests use other values through `tuned`; workers are processes of
their own and keep those that stand here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.runtime.tuning import changed


@dataclass(slots=True, kw_only=True)
class SparkTuning:
    """The thresholds, all of them."""

    # Reading tables. `load`, parts on Spark.
    partition_rows: int = 1 << 20  # of a table, read by one task
    batch_rows: int = 10_000  # that go to the JVM at once
    wide_batch_rows: int = 1_000  # the same with vectors, which cross fastest in small batches
    kept_frames_max: int = 16  # of pinned tables, kept by a session for the next query

    # Queries. `query`, with `engine="spark"`.
    planned_hops_max: int = 4  # hops of one job; each further one is a job of its own

    # Algorithms: what a task holds at once. `algorithms`.
    block_vertices: int = 1 << 18
    piece_edges: int = 1 << 20
    buffered_edges: int = 1 << 22  # that are sorted into pieces in memory
    sorted_vertices: int = 1 << 20  # that one task numbers
    # An array of so many numbers of eight bytes goes to every worker in every iteration, and as
    # much comes back: 64 MiB, which Spark and its driver take with the settings they come with.
    broadcast_vertices_max: int = 1 << 23
    one_task_edges_max: int = 1 << 23  # given to a single task as a whole
    forests_max: int = 8  # of components, before one task joins them
    triangle_task_edges: int = 4 << 20  # each costs a task some hundred bytes

    # Waiting for Spark, so that a cluster that no longer answers blocks no caller for ever.
    poll_ms: int = 200  # between two looks at a job
    polls_per_worker_check: int = 50  # between two looks for tasks without a worker
    cancel_timeout_s: int = 60
    connect_timeout_s: int = 5  # until a master or server answers
    close_timeout_s: int = 5  # until a server has ended a session
    connect_retries_max: int = 6  # of one request to a server that is named
    java_timeout_s: int = 60  # until `java -version` answers
    exit_timeout_s: int = 30  # until a JVM has ended
    training_timeout_s: int = 600  # the same when it writes its class-data archive

    # Files that we keep for the next start.
    logs_kept_max: int = 20
    archives_kept_max: int = 3  # of classes, and of our own code
    archive_bytes_min: int = 10 << 20  # less is no archive of Spark's classes


active = SparkTuning()


# Uses other thresholds for a while, in all threads. For tests.
tuned: Final = partial(changed, active)
