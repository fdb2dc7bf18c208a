"""The request of a load, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from omnigraph.core.commits.records import CommitRecord
from omnigraph.core.layout import table_key
from omnigraph.dataplane import tuning
from omnigraph.dataplane.counts import Counts
from omnigraph.dataplane.source.model import Input
from omnigraph.embed.missing import MissingVectors
from omnigraph.errors import Code, InvalidInput
from omnigraph.lang.catalog.model import Catalog
from omnigraph.rules.violation import KEPT_VIOLATIONS_MAX
from omnigraph.types import MAIN, BranchName, LoadMode


class Fill(StrEnum):
    """The known entities that rows change, where they never add any."""

    MISSING = "missing"  # those that have the text still which the row names, and no vector
    ALL = "all"  # those that have the text still which the row names
    KNOWN = "known"  # all that are there


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """A batch of a stream.

    Attributes:
        stream: The name that the caller gave to the stream.
        number: The number of the batch, as Spark counts.
        query: The id of the streaming query, from its checkpoint; None if Spark does not say.
    """

    stream: str
    number: int
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    """A load as the caller wants it, checked when it is made.

    Attributes:
        inputs: What to read, in the order in which violations are listed. A caller that has yet to
            find them leaves them out, and puts them in with `dataclasses.replace`.
        catalog: The schema that the caller took its inputs for.
        mode: What becomes of known entities.
        branch: Where to.
        create_from: Make the branch from this one, in the same commit, if it does not exist.
        replace: In a merge, known entities lose what the input does not name.
        cascade: In an overwrite, edges of other types that would lose an end go, too. Otherwise
            such an edge is a violation.
        actor: On whose behalf.
        idempotency_key: Names the operation, so that repeating it does it once.
        message: What the commit is about.
        violations_max: How many violations are listed; the others are counted.
        violations_file: A local file that takes all of them, one JSON object per line.
        split_bytes: How much of a file one task reads.
        partitions: Into how many parts keys are divided; None: as many as the size asks for.
        driver_keys: How many keys the driver may judge itself when there are workers.
        batch: The input is a batch of a stream, which is taken once, whatever its number is; it
            takes the place of an idempotency key.
        fill: The rows of a merge only change entities that are there: for vectors those whose text
            is still the one that they were computed from. Rows of others do not count.
        authorise: Is called with the types of the input before they are judged, and refuses the
            load by an error.
    """

    inputs: tuple[Input, ...] = ()
    catalog: Catalog
    mode: LoadMode
    branch: BranchName = MAIN
    create_from: BranchName | None = None
    replace: bool = False
    cascade: bool = False
    actor: str | None = None
    idempotency_key: str | None = None
    message: str | None = None
    violations_max: int = KEPT_VIOLATIONS_MAX
    violations_file: str | None = None
    split_bytes: int = field(default_factory=lambda: tuning.active.split_bytes)
    partitions: int | None = None
    driver_keys: int = tuning.active.driver_keys_max
    batch: StreamBatch | None = None
    fill: Fill | None = None
    authorise: Callable[[frozenset[str]], None] | None = None

    def __post_init__(self) -> None:
        """Refuse options that have no meaning in a mode, before they are taken for granted."""
        if self.replace and self.mode != "merge":
            raise InvalidInput(Code.INPUT_INVALID, "replace=True is for mode 'merge'")
        if self.cascade and self.mode != "overwrite":
            raise InvalidInput(Code.INPUT_INVALID, "cascade=True is for mode 'overwrite'")

    @property
    def digest(self) -> str:
        """A digest by which it differs from other requests with the same idempotency key.

        The content of the inputs is not part of it: finding out would mean to read them all.
        """
        how = (self.mode, self.replace, self.cascade)
        terms = ("load", str(self.branch), sorted(self.type_keys), *how)
        return blake2b(repr(terms).encode(), digest_size=16).hexdigest()

    @property
    def type_keys(self) -> frozenset[str]:
        """The types of the inputs that have rows of one type only."""
        types = [item.type for item in self.inputs if item.type is not None]
        return frozenset(table_key(each.kind, each.name) for each in types)

    @property
    def may_name_all(self) -> bool:
        """True if there may be rows of any type, which is known once they are read."""
        return any(item.type is None for item in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The result of a load.

    Attributes:
        commit: The commit that it made.
        counts: Per table key, for the types that it touched.
        replayed: An earlier call with the same key had done it; the counts are of that call.
        branch_created: The commit made the branch.
        rows: How many entities were read.
        bytes: How many bytes were read.
        missing: Vectors that were left null for want of a provider.
    """

    commit: CommitRecord
    counts: Mapping[str, Counts] = field(default_factory=dict)
    replayed: bool = False
    branch_created: bool = False
    rows: int = 0
    bytes: int = 0
    missing: tuple[MissingVectors, ...] = ()
