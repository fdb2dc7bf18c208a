"""Thresholds of the core: leases, attempts and pauses of writers, and how the manifest is read.

What is committed never depends on them: they decide how soon a writer gives up, how soon another
one is taken for dead, and how much is read at once. The unit is in each name, the reason beside it.
Most have no benchmark, because they bound what happens after a crash or a lost race; where there is
one, its group of `make bench` is named. Tests use other values through `tuned`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from omnigraph.runtime.tuning import changed

_S: Final = 1_000_000  # in microseconds
_HOUR: Final = 3_600 * _S


@dataclass(slots=True, kw_only=True)
class CoreTuning:
    """The thresholds, all of them."""

    # Leases. An owner without a sign of life for so long counts as dead (`locks.liveness`).
    writer_lease_us: int = 60 * _S  # of an armed write, renewed at half; older intents rely on it
    claim_lease_us: int = 30 * _S  # of a step for one process at a time: some storage calls
    hold_lease_us: int = _HOUR  # of a long reader: outlasts a suspended laptop or a slow batch
    hold_renewed_ns: int = _HOUR * 1_000 // 4  # the lease of a hold is renewed after so long
    staging_lease_us: int = 600 * _S  # of a load, which renews it whenever it reports progress
    detached_lease_us: int = 24 * _HOUR  # of a `df.write`, whose parts run here and there
    creation_lease_us: int = 24 * _HOUR  # of a branch in creation, which blocks no other write
    # Beyond a lease: for a call that was sent in time and takes long, and for coarse store clocks.
    lease_grace_us: int = 60 * _S
    store_time_ns: int = 10_000_000_000  # a reading of the store's clock is used for so long
    # Landing a table of so many rows may take longer than a lease, so a thread renews it (`years`).
    long_landing_rows: int = 1 << 17
    renewal_pause_s: int = 1  # between two looks of that thread
    renewal_max_s: int = 3_600  # a call that has not returned by then never will

    # Waiting for a claim (`locks.claims`): pauses double from the first to the longest.
    claim_wait_us: int = 30 * _S
    claim_pause_us: int = 1_000
    claim_pause_max_us: int = 250_000
    claim_looks_min: int = 3  # a number that is taken while we look costs a look, not the claim

    # Attempts within one write. Losing all of them is a conflict, and `core.retry` starts over.
    arm_attempts_max: int = 8  # each settles the intents in the way
    publish_attempts_max: int = 5  # `commit`, with several processes
    audit_attempts_max: int = 5
    migration_attempts_max: int = 5  # of one step from an older format
    sweep_looks_max: int = 8  # at an intent that its owner changes meanwhile

    # Looking until nothing has moved between two looks.
    manifest_looks_max: int = 5
    cleanup_looks_max: int = 5
    copy_looks_max: int = 10  # at the heads of all branches
    verify_looks_max: int = 3  # while branches are deleted

    # What crashes leave behind.
    creation_steps_max: int = 64  # half-made branches of one name that are stepped over
    lost_forks_max: int = 32  # unusable forks of a table, before writes to its branch are refused
    orphaned_versions_max: int = 16  # a late writer leaves fewer; more are of another tool
    drift_versions_max: int = 256  # with more, reading their transactions takes too long unasked

    # Ages at which a clean-up removes what nothing refers to.
    fence_age_us: int = 24 * _HOUR  # a write that was given up may still arrive until then
    superseded_age_us: int = 300 * _S  # longer than `store.versions.latest` trusts a version
    left_age_us: int = 25 * _HOUR  # longer than the longest lease

    # Reading the manifest (`manifest.branch_reader`, `commits.commit_log`). `growth`, `commit`.
    whole_manifest_rows_max: int = 1_024  # up to here all rows are read as fast as the newest
    past_versions_max: int = 64  # of the manifest that are kept in memory
    decoded_rows_max: int = 64  # chunks of commits up to here are decoded as they come
    undecoded_chunks_max: int = 64  # with more, they are sorted out: compaction repeats rows


active = CoreTuning()


# Uses other thresholds for a while, in all threads. For tests.
tuned: Final = partial(changed, active)
