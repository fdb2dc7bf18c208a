"""Every case of the corpus, and what the corpus as a whole must cover."""

from __future__ import annotations

import re

import pytest

import tests.corpus.kinds  # noqa: F401 - registers all kinds
from omnigraph.lang.catalog.steps import MIGRATION_CODES, RESERVED_CODES, Step
from omnigraph.lang.schema.codes import CODES
from tests.corpus.harness import CASES, KINDS, Case, cases, fixtures


@pytest.mark.parametrize("case", cases(), ids=str)
def test_case(case: Case) -> None:
    assert case.expected is not None, "new case: run `python -m tests.corpus.regenerate`"
    assert case.run() == case.expected


def test_every_folder_is_a_kind() -> None:
    folders = {path.parent.relative_to(CASES).as_posix() for path in CASES.rglob("*.txt")}
    assert folders <= KINDS.keys()


def test_fixtures_are_written_by_the_command() -> None:
    stale = [
        fixture.path.name
        for fixture in fixtures()
        if fixture.render() != fixture.path.read_text(encoding="utf-8")
    ]
    assert stale == []


def test_every_schema_code_has_a_case() -> None:
    shown = "\n".join(case.expected or "" for case in cases("schema/"))
    assert set(re.findall(r"\[(S[0-9]{3})\]", shown)) == set(CODES)


def test_every_migration_step_and_code_has_a_case() -> None:
    shown = "\n".join(case.expected or "" for case in cases("schema/migrate"))
    kinds = {step.kind for step in Step.__subclasses__()}
    assert set(re.findall(r"^([a-z]+_[a-z_]+) ", shown, re.MULTILINE)) == kinds
    codes = set(re.findall(r"\[(OG-[A-Z]{2}-[0-9]{3})\]", shown))
    assert codes == set(MIGRATION_CODES) - RESERVED_CODES


def test_rejections_reject_and_acceptances_accept() -> None:
    wrong = [
        str(case)
        for case in cases("schema/")
        if (case.expected or "").startswith(("ACCEPTED", "REJECTED"))
    ]
    assert wrong == []
