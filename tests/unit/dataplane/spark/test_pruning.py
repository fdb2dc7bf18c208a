"""A session that cannot be given the rule of column pruning: the log says why."""

from __future__ import annotations

import pytest

from omnigraph.dataplane.spark.pruning import prune_columns


class Foreign:
    """A session whose JVM is out of reach."""

    @property
    def _jvm(self) -> object:
        raise RuntimeError("the gateway is closed\nat some.java.Frame")


def test_the_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    session = Foreign()
    for _ in range(2):
        prune_columns(session)
    (found,) = caplog.records
    assert (found.name, found.levelname) == ("omnigraph.spark", "WARNING")
    assert found.getMessage().endswith("read all columns in this session: the gateway is closed")
