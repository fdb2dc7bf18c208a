"""Thresholds of the store: how rows are read and found, and how fragments and indexes are cut.

Answers never depend on them. The unit is in each name; a `share` of n stands for one in n. The
groups of `make bench` that show their effect stand beside them. Tests use other values through
`tuned`, so that small data takes the ways of large data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.runtime.tuning import changed


@dataclass(slots=True, kw_only=True)
class StoreTuning:
    """The thresholds, all of them."""

    # What the tables of a graph keep in memory. A scan fills the second one: of a file with texts,
    # a tenth to a fourth of what is read stays. `server`.
    index_cache_bytes: int = 256 << 20
    metadata_cache_bytes: int = 128 << 20  # of manifests, and of the metadata of files

    # Fragments of the manifest that a publish takes along (`writing.merge_insert`). `commit`,
    # `growth`.
    absorbed_rows: int = 32  # fragments with fewer rows are always taken along
    absorbed_fanout: int = 8  # larger ones when there are so many of similar size

    # Small fragments of tables (`writing.inline_compaction`), and those of the manifest. `growth`.
    rewritten_bytes_max: int = 64 << 20  # of fragments that one write rewrites
    # Files are compressed, and Arrow gathers no more text than 32-bit offsets reach.
    gathered_bytes_max: int = 1 << 30

    # Rows that differ between two versions (`reading.table_diff`). `versioning`.
    held_rows_max: int = 32_768  # so many rows and bytes are held in memory
    held_bytes_max: int = 8 << 20
    compared_versions_max: int = 8  # of each, those rows are held
    kept_deletions_max: int = 1 << 23  # deleted rows that are held, of 4 bytes each
    read_addresses: int = 65_536  # rows that are read one by one at once

    # Rows by their address (`reading.row_addresses`). `versioning`.
    scanned_share: int = 8  # of a fragment of which one row in so many is wanted, all are read
    scanned_share_deleted: int = 24  # the same where many rows are deleted
    # The same of a file that is read past its fragment, of narrow columns: 2,000 of 262,144 numbers
    # are taken in 1.3 ms, as texts in 7; all of them are decoded in 1.3 and 7.
    whole_file_share: int = 128
    decoded_block_bytes: int = 8_192  # of wider columns: fewer rows are in a block that is decoded
    # A fragment passes its deleted rows for each row that is taken, a million in about 0.6 ms. Then
    # its file is opened, in about the same time, and read without them.
    passed_deletions_max: int = 1 << 20
    taken_rows_min: int = 64  # fewer rows of a fragment are taken together with others
    filter_addresses: int = 2_000  # planning a filter costs more than linearly in its length

    # Rows by their keys (`table`). `query`, `load`. With an index, several IN lists beat a scan of
    # the column up to one key in so many rows; without one, each list is a scan of its own. CPU
    # time on 1,000,000 ids: 0.04 s against 0.06 s for 1,000 keys, 0.09 s against 0.06 s for 2,000,
    # 0.73 s against 0.08 s for 20,000.
    listed_share: int = 500
    # So many rows without an index of their keys get a filter with the load that brought them: it
    # takes 0.15 s for a million, which is what three look-ups without it take. `years`.
    filtered_rows_min: int = 1 << 19
    filtered_load_rows_min: int = 1 << 15  # a smaller load does not look whether tables need one
    filtered_rows_max: int = 1 << 26  # more are left to an optimisation, which has tasks for them

    # The newest version of a table (`versions.latest`). `commit`, `growth`.
    # A version that was the newest is taken for that, or a recent one, for so long. A clean-up
    # leaves alone what was the newest within five times this (`core.tuning`).
    trusted_head_ns: int = 60_000_000_000
    probed_versions_max: int = 6  # from a known one on, before all of them are listed
    open_tables_max: int = 512  # that a handle keeps

    # Checksums (`integrity`). Writing one takes about 0.5 ms per MiB. `commit`, `years`.
    checksum_file_bytes_max: int = 16 << 20  # files up to here get one; verification compares it
    # Files up to here are compared when a table is first read, in about 1 ms: reading one row of a
    # large table must not read all of it.
    compared_bytes_max: int = 2 << 20
    # Index files up to here are compared whole, in about 25 ms; of a larger one the end, where
    # Lance's files say what is in them.
    whole_index_bytes_max: int = 64 << 20

    # Storage calls (`io`, `maintenance`). `load`, `years`.
    buffer_bytes: int = 1 << 20  # of a file that is written
    upload_part_bytes: int = 16 << 20  # an upload has 10,000 parts, so an object up to 160 GB
    upload_parts_max: int = 4  # under way at once
    read_bytes: int = 4 << 20  # of a file that is verified
    # Lance reads what lies closer together than this by one call, which costs a task. Of a local
    # file it would be 4 KiB: taking 784 of 5,000,000 numbers took 6.8 ms, and takes 4.3.
    local_block_bytes: int = 64 << 10
    removed_files: int = 500  # by one call
    searched_versions_max: int = 256  # of a table, for files that a dead writer left

    # Files and indexes. `load`, `query`.
    # Of a fragment that a load or a compaction writes. Landing an update walks the identities of
    # all rows of the fragments that it takes rows from (docs/decisions/0024). `years`.
    file_rows_max: int = 1 << 18
    compared_block_bytes: int = 1 << 20  # of an index file that is compared with its checksum
    partition_rows: int = 4_096  # below that, comparing with every vector is as fast
    partitions_max: int = 4_096

    # Tasks of an optimisation (`maintenance.plan`). `load`.
    fragment_bytes_max: int = 1 << 30  # rewritten into one fragment, besides the number of rows
    segment_rows: int = 1 << 22  # indexed by one task
    tiny_share: int = 64  # a fragment is tiny below this part of a full one
    updated_share: int = 16  # updated rows are many when they are more than one in this many
    deleted_share: int = 10  # more deleted rows than one in this many are worth rewriting


active = StoreTuning()


# Uses other thresholds for a while, in all threads. For tests.
tuned: Final = partial(changed, active)
