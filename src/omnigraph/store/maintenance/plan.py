"""The maintenance plan of a table: fragments to rewrite, and indexes to bring up to date.

A pure function of how the table lies in storage. Its rules:

Small fragments are rewritten together, but only as far as what is written at least doubles what
was there: of the fragments that stay, each has more rows than all smaller ones together. So there
are few, and a row is rewritten few times in its life. The segments of an index go the same way.
Tiny fragments are always rewritten, which costs less than keeping them.

A group of fragments that are rewritten together must be covered by the same of the segments that
stay, or Lance refuses. Segments that are replaced anyway do not matter.

A segment that stays may have entries of rows that are gone. Lance hides
them by the deletions of their fragments. So fragments with deleted rows are rewritten only when
the segments that cover them are replaced. And where a segment of a word index has rows that
were updated since, no other one may cover their new place. Until they are many, or that segment is
replaced, they are in no segment, which is correct and a little slower.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from omnigraph.store import tuning
from omnigraph.store.maintenance.shape import FragmentInfo, SegmentInfo, Shape
from omnigraph.store.model import Btree, Fts, IndexSpec, Vector

__all__ = ["IndexBuild", "MaintenancePlan", "Probe", "plan_maintenance"]

T = TypeVar("T")


class Probe(Protocol):
    """Questions that only the rows of a table answer."""

    def has_values(self, column: str, fragments: Collection[int]) -> bool:
        """True if some row in these fragments is not null there."""
        ...

    def older(self, fragments: Collection[int], version: int) -> frozenset[int]:
        """The fragments among these that have a row created in this version or before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBuild:
    """An index to build, wholly or in part.

    Attributes:
        spec: Which one.
        parts: For each new segment, the fragments that it covers. These are fragments as they are
            now; what they are rewritten into stands for them.
        replaced: The segments that go.
        is_missing: There is no such index yet.
    """

    spec: IndexSpec
    parts: tuple[frozenset[int], ...]
    replaced: frozenset[str] = frozenset()
    is_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePlan:
    """The maintenance that one table needs.

    Attributes:
        groups: The fragments to rewrite; those of one group into one.
        indexes: The indexes to build.
        dropped_first: Segments that must go before the fragments are rewritten, because they cover
            a part of a group. All of them are replaced.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    indexes: tuple[IndexBuild, ...] = ()
    dropped_first: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        """True if there is anything to do."""
        return bool(self.groups or self.indexes)

    @property
    def replaced(self) -> frozenset[str]:
        """Every segment that goes."""
        return frozenset().union(*(build.replaced for build in self.indexes))


def plan_maintenance(
    shape: Shape, specs: Sequence[IndexSpec], probe: Probe, *, target_rows: int
) -> MaintenancePlan:
    """The maintenance that a table needs.

    Args:
        shape: How it lies in storage.
        specs: The indexes it should have; those that cannot be built yet are left out.
        probe: Used only where the shape does not show it.
        target_rows: How many rows a full fragment has.
    """
    tiny = target_rows // tuning.active.tiny_share
    rows = {fragment.id: fragment.rows for fragment in shape.fragments}
    planner = _IndexPlanner(shape, probe, rows, tiny)
    moving = [build for spec in specs if (build := planner.moving(spec)) is not None]
    gone = frozenset().union(*(build.replaced for build in moving))
    kept = [each for each in shape.segments if each.moves and each.uuid not in gone]
    classes = _classes(shape.fragments, kept, moving)
    groups = tuple(_groups(classes, target_rows, 0 if shape.has_blobs else tiny))
    lost = frozenset(fragment for group in groups for fragment in group)
    fixed = [build for spec in specs if (build := planner.fixed(spec, lost)) is not None]
    builds = (*moving, *fixed)
    return MaintenancePlan(
        groups=groups,
        indexes=tuple(planner.parted(build, groups) for build in builds),
        dropped_first=frozenset(
            segment.uuid
            for segment in shape.segments
            if segment.uuid in gone and any(_tears(segment, group) for group in groups)
        ),
    )


@dataclass(frozen=True, slots=True)
class _IndexPlanner:
    """The indexes of one table."""

    shape: Shape
    probe: Probe
    rows: Mapping[int, int]  # of the fragments that are there
    tiny: int

    def moving(self, spec: IndexSpec) -> IndexBuild | None:
        """The build that an index of row identities needs."""
        if isinstance(spec.kind, Btree):
            return None
        known = self.shape.of(spec.name)
        worn = {each.id for each in self.shape.fragments if _is_worn(each)}
        spoiled = [each for each in known if each.damaged or not worn.isdisjoint(each.fragments)]
        bare = self._bare(spec, known)
        build = self._folded(spec, known, bare, spoiled=spoiled)
        if isinstance(spec.kind, Fts) and bare and len(build.replaced) < len(known):
            updated = self.probe.older(bare, max(segment.built_at for segment in known))
            if tuning.active.updated_share * self._count(updated) > sum(self.rows.values()):
                return self._build(spec, self.rows.keys(), known)
            if updated:
                build = self._folded(spec, known, bare - updated, spoiled=spoiled)
        if isinstance(spec.kind, Vector) and build.replaced:
            (whole,) = build.parts
            if not self.probe.has_values(spec.column, whole):
                build = replace(build, parts=(frozenset(),))
        return build if build.parts[0] or build.replaced else None

    def fixed(self, spec: IndexSpec, lost: frozenset[int]) -> IndexBuild | None:
        """The build that an index of row addresses needs; it loses the fragments in `lost`."""
        if not isinstance(spec.kind, Btree):
            return None
        known = self.shape.of(spec.name)
        bare = self._bare(spec, known) | lost
        spoiled = [each for each in known if each.damaged or each.stands_in]
        if not bare and not spoiled:
            return None
        return self._folded(spec, known, bare, spoiled=spoiled, lost=lost)

    def parted(self, build: IndexBuild, groups: Iterable[tuple[int, ...]]) -> IndexBuild:
        """Divide the fragments of an index among segments, without dividing a group."""
        (whole,) = build.parts
        units = [group for group in groups if whole.issuperset(group)]
        grouped = frozenset(fragment for unit in units for fragment in unit)
        units += [(fragment,) for fragment in sorted(whole - grouped)]
        packs = _packed(units, lambda unit: (self._count(unit),), (tuning.active.segment_rows,))
        parts = [frozenset(fragment for unit in pack for fragment in unit) for pack in packs]
        if isinstance(build.spec.kind, Vector) and len(parts) > 1:
            # Lance cannot train on nothing.
            parts = [part for part in parts if self.probe.has_values(build.spec.column, part)]
        return replace(build, parts=tuple(parts))

    def _bare(self, spec: IndexSpec, known: Sequence[SegmentInfo]) -> frozenset[int]:
        """The fragments that an index could cover and does not."""
        bare = frozenset(self.rows.keys() - _covered(known))
        # Whether there is anything for a missing index was asked before.
        folds = bare and known and isinstance(spec.kind, Vector)
        return frozenset() if folds and not self.probe.has_values(spec.column, bare) else bare

    def _folded(
        self,
        spec: IndexSpec,
        known: Sequence[SegmentInfo],
        bare: frozenset[int],
        *,
        spoiled: Sequence[SegmentInfo] = (),
        lost: frozenset[int] = frozenset(),
    ) -> IndexBuild:
        """Cover what is bare, together with the segments that go or are small beside it."""
        left = {segment: self._left(segment, lost) for segment in known}
        fragments = bare.union(*(left[segment] for segment in spoiled))
        if not fragments:
            return self._build(spec, fragments, ())
        small = {
            segment: rows
            for segment, there in left.items()
            if segment not in spoiled
            and 2 * (rows := self._count(there)) <= tuning.active.segment_rows
        }
        merged = _merged(small.items(), self._count(fragments) + self.tiny)
        fragments = fragments.union(*(left[segment] for segment in merged))
        return self._build(spec, fragments, [*spoiled, *merged])

    def _left(self, segment: SegmentInfo, lost: frozenset[int]) -> frozenset[int]:
        return (segment.fragments & self.rows.keys()) - lost

    def _build(
        self, spec: IndexSpec, fragments: Collection[int], replaced: Iterable[SegmentInfo]
    ) -> IndexBuild:
        return IndexBuild(
            spec=spec,
            parts=(frozenset(fragments),),
            replaced=frozenset(segment.uuid for segment in replaced),
            is_missing=not self.shape.of(spec.name),
        )

    def _count(self, fragments: Iterable[int]) -> int:
        return sum(self.rows[fragment] for fragment in fragments)


def _classes(
    fragments: Iterable[FragmentInfo],
    kept: Collection[SegmentInfo],
    built: Collection[IndexBuild],
) -> list[list[FragmentInfo]]:
    """The fragments that may be rewritten: those together that are covered by the same."""
    classes: dict[frozenset[str], list[FragmentInfo]] = {}
    for fragment in fragments:
        now = [segment.uuid for segment in kept if fragment.id in segment.fragments]
        then = [build.spec.name for build in built if fragment.id in build.parts[0]]
        if not (now and fragment.deleted):
            classes.setdefault(frozenset((*now, *then)), []).append(fragment)
    return list(classes.values())


def _groups(
    classes: Iterable[Sequence[FragmentInfo]], target_rows: int, tiny: int
) -> Iterator[tuple[int, ...]]:
    """The fragments to rewrite."""
    for members in classes:
        small = [each for each in members if _is_small(each, target_rows)]
        chosen = set(_merged([(each, each.rows) for each in small], tiny))
        joined = [each for each in members if each in chosen]
        packs = _packed(
            joined,
            lambda each: (each.rows, each.bytes),
            (target_rows, tuning.active.fragment_bytes_max),
        )
        packs += [[each] for each in members if each not in chosen]
        for pack in packs:
            if len(pack) > 1 or _is_worn(pack[0]):
                yield tuple(each.id for each in pack)


def _is_small(fragment: FragmentInfo, target_rows: int) -> bool:
    return (
        2 * fragment.rows <= target_rows and 2 * fragment.bytes <= tuning.active.fragment_bytes_max
    )


def _is_worn(fragment: FragmentInfo) -> bool:
    return fragment.deleted * tuning.active.deleted_share > fragment.rows + fragment.deleted


def _merged(sizes: Iterable[tuple[T, int]], start: int) -> list[T]:
    """The smallest of some things, up to the last that is no larger than all before it together.

    `start` counts as if it were before all of them.
    """
    ordered = sorted(sizes, key=lambda pair: pair[1])
    total, count = start, 0
    for position, (_, size) in enumerate(ordered, 1):
        if size <= total:
            count = position
        total += size
    return [item for item, _ in ordered[:count]]


def _packed(
    items: Iterable[T], sizes: Callable[[T], tuple[int, ...]], limits: tuple[int, ...]
) -> list[list[T]]:
    """Things in their order, in packs within the limits; a larger one is a pack by itself."""
    packs: list[list[T]] = []
    room = limits
    for item in items:
        left = tuple(a - b for a, b in zip(room, sizes(item), strict=True))
        if not packs or min(left) < 0:
            packs.append([])
            left = tuple(a - b for a, b in zip(limits, sizes(item), strict=True))
        packs[-1].append(item)
        room = left
    return packs


def _covered(segments: Iterable[SegmentInfo]) -> frozenset[int]:
    return frozenset().union(*(segment.fragments for segment in segments))


def _tears(segment: SegmentInfo, group: tuple[int, ...]) -> bool:
    inside = segment.fragments.intersection(group)
    return bool(inside) and len(inside) < len(group)
