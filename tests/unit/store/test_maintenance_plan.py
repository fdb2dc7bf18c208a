"""What a table needs, told from how it lies in storage alone."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import count, product

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.store.maintenance.plan import MaintenancePlan, plan_maintenance
from omnigraph.store.maintenance.shape import FragmentInfo, SegmentInfo, Shape
from omnigraph.store.model import (
    Btree,
    Fts,
    IndexSpec,
    Vector,
)
from omnigraph.types import Metric

ORDERED = IndexSpec("id", Btree(), "id_ordered")
TEXT = IndexSpec("text", Fts(), "text_text")
NEAR = IndexSpec("v", Vector(Metric.L2, 4), "v_vector")
TARGET = 1_000


@dataclass(slots=True)
class Rows:
    """Rows that tell what a test wants them to, and what they were asked."""

    updated: frozenset[int] = frozenset()
    without_vectors: frozenset[int] = frozenset()
    asked: list[str] = field(default_factory=list)

    def has_values(self, column: str, fragments: Collection[int]) -> bool:
        self.asked.append(column)
        return not self.without_vectors.issuperset(fragments)

    def older(self, fragments: Collection[int], version: int) -> frozenset[int]:
        self.asked.append(f"older than {version}")
        return self.updated.intersection(fragments)


def fragments(*rows: int, deleted: int = 0) -> tuple[FragmentInfo, ...]:
    return tuple(
        FragmentInfo(id=number, rows=size, deleted=deleted, bytes=size)
        for number, size in enumerate(rows)
    )


def segment(spec: IndexSpec, *covers: int, built_at: int = 1) -> SegmentInfo:
    return SegmentInfo(
        index=spec.name,
        uuid=f"{spec.name}:{covers}",
        fragments=frozenset(covers),
        built_at=built_at,
        moves=not isinstance(spec.kind, Btree),
    )


def planned(shape: Shape, *specs: IndexSpec, rows: Rows | None = None) -> MaintenancePlan:
    return plan_maintenance(shape, specs, rows or Rows(), target_rows=TARGET)


def parts(plan: MaintenancePlan, spec: IndexSpec) -> tuple[frozenset[int], ...]:
    (found,) = [build.parts for build in plan.indexes if build.spec == spec] or [()]
    return found


# ---------------------------------------------------------------- fragments


def test_small_fragments_become_one() -> None:
    assert planned(Shape(fragments=fragments(10, 10, 10))).groups == ((0, 1, 2),)


def test_one_fragment_is_left_alone() -> None:
    assert not planned(Shape(fragments=fragments(10)))
    assert not planned(Shape(fragments=()))


def test_a_large_fragment_waits_until_the_small_ones_are_as_large() -> None:
    assert planned(Shape(fragments=fragments(400, 10, 10))).groups == ((1, 2),)
    assert planned(Shape(fragments=fragments(400, 200, 200))).groups == ((0, 1, 2),)


def test_tiny_fragments_are_joined_whatever_the_others_are() -> None:
    """Unless they have blobs, whose size nobody knows."""
    shape = Shape(fragments=fragments(3, 2, 1))
    assert planned(shape).groups == ((0, 1, 2),)
    assert planned(Shape(fragments=fragments(100, 2, 1))).groups == ((1, 2),)
    assert not planned(Shape(fragments=fragments(3))).groups
    assert planned(replace(shape, fragments=fragments(3, 1), has_blobs=True)).groups == ()


def test_full_fragments_are_never_joined() -> None:
    assert not planned(Shape(fragments=fragments(501, 501, 501)))


def test_a_group_is_no_larger_than_a_full_fragment() -> None:
    groups = planned(Shape(fragments=fragments(*[300] * 7))).groups
    assert groups == ((0, 1, 2), (3, 4, 5))


def test_many_deleted_rows_are_left_behind() -> None:
    assert planned(Shape(fragments=fragments(900, deleted=101))).groups == ((0,),)
    assert not planned(Shape(fragments=fragments(900, deleted=99)))


def test_a_group_is_no_larger_than_a_file_should_be() -> None:
    huge = tuple(replace(each, bytes=400 << 20) for each in fragments(10, 10, 10))
    assert planned(Shape(fragments=huge)).groups == ((0, 1),)


# ---------------------------------------------------------------- indexes


def test_a_missing_index_is_built_over_everything() -> None:
    plan = planned(Shape(fragments=fragments(600, 600)), ORDERED, TEXT, NEAR)
    assert all(parts(plan, spec) == (frozenset({0, 1}),) for spec in (ORDERED, TEXT, NEAR))
    assert all(build.is_missing for build in plan.indexes)


def test_what_covers_everything_is_left_alone() -> None:
    covering = [segment(spec, 0, 1) for spec in (ORDERED, TEXT, NEAR)]
    rows = Rows()
    shape = Shape(fragments=fragments(600, 600), segments=tuple(covering))
    assert not planned(shape, ORDERED, TEXT, NEAR, rows=rows)
    assert rows.asked == []


def test_new_fragments_get_a_segment_of_their_own() -> None:
    covering = [segment(spec, 0, built_at=7) for spec in (ORDERED, TEXT, NEAR)]
    rows = Rows()
    shape = Shape(fragments=fragments(900, 600), segments=tuple(covering))
    plan = planned(shape, ORDERED, TEXT, NEAR, rows=rows)
    assert all(parts(plan, spec) == (frozenset({1}),) for spec in (ORDERED, TEXT, NEAR))
    assert plan.replaced == frozenset()
    assert rows.asked == ["older than 7", "v"]
    assert not any(build.is_missing for build in plan.indexes)


def test_segments_that_are_no_larger_than_what_is_new_are_replaced() -> None:
    old, small = segment(TEXT, 0, 1), segment(TEXT, 2)
    shape = Shape(fragments=fragments(900, 900, 600, 600), segments=(old, small))
    plan = planned(shape, TEXT)
    assert parts(plan, TEXT) == (frozenset({2, 3}),)
    assert plan.replaced == {small.uuid}


def test_fragments_of_a_segment_that_stays_are_not_mixed_with_others() -> None:
    """Lance would refuse it."""
    large = segment(TEXT, 0, 1, 2)
    shape = Shape(fragments=fragments(100, 100, 800, 90, 90), segments=(large,))
    plan = planned(shape, TEXT)
    assert plan.groups == ((0, 1), (3, 4))
    assert parts(plan, TEXT) == (frozenset({3, 4}),)
    assert plan.dropped_first == frozenset()


def test_segments_that_are_replaced_go_first_where_they_are_in_the_way() -> None:
    small, other = segment(TEXT, 0), segment(TEXT, 2)
    shape = Shape(fragments=fragments(100, 100, 600), segments=(small, other))
    plan = planned(shape, TEXT)
    assert plan.groups == ((0, 1),)
    assert plan.replaced == {small.uuid}
    assert plan.dropped_first == {small.uuid}


def test_ordered_indexes_cover_rewritten_fragments_anew() -> None:
    ordered = segment(ORDERED, 0, 1, 2)
    shape = Shape(fragments=fragments(100, 100, 800), segments=(ordered,))
    plan = planned(shape, ORDERED)
    assert plan.groups == ((0, 1),)
    assert parts(plan, ORDERED) == (frozenset({0, 1}),)
    assert plan.replaced == frozenset()


def test_what_an_ordered_index_has_left_decides_whether_it_stays() -> None:
    ordered = segment(ORDERED, 0, 1, 2)
    plan = planned(Shape(fragments=fragments(400, 400, 600), segments=(ordered,)), ORDERED)
    assert plan.groups == ((0, 1),)
    assert parts(plan, ORDERED) == (frozenset({0, 1, 2}),)
    assert plan.replaced == {ordered.uuid}
    assert plan.dropped_first == frozenset()


def test_many_updated_rows_have_their_word_index_built_anew() -> None:
    covering = [segment(spec, 0) for spec in (ORDERED, TEXT, NEAR)]
    shape = Shape(fragments=fragments(900, 100), segments=tuple(covering))
    plan = planned(shape, ORDERED, TEXT, NEAR, rows=Rows(updated=frozenset({1})))
    assert parts(plan, TEXT) == (frozenset({0, 1}),)
    assert parts(plan, NEAR) == parts(plan, ORDERED) == (frozenset({1}),)
    assert plan.replaced == {covering[1].uuid}


def test_few_updated_rows_stay_without_words_and_by_themselves() -> None:
    covering = [segment(spec, 0) for spec in (ORDERED, TEXT)]
    shape = Shape(fragments=fragments(900, 10, 10, 10, 10), segments=tuple(covering))
    plan = planned(shape, ORDERED, TEXT, rows=Rows(updated=frozenset({1, 3})))
    assert plan.groups == ((1, 3), (2, 4))
    assert parts(plan, TEXT) == (frozenset({2, 4}),)
    assert parts(plan, ORDERED) == (frozenset({1, 2, 3, 4}),)
    assert plan.replaced == frozenset()


def test_no_row_is_old_to_a_word_index_that_is_replaced() -> None:
    shape = Shape(fragments=fragments(10, 10), segments=(segment(TEXT, 0),))
    rows = Rows(updated=frozenset({1}))
    assert parts(planned(shape, TEXT, rows=rows), TEXT) == (frozenset({0, 1}),)
    assert rows.asked == []


def test_fragments_without_vectors_wait_for_some() -> None:
    shape = Shape(fragments=fragments(900, 10), segments=(segment(NEAR, 0),))
    assert not planned(shape, NEAR, rows=Rows(without_vectors=frozenset({1})))


def test_segments_of_fragments_that_are_gone_go_with_the_next_change() -> None:
    empty = segment(ORDERED, 7)
    shape = Shape(fragments=fragments(900, 10), segments=(segment(ORDERED, 0), empty))
    assert planned(shape, ORDERED).replaced == {empty.uuid}


def test_indexes_that_nobody_asks_for_are_respected() -> None:
    """A schema may have dropped the spec; the index is still there and must stay right."""
    shape = Shape(fragments=fragments(10, 10, 10, 10), segments=(segment(TEXT, 0, 1),))
    assert planned(shape).groups == ((0, 1), (2, 3))


def test_a_large_index_is_built_in_parts_that_divide_no_group() -> None:
    rows = 3 << 20
    shape = Shape(fragments=(*fragments(rows, rows, rows), FragmentInfo(id=3, rows=1)))
    plan = planned(shape, NEAR, rows=Rows(without_vectors=frozenset({1})))
    assert parts(plan, NEAR) == (frozenset({0}), frozenset({2, 3}))


def test_deleted_rows_are_left_behind_only_by_segments_that_are_built_anew() -> None:
    text, near = segment(TEXT, 0, 1), segment(NEAR, 0)
    worn = replace(fragments(600)[0], deleted=400)
    scratched = FragmentInfo(id=1, rows=99, deleted=1)
    other = FragmentInfo(id=2, rows=99)
    shape = Shape(fragments=(worn, scratched, other), segments=(text, near))
    plan = planned(shape, TEXT, NEAR)
    assert plan.groups == ((1, 2), (0,))
    assert plan.replaced == {text.uuid, near.uuid}
    left = Shape(fragments=(replace(worn, deleted=1), scratched, other), segments=(text, near))
    assert planned(left, TEXT, NEAR).groups == ()
    assert planned(left).groups == ()


def test_an_index_of_vectors_goes_with_the_last_of_them() -> None:
    worn = replace(fragments(600)[0], deleted=400)
    shape = Shape(fragments=(worn,), segments=(segment(NEAR, 0),))
    plan = planned(shape, NEAR, rows=Rows(without_vectors=frozenset({0})))
    assert (plan.groups, parts(plan, NEAR)) == (((0,),), ())
    assert plan.replaced == {segment(NEAR, 0).uuid}


# ---------------------------------------------------------------- whatever there is


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    sizes = draw(st.lists(st.integers(1, 1_200), max_size=12))
    found = tuple(
        replace(each, deleted=draw(st.sampled_from([0, 0, each.rows])))
        for each in fragments(*sizes)
    )
    segments = []
    for spec in (ORDERED, TEXT, NEAR):
        owners = [draw(st.sampled_from(["", "a", "b", "c"])) for _ in sizes]
        for owner in "abc":
            covers = [number for number, each in enumerate(owners) if each == owner]
            if covers:
                segments.append(segment(spec, *covers))
    return Shape(fragments=found, segments=tuple(segments))


def next_number(shape: Shape) -> int:
    return max((each.id for each in shape.fragments), default=-1) + 1


def numbered(shape: Shape, plan: MaintenancePlan) -> dict[tuple[int, ...], int]:
    """The fragments that groups are rewritten into."""
    return dict(zip(plan.groups, count(next_number(shape))))


def done(shape: Shape, plan: MaintenancePlan) -> Shape:
    """The shape of the table when everything is done, as Lance has it."""
    sizes = {each.id: each for each in shape.fragments}
    new = numbered(shape, plan)
    after = [each for each in shape.fragments if not any(each.id in group for group in new)]
    for group, number in new.items():
        rows = sum(sizes[each].rows for each in group)
        after.append(FragmentInfo(id=number, rows=rows, bytes=rows))

    def moved(covers: frozenset[int]) -> frozenset[int]:
        inside = [group for group in new if covers.issuperset(group)]
        return covers.difference(*inside).union(new[group] for group in inside)

    segments = []
    for each in shape.segments:
        if each.uuid in plan.dropped_first:
            continue
        for group in new:
            inside = each.fragments.intersection(group)
            assert not each.moves or len(inside) in (0, len(group)), "Lance refuses this"
            stays = each.moves and each.uuid not in plan.replaced
            spoils = any(sizes[number].deleted for number in inside)
            assert not (stays and spoils), "deleted rows would come back"
        covers = moved(each.fragments) if each.moves else each.fragments.difference(*new)
        if each.uuid not in plan.replaced:
            segments.append(replace(each, fragments=covers))
    for build in plan.indexes:
        for part, group in product(build.parts, new):
            assert len(part.intersection(group)) in (0, len(group)), "a group is divided"
        segments += [segment(build.spec, *moved(part)) for part in build.parts]
    return Shape(fragments=tuple(after), segments=tuple(segments))


@given(shapes())
def test_one_round_is_enough(shape: Shape) -> None:
    after = done(shape, planned(shape, ORDERED, TEXT, NEAR))
    live = {each.id for each in after.fragments}
    for spec in (ORDERED, TEXT, NEAR):
        covers = [each.fragments & live for each in after.of(spec.name)]
        assert sum(map(len, covers)) == len(frozenset().union(*covers)), "covered twice"
        assert frozenset().union(*covers) == live
    assert not planned(after, ORDERED, TEXT, NEAR)


@given(shapes(), st.frozensets(st.integers(0, 11)), st.frozensets(st.integers(0, 11)))
def test_whatever_the_rows_say(
    shape: Shape, updated: frozenset[int], without_vectors: frozenset[int]
) -> None:
    rows = Rows(updated, without_vectors)

    def wanted(shape: Shape) -> list[IndexSpec]:
        """A missing index of vectors is not asked for when there are none."""
        has_vectors = not without_vectors.issuperset(each.id for each in shape.fragments)
        return [ORDERED, TEXT, NEAR] if shape.of(NEAR.name) or has_vectors else [ORDERED, TEXT]

    plan = planned(shape, *wanted(shape), rows=rows)
    after = done(shape, plan)
    known = {each.uuid for each in shape.of(TEXT.name)} - plan.replaced
    words = frozenset().union(*parts(plan, TEXT))
    bare = words.difference(*(each.fragments for each in shape.of(TEXT.name)))
    assert not known or bare.isdisjoint(updated), "old words would come back"
    new = numbered(shape, plan)
    moved = Rows(
        updated.union(number for group, number in new.items() if updated.intersection(group)),
        without_vectors.union(
            number for group, number in new.items() if without_vectors.issuperset(group)
        ),
    )
    if not after.of(NEAR.name):
        plan = planned(after, ORDERED, TEXT, rows=moved)
    else:
        plan = planned(after, ORDERED, TEXT, NEAR, rows=moved)
    assert not plan


@given(shapes())
def test_no_row_is_lost(shape: Shape) -> None:
    after = done(shape, planned(shape, ORDERED, TEXT, NEAR))
    assert sum(each.rows for each in after.fragments) == sum(each.rows for each in shape.fragments)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=200))
def test_what_comes_bit_by_bit_stays_in_few_pieces(sizes: list[int]) -> None:
    shape = Shape(fragments=())
    written = 0
    for size in sizes:
        fresh = FragmentInfo(id=next_number(shape), rows=size, bytes=size)
        shape = replace(shape, fragments=(*shape.fragments, fresh))
        plan = planned(shape, ORDERED, TEXT)
        grouped = {each for group in plan.groups for each in group}
        written += sum(each.rows for each in shape.fragments if each.id in grouped)
        shape = done(shape, plan)
        total = sum(each.rows for each in shape.fragments)
        few = total.bit_length() + 2 * total // TARGET + 1
        assert len(shape.fragments) <= few
        assert all(len(shape.of(spec.name)) <= few for spec in (ORDERED, TEXT))
    assert written <= sum(sizes) * sum(sizes).bit_length()


def test_damaged_segments_are_replaced() -> None:
    for spec in (ORDERED, TEXT, NEAR):
        sound = (segment(spec, 0), segment(spec, 1))
        shape = Shape(fragments=fragments(TARGET, TARGET), segments=sound)
        assert not planned(shape, spec)
        plan = planned(replace(shape, segments=(sound[0], replace(sound[1], damaged=True))), spec)
        assert 1 in parts(plan, spec)[0]
        assert sound[1].uuid in plan.replaced
