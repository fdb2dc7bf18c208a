"""Identifiers as a component: ULIDs that never go backwards within one source.

A ULID is 48 bits of milliseconds and 80 bits of chance in 26 characters, so text order is the
order of creation. Nothing else in the package draws random numbers.
"""

import os
import random
import threading
from collections.abc import Callable
from typing import Final, Protocol

from omnigraph.runtime.clock import Clock, SystemClock
from omnigraph.types import ULID

__all__ = [
    "CHANCE_BITS",
    "ID_CHARS",
    "TIME_MS_MAX",
    "Ids",
    "UlidIds",
    "decode",
    "encode",
    "is_ulid",
    "time_ms",
]

TIME_MS_MAX: Final = (1 << 48) - 1
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DIGIT: Final = {char: digit for digit, char in enumerate(_ALPHABET)}
_PAIRS: Final = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS: Final = range(120, -1, -10)  # of pairs of digits of a ULID, the first one first
ID_CHARS: Final = 26
CHANCE_BITS: Final = 80  # random ones, below those of the time
_CHANCE_BYTES: Final = CHANCE_BITS // 8
_STEP_MASK: Final = (1 << 32) - 1
_DRAWN_BYTES: Final = 64 * _CHANCE_BYTES


class Ids(Protocol):
    """A source of new identifiers."""

    def new(self) -> str:
        """Return a ULID greater than every one that this source returned before."""
        ...


def encode(value: int) -> str:
    """Spell a 128-bit number as a ULID."""
    if not 0 <= value < 1 << 128:
        raise ValueError("a ULID holds 128 bits")
    return "".join([_PAIRS[value >> shift & 1023] for shift in _SHIFTS])


def decode(text: str) -> int:
    """Read the 128-bit number back from its canonical spelling."""
    if not is_ulid(text):
        raise ValueError(f"{text!r} is not a ULID")
    value = 0
    for char in text:
        value = value << 5 | _DIGIT[char]
    return value


def is_ulid(text: str) -> bool:
    """True if the text is a ULID in canonical spelling."""
    return len(text) == ID_CHARS and ULID.fullmatch(text) is not None


def time_ms(text: str) -> int:
    """Return the milliseconds since the epoch that a ULID carries."""
    return decode(text) >> CHANCE_BITS


class _Forks:
    """The number of forks that led to this process. Asking for its id would be a system call."""

    count = 0

    @classmethod
    def add(cls) -> None:
        cls.count += 1


os.register_at_fork(after_in_child=_Forks.add)


class _SystemChance:
    """Random bytes of the system, drawn for many ids at once: each draw is a system call.

    Only for one thread at a time. A forked child draws anew.
    """

    __slots__ = ("_drawn", "_forks", "_place")

    def __init__(self) -> None:
        self._drawn = b""
        self._place = 0
        self._forks = _Forks.count

    def __call__(self, size: int) -> bytes:
        if self._place + size > len(self._drawn) or self._forks != _Forks.count:
            self._drawn, self._place = os.urandom(max(size, _DRAWN_BYTES)), 0
            self._forks = _Forks.count
        self._place += size
        return self._drawn[self._place - size : self._place]


class UlidIds:
    """Mints increasing ULIDs from a clock and a source of random bytes. Thread-safe.

    When the clock stands still or goes back, the last identifier is counted up instead, so order
    does not depend on the clock. A forked child draws afresh: it must not count on from the state
    that it shares with its parent.
    """

    def __init__(
        self, clock: Clock | None = None, entropy: Callable[[int], bytes] | None = None
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._entropy = entropy or _SystemChance()
        self._lock = threading.Lock()
        self._last = -1
        self._forks = _Forks.count

    @classmethod
    def seeded(cls, seed: int, clock: Clock | None = None) -> "UlidIds":
        """Return a source whose chance part is reproducible, for tests and replays."""
        return cls(clock, random.Random(seed).randbytes)

    def new(self) -> str:
        """Return a ULID greater than every one that this source returned before."""
        now_ms = self._clock.now_us() // 1_000
        if not 0 <= now_ms <= TIME_MS_MAX:
            raise ValueError(f"{now_ms} ms does not fit a ULID")
        with self._lock:
            fresh = now_ms << CHANCE_BITS | int.from_bytes(self._entropy(_CHANCE_BYTES))
            before, self._forks = self._forks, _Forks.count
            if before != self._forks or now_ms > self._last >> CHANCE_BITS:
                self._last = fresh
            else:
                # A step of random size: guessing a neighbour stays as hard as guessing an id.
                # Running over the chance part carries into the time, which keeps the order.
                self._last += 1 + (fresh & _STEP_MASK)
            return encode(self._last)
