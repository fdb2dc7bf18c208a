"""The demo as it is run first: with Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


@pytest.mark.deep
def test_the_demo_loads_on_spark(tmp_path: Path) -> None:
    variables = {"OMNIGRAPH_HOME": str(tmp_path), "OMNIGRAPH_SPARK_ARCHIVE": "off"}
    answer = subprocess.run(
        [sys.executable, DEMO, "--people", "500"],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=280,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "\x1b" not in answer.stdout
    assert "spark, because asked for" in answer.stdout
    assert "it has the same entities: True" in answer.stdout
