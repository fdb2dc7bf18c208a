"""GraphFrames from its source: `python -m bench.algorithms.graphframes SOURCE JAR`.

SOURCE is a checkout of https://github.com/graphframes/graphframes. The Scala compiler and all
classes that it needs come with PySpark, so nothing is downloaded; a JDK must be there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import pyspark

_FOLDERS: Final = (
    "graphx/src/main",
    "core/src/main/scala",
    "core/src/main/scala-spark-4",
)


def build(source: Path, jar: Path) -> None:
    """Compile a checkout against the Spark that is installed, and pack the classes."""
    files = [
        path
        for folder in _FOLDERS
        for path in sorted((source / folder).rglob("*"))
        if path.suffix in {".scala", ".java"}
        and ("examples" not in path.parts or path.stem == "Graphs")
    ]
    if not files:
        raise SystemExit(f"{source} is no checkout of GraphFrames")
    java = [path for path in files if path.suffix == ".java" and path.stem != "package-info"]
    jars = str(Path(pyspark.__file__).parent / "jars" / "*")
    with tempfile.TemporaryDirectory() as made:
        scalac = ["java", "-Xss8m", "-cp", jars, "scala.tools.nsc.Main", "-usejavacp", "-Xsource:3"]
        _run([*scalac, "-d", made, *map(str, files)])
        _run(["javac", "-nowarn", "-cp", f"{jars}:{made}", "-d", made, *map(str, java)])
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(Path(made).rglob("*.class")):
                packed.write(path, path.relative_to(made))


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]), Path(sys.argv[2]))
