"""The plan of a clean-up for one table: which versions and files go. Pure and total.

A version goes unless a state pins it, or a writer may be about to need it: the head, what is beyond
the published version, what a pending intent starts from, the place at which a fork was made and its
first version. A version that was the newest one a moment ago stays as well: readers that have seen
it look for the next one by its number, and must not meet a gap.

A file goes when the versions that go refer to it and none that stay. A file that no version refers
to belongs to a writer at work, or to one that died; it goes when it is older than any lease.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from itertools import pairwise

from omnigraph.core import tuning
from omnigraph.store.maintenance.inventory import StoredVersion, TableInventory
from omnigraph.store.model import Pin


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """The time of the store, and how old things have to be before they go."""

    now_us: int
    superseded_us: int = tuning.active.superseded_age_us
    left_us: int = tuning.active.left_age_us


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNeeds:
    """The versions of one table that are needed, for its trunk and its forks.

    Attributes:
        pins: The versions that states pin.
        floors: Versions from these on stay, whatever they are: pending intents start there.
        all_of: Forks of which everything stays.
        keeps_left: Files that no version refers to stay: a load beside the table is at work.
    """

    pins: Mapping[str | None, Set[int]] = field(default_factory=dict)
    floors: Mapping[str | None, int] = field(default_factory=dict)
    all_of: Set[str] = frozenset()
    keeps_left: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """The versions of a table that go, and the files that go with them."""

    path: str
    versions: tuple[StoredVersion, ...]
    files: tuple[str, ...]
    bytes: int

    @property
    def is_empty(self) -> bool:
        """True if nothing goes."""
        return not self.versions and not self.files


def missing_versions(inventory: TableInventory, needs: TableNeeds) -> list[Pin]:
    """The newest versions that states pin, of the trunk and of forks, whose files are missing."""
    stored = {(item.branch, item.version) for item in inventory.versions}
    newest = ((branch, max(pins)) for branch, pins in needs.pins.items() if pins)
    return [
        Pin(inventory.path, version, branch)
        for branch, version in newest
        if (branch, version) not in stored
    ]


def plan_table(inventory: TableInventory, needs: TableNeeds, ages: Ages) -> TablePlan:
    """Decide what of a table goes."""
    gone = tuple(_versions_to_go(inventory, needs, ages))
    dropped = {(item.branch, item.version) for item in gone}
    left = _by_branch(
        item for item in inventory.versions if (item.branch, item.version) not in dropped
    )
    staying = inventory.referenced(left)
    known = inventory.all_referenced()
    files = [
        each.info
        for each in inventory.files
        if each.owner not in staying
        and (
            each.owner in known
            or (not needs.keeps_left and each.info.modified_us < ages.now_us - ages.left_us)
        )
    ]
    size = sum(info.size for info in files) + sum(item.info.size for item in gone)
    return TablePlan(
        path=inventory.path,
        versions=gone,
        files=tuple(info.path for info in files),
        bytes=size,
    )


def still_to_go(plan: TablePlan, now: TableInventory) -> tuple[str, ...]:
    """The files of a plan that no version refers to once its versions are gone."""
    staying = now.all_referenced()
    wanted = set(plan.files)
    return tuple(
        each.info.path
        for each in now.files
        if each.info.path in wanted and each.owner not in staying
    )


def _versions_to_go(
    inventory: TableInventory, needs: TableNeeds, ages: Ages
) -> Iterable[StoredVersion]:
    fixed = _fork_points(inventory)
    for branch in {item.branch for item in inventory.versions}:
        pins = needs.pins.get(branch, frozenset())
        if not pins or branch in needs.all_of:
            continue
        # What is beyond the published version is for recovery to judge.
        end = min(max(pins), needs.floors.get(branch, max(pins)))
        stored = sorted(
            (item for item in inventory.versions if item.branch == branch),
            key=lambda item: item.version,
        )
        for item, successor in pairwise(stored):
            if (
                item.version < end
                and item.version not in pins
                and (branch, item.version) not in fixed
                and successor.info.modified_us <= ages.now_us - ages.superseded_us
            ):
                yield item


def _fork_points(inventory: TableInventory) -> set[tuple[str | None, int]]:
    """The versions at which forks were made, and the first version of each fork."""
    return {
        place
        for name, fork in inventory.forks.items()
        for place in (
            (fork.parent_branch, fork.parent_version),
            (name, fork.parent_version),
        )
    }


def _by_branch(versions: Iterable[StoredVersion]) -> dict[str | None, list[int]]:
    found: dict[str | None, list[int]] = {}
    for item in versions:
        found.setdefault(item.branch, []).append(item.version)
    return found
