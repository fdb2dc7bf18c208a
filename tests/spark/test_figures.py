"""What Spark shows of the work, and what results say of its stages."""

from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.dataplane.spark.session import HeldSession

SCHEMA = "node Person { name: String @key  age: I32? }"


def descriptions(session: Any) -> list[str]:
    """The descriptions of all jobs, as the web pages of Spark list them."""
    jobs = session.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(number).description() for number in range(jobs.size())]
    return [text.get() for text in found if text.isDefined()]


def test_jobs_and_stages_have_names_and_figures(local: HeldSession, tmp_path: Path) -> None:
    lines = tmp_path / "people.jsonl"
    lines.write_text(
        "".join(
            f'{{"type": "Person", "data": {{"name": "p{n}", "age": {n}}}}}\n' for n in range(100)
        )
    )
    spark: dict[str, Any] = {"engine": "spark", "spark": local.session}
    with og.init(tmp_path / "g.omni", SCHEMA) as graph:
        loaded = graph.load(lines, **spark)
        merged = graph.load(lines, mode="merge", **spark)
        exported = graph.export(f"{tmp_path}/out/", **spark)
    read = loaded.stages[0]
    assert (read.stage, read.tasks, read.rows) == ("read", 1, 100)
    assert read.bytes == lines.stat().st_size == loaded.bytes
    assert loaded.stages[-1].stage == "commit"
    by_name = {item.stage: item for item in merged.stages}
    assert (by_name["write"].tasks, by_name["write"].rows) == (1, 100)
    assert merged.rows == 100
    assert sum(item.seconds for item in merged.stages) <= merged.seconds
    written = exported.stages[0]
    assert (written.stage, written.rows, written.bytes) == ("write", 100, exported.bytes)
    shown = descriptions(local.session)
    assert "omnigraph load: read, 1 task" in shown
    size = lines.stat().st_size
    assert any(text.startswith("omnigraph load: write, 1 task; so far 100 rows") for text in shown)
    assert any(f"{size:,} bytes in" in text for text in shown)
    assert any(text.startswith("omnigraph export: write, 1 task") for text in shown)
