"""A cluster whose machines do not share a folder: nothing is said to be there that is not."""

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.dataplane.spark.config import configured
from omnigraph.dataplane.spark.session import acquire
from tests.spark.clusters import EXECUTORS, can_be_private, standalone

SCHEMA = "node Person { name: String @key }  edge Knows: Person -> Person"


def test_an_export_to_a_folder_of_the_workers_own_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.mkdir()
    if not can_be_private(target):
        pytest.skip("this machine does not let processes have mounts of their own")
    with (
        og.init(tmp_path / "g.omni", SCHEMA) as graph,
        standalone(tmp_path / "cluster", private=target) as cluster,
        acquire(configured(cluster.master, EXECUTORS)) as held,
    ):
        graph.load({"Person": [{"name": "a"}], "Knows": [{"from": "a", "to": "a"}]})
        with pytest.raises(og.errors.InvalidInput, match="is not shared") as caught:
            graph.export(f"{target}/", engine="spark", spark=held.session)
        assert caught.value.code == "target_not_shared"
        assert not list(target.iterdir())
        with og.init(target / "alone.omni", SCHEMA) as alone:
            with pytest.raises(og.errors.InvalidInput, match="do not see") as caught:
                alone.load({"Person": [{"name": "a"}]}, engine="spark", spark=held.session)
            assert caught.value.code == "path_not_shared"
            frame = held.session.createDataFrame([("a",)], "name string")
            place = {"path": alone.uri, "type": "Person"}
            with pytest.raises(Exception, match="do not see") as refused:
                frame.write.format("omnigraph").options(**place).mode("append").save()
            found = og.spark_error(refused.value)
            assert found is not None
            assert found.code == "path_not_shared"
            assert alone.snapshot().counts["node:Person"] == 0
            alone.load({"Person": [{"name": "a"}]})
            with pytest.raises(Exception, match="do not see"):
                alone.to_spark("Person", spark=held.session).collect()
        source = target / "alone.jsonl"
        source.write_text('{"type": "Person", "data": {"name": "b"}}\n')
        with pytest.raises(og.errors.InvalidInput, match=r"do not see .*alone\.jsonl") as caught:
            graph.load(source, engine="spark", spark=held.session)
        assert caught.value.code == "path_not_shared"
        other = tmp_path / "shared"
        done = graph.export(f"{other}/", engine="spark", spark=held.session)
        assert done.engine == "spark"
        names = sorted(path.name for path in other.iterdir())
        assert names == ["Knows-00000.ndjson", "Person-00000.ndjson", "_export.json"]
