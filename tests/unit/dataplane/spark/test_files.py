"""What is kept between processes: our code, the class data, and the settings that use them."""

import fcntl
import os
import zipfile
from pathlib import Path

import pytest

from omnigraph.dataplane.spark import archive as archives
from omnigraph.dataplane.spark.archive import archive_file, make
from omnigraph.dataplane.spark.config import MasterKind
from omnigraph.dataplane.spark.java import Java
from omnigraph.dataplane.spark.settings import settings_for, variable
from omnigraph.dataplane.spark.shipping import drop_older, packed

JAVA = Java(Path("/usr/bin/java"), 17, "17.0.15")
WHOLE = 11 << 20


def package(folder: Path, text: str = "") -> Path:
    (folder / "omnigraph" / "sub" / "__pycache__").mkdir(parents=True)
    (folder / "omnigraph" / "__init__.py").write_text(text)
    (folder / "omnigraph" / "sub" / "deep.py").write_text("answer = 42")
    (folder / "omnigraph" / "sub" / "__pycache__" / "deep.pyc").write_text("x")
    return folder


def test_code_is_packed_by_content(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    one = packed(cache, package(tmp_path / "one"))
    assert sorted(zipfile.ZipFile(one).namelist()) == [
        "omnigraph/__init__.py",
        "omnigraph/sub/deep.py",
    ]
    same = packed(cache, package(tmp_path / "same"))
    other = packed(cache, package(tmp_path / "other", "changed = True"))
    assert same == one
    assert other != one
    assert sorted(path.suffix for path in cache.iterdir()) == [".zip", ".zip"]


def test_our_own_code_packs_and_imports_nothing_by_path(tmp_path: Path) -> None:
    names = zipfile.ZipFile(packed(tmp_path)).namelist()
    assert "omnigraph/dataplane/spark/kernel.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_old_files_go(tmp_path: Path) -> None:
    for number in range(5):
        path = tmp_path / f"spark-{number}.log"
        path.touch()
        os.utime(path, (number, number))
    (tmp_path / "other.log").touch()
    drop_older(tmp_path, "spark-*.log", 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "other.log",
        "spark-3.log",
        "spark-4.log",
    ]


def test_an_archive_is_of_one_spark_and_one_java(tmp_path: Path) -> None:
    path = archive_file(tmp_path, JAVA, "")
    assert path.name.startswith("spark-4.")
    assert "-java-17.0.15-" in path.name
    assert archive_file(tmp_path, Java(Path("/opt/java"), 17, "17.0.15"), "") != path


def trained(size: int, calls: list[Path]) -> object:
    def train(new: Path, log: Path) -> None:
        calls.append(new)
        with new.open("wb") as file:
            file.truncate(size)

    return train


def test_an_archive_appears_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cache" / "spark-4.jsa"
    calls: list[Path] = []
    monkeypatch.setattr(archives, "_train", trained(WHOLE, calls))
    assert make(path)
    assert path.stat().st_size == WHOLE
    assert calls[0] != path
    assert not calls[0].exists()
    assert not make(path)
    assert len(calls) == 1


@pytest.mark.parametrize("size", [0, 1000])
def test_half_an_archive_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tmp_path / "spark-4.jsa"
    monkeypatch.setattr(archives, "_train", trained(size, []))
    assert not make(path)
    assert not list(tmp_path.glob("*.jsa"))
    assert not list(tmp_path.glob("*.new"))


def test_one_makes_it_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spark-4.jsa"
    calls: list[Path] = []
    monkeypatch.setattr(archives, "_train", trained(WHOLE, calls))
    with open(path.with_suffix(".lock"), "a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make(path)
    assert calls == []
    assert make(path)


def test_settings_by_place(tmp_path: Path) -> None:
    local = settings_for(MasterKind.LOCAL, "local[2]", archive=tmp_path / "a.jsa")
    assert local["spark.master"] == "local[2]"
    assert local["spark.driver.host"] == "127.0.0.1"
    assert f"-XX:SharedArchiveFile={tmp_path / 'a.jsa'}" in local["spark.driver.extraJavaOptions"]
    far = settings_for(MasterKind.CLUSTER, "spark://far:7077")
    assert "spark.driver.host" not in far
    assert "SharedArchiveFile" not in far["spark.driver.extraJavaOptions"]
    near = settings_for(MasterKind.CLUSTER, "spark://127.0.0.1:7077,localhost:7078")
    assert near["spark.driver.host"] == "127.0.0.1"


def test_what_the_caller_chooses_wins() -> None:
    chosen = {"spark.driver.memory": "4g", "spark.driver.extraJavaOptions": "-Dx=1", "a.b": "c"}
    found = settings_for(MasterKind.LOCAL, "local", chosen=chosen)
    assert found["spark.driver.memory"] == "4g"
    assert found["a.b"] == "c"
    options = found["spark.driver.extraJavaOptions"].split()
    assert options == ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dx=1"]


def test_a_variable_is_set_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_A", "before")
    monkeypatch.delenv("OMNIGRAPH_B", raising=False)
    with variable("OMNIGRAPH_A", "x"), variable("OMNIGRAPH_B", "y"):
        assert (os.environ["OMNIGRAPH_A"], os.environ["OMNIGRAPH_B"]) == ("x", "y")
    assert os.environ["OMNIGRAPH_A"] == "before"
    assert "OMNIGRAPH_B" not in os.environ
