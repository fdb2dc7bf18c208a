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
LACKING = """
    import json, sys
    sys.path[:0] = json.loads(sys.argv[4])
    import omnigraph as og
    from omnigraph.dataplane.spark.config import configured
    from omnigraph.dataplane.spark.session import acquire

    folder, master = sys.argv[1], sys.argv[2]
    graph = og.init(f"{folder}/g.omni", "node Person { name: String @key  age: I32? }")
    graph.load({"Person": [{"name": "Ada"}]})
    options = {"path": graph.uri, "type": "Person"}
    asked = {"engine": "spark", "spark": master}
    with acquire(configured(master)) as held:
        read, frame = held.session.read, held.session.createDataFrame([("Bo",)], "name string")

        def tell(call):
            try:
                call()
            except Exception as error:
                found = og.spark_error(error)
                told = None if found is None else (found.code.value, found.details)
                print(isinstance(error, og.errors.GraphError), told)

        tell(lambda: graph.load({"Person": [{"name": "Cy"}]}, **asked))
        tell(lambda: graph.to_spark("Person", spark=master))
        tell(lambda: read.format("omnigraph").options(**options).load())
        tell(lambda: frame.write.format("omnigraph").options(**options).mode("append").save())
        print(graph.snapshot().counts)
"""


def run(
    python: str, master: str, settings: dict[str, str], folder: Path, program: str = PROGRAM
) -> list[str]:
    """Run a program in a process whose workers have another Python."""
    source = [path for path in sys.path if (Path(path) / "omnigraph").is_dir()]
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder), master]
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


def test_what_the_python_of_workers_lacks_is_named_by_every_call(tmp_path: Path) -> None:
    python = python_with(tmp_path / "python", ())
    printed = run(python, "local[2,3]", {}, tmp_path, LACKING)
    lacking = "('engine_unavailable', {'module': 'pyarrow'})"
    called = [f"{is_ours} {lacking}" for is_ours in (True, True, False, False)]
    assert printed == [*called, "{'node:Person': 1}"]
