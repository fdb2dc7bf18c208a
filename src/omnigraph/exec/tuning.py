"""Thresholds of the executor: where one way of computing an answer becomes cheaper than another.

Answers never depend on them. The unit is the last part of each name; a `share` of n stands for one
in n. Groups of `make bench` that show their effect stand beside them: `query` (Q1 to Q11) for
reading and search, `commit` for small writes. Tests use other values through `tuned`, so that small
data takes the ways of large data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.runtime.tuning import changed


@dataclass(slots=True, kw_only=True)
class Tuning:
    """The thresholds, all of them."""

    # The choice between the dense and the direct view (`exec.access`). `query`, cold start.
    loaded_rows_max: int = 20_000  # types of so few rows are loaded sooner than looked up
    load_row_ns: int = 500  # the time to read and sort one row, on nodes and on edges

    # Steps of a program (`exec.read`). `query`.
    fold_rows_min: int = 256  # fewer rows are not searched for equal ones
    inner_rows_min: int = 64  # fewer rows enter an inner pipeline without such a search
    partial_sort_rows_min: int = 1_024  # fewer rows are sorted whole for the first of them
    partial_rank_rows_min: int = 256  # fewer rows are ranked whole for the best of them
    bounded_sources_min: int = 64  # from so many on, a hop is counted before it is made
    judged_share: int = 8  # from one in so many entities on, a condition is judged for all
    top_factor: int = 4  # a shortcut tries so many times the results that are asked for
    top_growth_factor: int = 8  # and so many times more when they were not enough
    marked_pairs_max: int = 1 << 25  # pairs of source and node that a walk marks at once
    walked_targets_max: int = 1 << 22  # neighbours that a walk looks at at once
    probed_nodes_max: int = 4_096  # common neighbours up to here are probed one by one
    marked_owners_max: int = 64  # owners that share the bits of a word, at most 64
    intersected_nodes_max: int = 1 << 20  # neighbours that an intersection looks at at once
    unmeasured_rows_max: int = 1_000  # results up to here are not checked against the bounds

    # Columns of a result (`exec.read`). `query`.
    single_values_max: int = 24  # values up to here are read one by one
    joint_columns_min: int = 9  # from so many on, columns of a type are loaded together
    dictionary_rows_min: int = 4_096  # texts of smaller types are not numbered
    dictionary_share: int = 8  # texts are numbered with one value in so many rows, or fewer

    # Texts beyond 2 GiB (`exec.large_text`). Not chosen: what 32-bit offsets can count.
    narrow_text_bytes_max: int = 2**31 - 1  # of text in one array with such offsets

    # Search (`exec.search`). `query`, Q9 to Q11.
    exact_candidates_max: int = 4_096  # up to here candidates are compared exactly at once
    picked_vectors_share: int = 3  # above one in so many, reading all costs less than picking
    split_text_bytes: int = 16 << 20  # of text that is split into words at once
    segment_text_bytes: int = 512 << 20  # of one segment of an index, which is built in memory

    # Loading and deriving structures (`exec.dense`). `query`, after a commit.
    hashed_ids_min: int = 64  # from so many on, ids are hashed instead of searched one by one
    searched_rows_max: int = 32  # row ids up to here are searched without sorting them
    taken_vectors_max: int = 1_024  # vectors up to here are read by row, without their column
    read_group_bytes: int = 64 << 20  # columns that are loaded together, in groups of about
    copied_slices_max: int = 128  # changes up to here split a column into slices that are copied
    shifted_handles_max: int = 3  # changes up to here shift all handles once each
    delta_rows_min: int = 2_000  # deltas of so many rows are always used
    delta_share: int = 16  # and larger ones up to one in so many rows of the type
    derived_edges_min: int = 1_000  # adjacency is always derived from so few changed edges
    derived_edges_share: int = 64  # and from more, up to one in so many edges

    # The view cache (`exec.dense.view_cache`). `query`, cold start and after a commit.
    saved_rows_min: int = 50_000  # smaller types are read again as fast as from the disk cache
    saved_versions_tried: int = 2  # older versions in the disk cache, before all is read anew
    views_max: int = 16

    # Images of a mutation (`exec.mutate`). `commit`.
    taken_images_max: int = 8_192  # rows up to here are read by their ids; more in passing
    taken_images: int = 1_024  # of them at once
    passed_rows: int = 1 << 17  # that a pass over a type reads at once
    image_batch_rows: int = 8_192
    image_batch_bytes: int = 64 << 20
    indexed_images_max: int = 1 << 16  # images that are indexed, for each time it was wanted
    sliced_images_max: int = 256  # rows up to here are cut out sooner than parts are joined
    sliced_rows_max: int = 32  # rows up to here are cut out of a table sooner than copied

    # Merges of branches (`exec.merge`). `versioning`.
    fast_forward_rows_min: int = 50_000  # fewer rows are copied as fast as files are linked
    held_merge_rows_max: int = 1 << 19  # unshared rows of a type from which on tasks merge it
    # Rows that our side has touched are compared where theirs has touched them, too, up to so many.
    touched_rows_max: int = 1 << 18
    merge_task_rows: int = 1 << 17  # that a task reads or writes at once
    merge_task_bytes: int = 16 << 20  # the same, as they are stored
    merge_keys: int = 1 << 20  # ids of a large type that are joined at once
    merge_sent_rows: int = 1 << 20  # whose ids are sent to other processes at once

    # The change feed (`exec.changes.feed`). `versioning`.
    feed_commits_max: int = 64  # commits that are read together
    feed_rows_max: int = 8_192  # about the most rows of both sides of them


active = Tuning()


# Uses other thresholds for a while, in all threads. For tests.
tuned: Final = partial(changed, active)
