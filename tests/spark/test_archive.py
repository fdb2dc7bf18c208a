"""The class-data archive, made by the first use of Spark and taken by the next."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.spark import kernels
from tests.spark.conftest import ROOT

PROGRAM = """
    import sys
    from omnigraph.dataplane.spark.config import configured
    from omnigraph.dataplane.spark.runner import SparkRunner
    from omnigraph.dataplane.spark.session import acquire

    loaded = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={sys.argv[1]}"}
    with acquire(configured("local[1]", loaded)) as held:
        assert list(SparkRunner(held).run("read", abs, [-1])) == [(0, 1)]
"""
FROM_ARCHIVE = "shared objects file (top)"


def run(home: Path, classes: Path) -> int:
    """Use Spark once; return how many classes came from the archive."""
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(classes)],
        cwd=ROOT,
        env={**os.environ, "OMNIGRAPH_HOME": str(home), "OMNIGRAPH_SPARK_ARCHIVE": "auto"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (answer.stdout, answer.stderr) == ("", "")
    return classes.read_text().count(FROM_ARCHIVE)


@pytest.mark.deep
@pytest.mark.timeout(1_800)
def test_the_second_use_starts_from_what_the_first_has_learnt(tmp_path: Path) -> None:
    assert run(tmp_path, tmp_path / "first.txt") == 0
    while not (made := list((tmp_path / "cache").glob("spark-*.jsa"))):
        kernels.pause()
    assert not list((tmp_path / "cache").glob("*.new"))
    assert len(made) == 1
    assert run(tmp_path, tmp_path / "second.txt") > 5_000
