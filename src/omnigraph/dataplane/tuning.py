"""Thresholds of bulk work: how much one task, batch, file or partition holds.

Results never depend on them. The unit is in each name. `python -m bench load` shows their effect,
by the part that stands beside them; `kernels` measures the tables of small numbers. Tests use other
values through `tuned`, so that small data takes the ways of large data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.runtime.tuning import changed


@dataclass(slots=True, kw_only=True)
class BulkTuning:
    """The thresholds, all of them."""

    # Dividing the input of a load. Parts `bulk` and `files`.
    split_bytes: int = 64 << 20  # of input that one task reads
    task_bytes_min: int = 8 << 20  # less is not worth a task
    small_file_bytes_max: int = 1 << 20  # files up to here are read together with others
    small_run_bytes: int = 4 << 20  # of small files that are decoded as one
    joined_rows: int = 1 << 16  # rows of such files that are kept before they are passed on
    joined_bytes: int = 8 << 20
    chunk_bytes: int = 8 << 20  # of a file that are read at once
    line_tail_bytes: int = 64 << 10  # that are read further for the end of the last line
    row_wise_lines_max: int = 256  # refused lines up to here go to the row-wise path at once

    transaction_rows_max: int = 100_000  # of a load in a transaction, which is held in memory

    # The choice of the engine: from here on Spark is taken. On two cores (docs/bench/load.md) this
    # process loads about 100 MB a second, a session that runs is 1.1 to 1.4 times as slow, least so
    # from 256 MB on, and a start costs six to eight seconds, which is little beside the forty that
    # 4 GiB take. What is gained is tasks that are repeated when they fail, and all of a cluster.
    spark_cold_bytes: int = 4 << 30  # when it has to be started
    spark_warm_bytes: int = 256 << 20  # when it runs

    # Keys of a load. Parts `bulk` and `merge`. Hashing the keys of a partition is
    # fastest when they fit in the cache of a processor; from object storage fewer parts are
    # fetched.
    undivided_bytes_max: int = 32 << 20  # input up to here is one partition
    partition_bytes: int = 16 << 20  # of plain lines whose keys are one partition
    remote_partition_bytes: int = 64 << 20
    few_keys_max: int = 1 << 17  # up to here a second task is not worth it
    task_keys: int = 1 << 22  # that one task judges
    # Keys that a driver judges itself, beside workers that it would have to send them to. In one
    # partition 16 million have taken 2.9 GB, so these take some 750 MB at most.
    driver_keys_max: int = 1 << 22
    gathered_rows: int = 1 << 20  # of a table that are looked up at once: each call hashes all keys
    staged_memory_bytes: int = 128 << 20  # of staged parts that stay in memory
    staged_requests_max: int = 8  # at once to object storage, which is asked for many small parts

    # Files that are written. Parts `bulk` and `export`.
    fragment_bytes: int = 64 << 20  # of a data file of a load
    part_text_bytes: int = 64 << 20  # of a file of an export, before it is packed
    batch_rows: int = 32_768  # of a table that an export reads at once
    batch_bytes: int = 16 << 20
    batch_text_bytes: int = 8 << 20  # that one batch becomes
    fragments_ahead: int | None = None  # that an export reads at once; None for Lance's choice

    # Values of schema changes (`dataplane.alter`). `years`.
    altered_rows: int = 1 << 20  # that get values by one task

    # Tables of small numbers in an export. `kernels`.
    spelled_rows_min: int = 1_024  # fewer rows are not worth a table
    spelled_numbers_max: int = 1 << 16  # in one table


active = BulkTuning()


# Uses other thresholds for a while, in all threads. For tests.
tuned: Final = partial(changed, active)
