"""The lease of an armed write, kept for as long as its writer works.

Landing the new version of a table is one call of Lance. For an update of millions of rows it takes
longer than a lease lasts, so another thread renews the lease meanwhile.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from omnigraph.core.journal.intent import Intent, IntentLog
from omnigraph.core.locks.renewal import renewing
from omnigraph.errors import Code, RecoveryRequired
from omnigraph.runtime.clock import Clock


class Lease:
    """A lease and the intent that states it. One thread keeps it at a time.

    Attributes:
        intent: The intent as it was stored last.
        renewed_ns: When the lease began, by the monotonic counter of this process.
    """

    def __init__(self, intents: IntentLog, clock: Clock, intent: Intent, renewed_ns: int) -> None:
        """Take over the lease of an intent that is stored."""
        self._intents = intents
        self._clock = clock
        self.intent = intent
        self.renewed_ns = renewed_ns

    def check(self) -> None:
        """Refuse to move anything after the lease, measured by the counter of this process.

        Raises:
            RecoveryRequired: It has run out; others may settle what we hold.
        """
        if self._held_ns() >= self._length_ns:
            text = f"the lease of operation {self.intent.operation_id} has run out"
            raise RecoveryRequired(Code.OUTCOME_UNKNOWN, text)

    def keep(self) -> None:
        """Renew the lease if half of it is over.

        Raises:
            RecoveryRequired: It has run out.
        """
        if self._held_ns() < self._length_ns // 2:
            return
        self.check()
        ticks = self._clock.ticks_ns()
        owner = self.intent.owner.renewed(self._clock.now_us())
        self.store(replace(self.intent, owner=owner))
        self.renewed_ns = ticks

    def store(self, intent: Intent) -> None:
        """Store the intent as it is now."""
        self._intents.replace(intent)
        self.intent = intent

    def kept(self) -> AbstractContextManager[None]:
        """Renew the lease while a block runs, from another thread."""
        return renewing(self.keep, f"omnigraph-lease-{self.intent.operation_id}")

    @property
    def _length_ns(self) -> int:
        return self.intent.owner.lease_us * 1_000

    def _held_ns(self) -> int:
        return self._clock.ticks_ns() - self.renewed_ns
