"""Workers whose Python has what the documentation asks for, and nothing else of ours."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.spark.clusters import EXECUTORS, LOCAL_CLUSTER, local_cluster
from tests.spark.conftest import ROOT
from tests.spark.pythons import OBSTORE, PYARROW, PYLANCE, python_with, without_path

SETTINGS = {
    "local[2,3]": {},
    "theirs": {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"},
    LOCAL_CLUSTER: EXECUTORS,
}
PROGRAM = """
    import json, sys
    sys.path[:0] = json.loads(sys.argv[4])
    import omnigraph as og
    from omnigraph.dataplane.spark.config import configured
    from omnigraph.dataplane.spark.session import acquire
    from pyspark.sql import SparkSession

    folder, master, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    graph = og.init(f"{folder}/g.omni", "node Person { name: String @key  age: I32? }")
    spark = None
    if master == "theirs":
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        og.register_spark(spark)
    with acquire(configured(spark or master, settings)) as held:
        spark = held.session
        options = {"path": graph.uri, "type": "Person"}
        new = spark.createDataFrame([("Ada", 36), ("Bo", 7)], "name string, age int")
        new.write.format("omnigraph").options(**options).mode("append").save()
        graph.load({"Person": [{"name": "Cy"}]}, engine="spark", spark=spark)
        frame = spark.read.format("omnigraph").options(**options).load()
        print(sorted(row["name"] for row in frame.collect()))
        print(graph.to_spark("Person", spark=spark).filter("age > 8").count())
        print(graph.export(f"{folder}/out/", engine="spark", spark=spark).rows)
"""


def run(python: str, master: str, settings: dict[str, str], folder: Path) -> list[str]:
    """Run the program in a process whose workers have another Python."""
    source = [path for path in sys.path if (Path(path) / "omnigraph").is_dir()]
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder), master]
    answer = subprocess.run(
        [*command, json.dumps(settings), json.dumps(source)],
        cwd=ROOT,
        env={
            **without_path(),
            "OMNIGRAPH_HOME": str(folder / "home"),
            "OMNIGRAPH_SPARK_ARCHIVE": "off",
            "PYSPARK_PYTHON": python,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-4_000:]
    return answer.stdout.splitlines()


@pytest.mark.parametrize("master", ["local[2,3]", "theirs", LOCAL_CLUSTER])
def test_packages_of_the_documentation_are_enough_to_read_and_write(
    master: str, tmp_path: Path
) -> None:
    python = python_with(tmp_path / "python", (*PYARROW, *PYLANCE, *OBSTORE))
    with local_cluster():
        printed = run(python, master, SETTINGS[master], tmp_path)
    assert printed == ["['Ada', 'Bo', 'Cy']", "1", "{'node:Person': 3}"]
