"""The Java that Spark runs on: found and checked before anything is started with it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from omnigraph.dataplane.spark import tuning
from omnigraph.errors import Code, InvalidInput

VERSION_MIN: Final = 17
# `openjdk version "17.0.15" 2025-04-15`, and before Java 9: `java version "1.8.0_402"`.
_VERSION: Final = re.compile(r'version "(?P<version>(?:1\.)?(?P<major>\d+)[^"]*)"')
INSTALL: Final = (
    f"install Java {VERSION_MIN} or newer "
    f"(Debian, Ubuntu: apt install openjdk-{VERSION_MIN}-jre-headless; "
    f"Fedora: dnf install java-{VERSION_MIN}-openjdk-headless; "
    f"macOS: brew install openjdk@{VERSION_MIN}) "
    'or use engine="inprocess"'
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that answers.

    Attributes:
        path: The program.
        major: Its release, such as 17.
        version: What it calls itself, such as `17.0.15`.
    """

    path: Path
    major: int
    version: str


def find_java(variables: Mapping[str, str]) -> Java:
    """The Java that Spark's own scripts would take, if it is new enough.

    Args:
        variables: The environment. `JAVA_HOME` comes first, then `PATH`.

    Raises:
        InvalidInput: There is none, it does not run, or it is too old.
    """
    path = _located(variables)
    java = _answering(path, path.stat().st_mtime_ns)
    if java.major < VERSION_MIN:
        raise _unusable(
            f"Spark needs Java {VERSION_MIN} or newer, and {path} is Java {java.version}",
            path=str(path),
            version=java.version,
        )
    return java


@lru_cache(maxsize=8)
def _answering(path: Path, modified_ns: int) -> Java:
    """The version that a program reports. Asked once, as long as it is the same program."""
    printed = _asked(path)
    found = _VERSION.search(printed)
    if found is None:
        first = next(iter(printed.strip().splitlines()), "nothing")
        raise _unusable(f"{path} does not say its version, it prints: {first}", path=str(path))
    return Java(path=path, major=int(found["major"]), version=found["version"])


def _located(variables: Mapping[str, str]) -> Path:
    if home := variables.get("JAVA_HOME"):
        path = Path(home) / "bin" / "java"
        if not path.is_file():
            raise _unusable(f"Spark needs Java, and JAVA_HOME={home} has no bin/java", path=home)
        return path
    found = shutil.which("java", path=variables.get("PATH"))
    if found is None:
        raise _unusable(
            "Spark needs Java, and there is none: JAVA_HOME is not set and PATH has no java"
        )
    return Path(found)


def _asked(path: Path) -> str:
    try:
        answer = subprocess.run(
            [str(path), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=tuning.active.java_timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(f"{path} does not run: {error}", path=str(path)) from error
    printed = answer.stderr + answer.stdout
    if answer.returncode:
        last = next(reversed(printed.strip().splitlines()), f"status {answer.returncode}")
        raise _unusable(f"{path} does not run: {last}", path=str(path))
    return printed


def _unusable(problem: str, **details: str) -> InvalidInput:
    return InvalidInput(Code.ENGINE_UNAVAILABLE, f"{problem}; {INSTALL}", **details)
