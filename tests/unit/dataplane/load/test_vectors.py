"""Vectors of loads: how many at a time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.dataplane.load.entities import Entities
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.plan import LoadPlan
from omnigraph.dataplane.load.vectors import pending_of_new, pieces, rows_at_once
from tests.unit.dataplane.load.support import Lab, lab_at

SCHEMA = """
node Doc { slug: String @key  text: String?  vec: Vector(100)? @embed(text) }
node Plain { slug: String @key  vec: Vector(100)? }
"""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return lab_at(tmp_path, SCHEMA)


def plan_of(lab: Lab, fragment_bytes: int) -> LoadPlan:
    made = Loader(lab.repo).plan(lab.request(), lab.repo.snapshot(), None, is_remote=False)
    return replace(made, fragment_bytes=fragment_bytes)


def test_rows_with_vectors_are_finished_some_at_a_time(lab: Lab) -> None:
    doc, plain = lab.catalog.node_by_name["Doc"], lab.catalog.node_by_name["Plain"]
    plan = plan_of(lab, 1_000_000)
    assert rows_at_once(plan, plain, 10_000) == 10_000
    most = rows_at_once(plan, doc, 10_000)
    # Several copies of so many vectors fit into what is written at once.
    assert 2 * most * 100 * 4 <= 1_000_000
    assert rows_at_once(plan, doc, 3) == 3
    assert rows_at_once(plan_of(lab, 1), doc, 10_000) >= 1


def test_no_row_is_lost_between_pieces(lab: Lab) -> None:
    doc = lab.catalog.node_by_name["Doc"]
    texts = pa.array([None if number % 7 == 0 else str(number) for number in range(1_000)])
    names = pa.array([str(number) for number in range(1_000)])
    rows = pa.table({"id": names, "slug": names, "text": texts})
    absent = {"vec": pa.repeat(True, 1_000)}
    entities = Entities(
        entity=doc, rows=rows, names=names, lines=np.arange(1, 1_001), absent=absent
    )
    found = list(pieces(plan_of(lab, 1), entities))
    assert len(found) > 1
    assert [name for piece in found for name in piece.names.to_pylist()] == names.to_pylist()
    pending = [each.mask.true_count for piece in found for each in pending_of_new(piece)]
    assert sum(pending) == 1_000 - texts.null_count
