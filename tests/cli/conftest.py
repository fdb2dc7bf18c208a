"""A folder with a small schema and a query that fits it."""

from pathlib import Path

import pytest

from tests.cli.support import QUERY, SCHEMA


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, holding `people.pg` and `people.gq`."""
    (tmp_path / "people.pg").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "people.gq").write_text(QUERY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path
