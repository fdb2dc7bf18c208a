"""Java is found where Spark would look, and refused with what to install."""

import os
from pathlib import Path

import pytest

from omnigraph.dataplane.spark.java import find_java
from omnigraph.errors import Code, InvalidInput

OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15\\nOpenJDK Runtime Environment (build 17.0.15+6)'
ORACLE_8 = 'java version "1.8.0_402"\\nJava(TM) SE Runtime Environment (build 1.8.0_402-b06)'


def fake_java(home: Path, printed: str = OPENJDK_17, status: int = 0) -> Path:
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\nprintf '{printed}\\n' >&2\nexit {status}\n")
    path.chmod(0o755)
    return path


def refused(variables: dict[str, str]) -> str:
    with pytest.raises(InvalidInput) as caught:
        find_java(variables)
    assert caught.value.code is Code.ENGINE_UNAVAILABLE
    text = str(caught.value)
    assert "apt install openjdk-17-jre-headless" in text
    assert 'engine="inprocess"' in text
    return text


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    chosen = fake_java(tmp_path / "chosen", 'openjdk version "21" 2023-09-19')
    other = fake_java(tmp_path / "other")
    both = {"JAVA_HOME": str(chosen.parents[1]), "PATH": str(other.parent)}
    java = find_java(both)
    assert (java.path, java.major, java.version) == (chosen, 21, "21")
    java = find_java({"PATH": str(other.parent)})
    assert (java.path, java.major, java.version) == (other, 17, "17.0.15")


def test_a_word_before_the_version_is_no_trouble(tmp_path: Path) -> None:
    path = fake_java(tmp_path, "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\\n" + OPENJDK_17)
    assert find_java({"PATH": str(path.parent)}).major == 17


def test_without_java(tmp_path: Path) -> None:
    text = refused({"PATH": str(tmp_path)})
    assert "there is none: JAVA_HOME is not set and PATH has no java" in text


def test_java_home_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    # A good one on the path does not help: Spark's own scripts go by JAVA_HOME.
    path = fake_java(tmp_path)
    assert "JAVA_HOME=/nowhere has no bin/java" in refused(
        {"JAVA_HOME": "/nowhere", "PATH": str(path.parent)}
    )


@pytest.mark.parametrize(
    ("printed", "status", "said"),
    [
        (ORACLE_8, 0, "Spark needs Java 17 or newer, and {path} is Java 1.8.0_402"),
        ('openjdk version "11.0.2" 2019-01-15', 0, "{path} is Java 11.0.2"),
        ("libjvm.so: cannot open shared object file", 1, "does not run: libjvm.so: cannot open"),
        ("hello", 0, "does not say its version, it prints: hello"),
        ("", 3, "does not run: status 3"),
    ],
)
def test_java_that_is_old_or_broken(tmp_path: Path, printed: str, status: int, said: str) -> None:
    path = fake_java(tmp_path, printed, status)
    assert said.format(path=path) in refused({"PATH": str(path.parent)})


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    path = fake_java(tmp_path)
    path.write_text("#!/no/such/interpreter\n")
    assert "does not run" in refused({"JAVA_HOME": str(tmp_path)})


def test_the_same_program_is_asked_once(tmp_path: Path) -> None:
    path = fake_java(tmp_path)
    found = find_java({"PATH": str(path.parent)})
    before = path.stat()
    path.write_text("#!/bin/sh\nexit 1\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert find_java({"PATH": str(path.parent)}) == found
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
    assert "does not run" in refused({"PATH": str(path.parent)})
