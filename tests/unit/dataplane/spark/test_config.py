"""Which Spark is meant: arguments, the environment, the defaults."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from omnigraph.dataplane.spark.config import (
    MasterKind,
    SparkConfig,
    configured,
    is_connect,
    is_session,
    master_kind,
    require,
    unavailable,
)
from omnigraph.errors import Code, InvalidInput


def session_of(module: str) -> object:
    return type("SparkSession", (), {"__module__": module})()


CLASSIC = session_of("pyspark.sql.session")
CONNECT = session_of("pyspark.sql.connect.session")


@pytest.mark.parametrize(
    ("master", "place"),
    [
        ("local", MasterKind.LOCAL),
        ("local[*]", MasterKind.LOCAL),
        ("local[*,3]", MasterKind.LOCAL),
        ("local[4, 2]", MasterKind.LOCAL),
        ("local-cluster[2,1,1024]", MasterKind.LOCAL_CLUSTER),
        ("spark://a:7077,b:7077", MasterKind.CLUSTER),
        ("yarn", MasterKind.CLUSTER),
        ("k8s://https://host:6443", MasterKind.CLUSTER),
        ("sc://host:15002/;token=x", MasterKind.CONNECT),
        ("connect", MasterKind.SERVED),
    ],
)
def test_masters_that_exist(master: str, place: MasterKind) -> None:
    assert master_kind(master) is place
    assert configured(master, variables={}).master == master


@pytest.mark.parametrize("master", ["locl", "local[", "local[x]", "spark:/a", "http://a", "sc:a"])
def test_masters_that_do_not(master: str) -> None:
    for spark, variables in ((master, {}), (None, named(master))):
        with pytest.raises(InvalidInput, match="is no Spark master; there are local,") as caught:
            configured(spark, variables=variables)
        assert caught.value.code is Code.SETTINGS_INVALID


def named(master: str) -> dict[str, str]:
    return {"OMNIGRAPH_SPARK_MASTER": master}


def test_an_argument_comes_before_the_environment() -> None:
    assert configured(None, variables={}).master is None
    assert not configured(None, variables={}).is_named
    assert configured(None, variables=named("local[1]")).master == "local[1]"
    assert configured("local[2]", variables=named("local[1]")).master == "local[2]"
    given = configured(CLASSIC, variables=named("local[1]"))
    assert given.session is CLASSIC
    assert given.master is None
    assert given.is_named


def test_sessions_are_known_by_their_class() -> None:
    assert is_session(CLASSIC)
    assert is_session(CONNECT)
    assert not is_session("local")
    assert is_connect(CONNECT)
    assert not is_connect(CLASSIC)
    with pytest.raises(InvalidInput, match="a master or a SparkSession, not int"):
        configured(3, variables={})


def test_the_home_and_the_archive_come_from_the_environment(tmp_path: Path) -> None:
    assert configured(variables={"OMNIGRAPH_HOME": str(tmp_path)}).home == tmp_path
    assert configured(variables={}).home == Path.home() / ".omnigraph"
    assert configured(variables={}).archive
    assert not configured(variables={"OMNIGRAPH_SPARK_ARCHIVE": "off"}).archive


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def lacking(gone: str) -> Any:
        return lambda name: None if name == gone else real(name)

    local = SparkConfig(home=Path(), master="local", variables=os.environ)
    monkeypatch.setattr(importlib.util, "find_spec", lacking("pyspark"))
    with pytest.raises(InvalidInput, match=r'pip install "omnigraph\[spark\]"') as caught:
        require(local)
    assert caught.value.code is Code.ENGINE_UNAVAILABLE
    assert caught.value.details == {"module": "pyspark"}
    monkeypatch.setattr(importlib.util, "find_spec", lacking("grpc"))
    assert "package of grpc" in (unavailable(SparkConfig(home=Path(), master="sc://x")) or "")
    assert unavailable(local) is None


def test_java_is_asked_for_where_it_runs(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    assert "needs Java" in (unavailable(SparkConfig(home=Path(), variables=bare)) or "")
    assert "needs Java" in (
        unavailable(SparkConfig(home=Path(), master="connect", variables=bare)) or ""
    )
    assert unavailable(SparkConfig(home=Path(), master="sc://x", variables=bare)) is None
    assert unavailable(SparkConfig(home=Path(), session=CLASSIC, variables=bare)) is None
