"""Clean-up, repair, migration, relocation and copies on S3, broken at their storage calls."""

from __future__ import annotations

import pytest

from omnigraph.store.root import Root
from tests.conformance.seaweed import BUCKET
from tests.faults.harness import FAULTS
from tests.faults.test_copies import COPY
from tests.faults.test_maintenance import CLEANUP, REPAIR
from tests.faults.test_migrations import undertaking
from tests.faults.test_relocation import RELOCATION
from tests.faults.whole_graphs import IDS, Workshop, break_at, calls_of, sample

WORKS = {work.name: work for work in (CLEANUP, REPAIR, undertaking("first"), RELOCATION, COPY)}
SOME = 16  # so many calls of each are broken


@pytest.fixture(scope="module")
def bucket(s3_options: dict[str, str]) -> Workshop:
    return Workshop(Root.parse(f"s3://{BUCKET}/{IDS.new()}", s3_options))


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WORKS)
def test_broken_at_some_storage_calls_on_s3(bucket: Workshop, name: str, fault: str) -> None:
    work = WORKS[name]
    first = list(FAULTS).index(fault)
    calls = calls_of(bucket, work)
    break_at(bucket, work, FAULTS[fault], sample(calls[first:], SOME))
