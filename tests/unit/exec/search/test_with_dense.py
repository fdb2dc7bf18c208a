"""Search over the dense world: what is kept, what follows changes, what is saved."""

from pathlib import Path

import numpy as np
import pytest

from omnigraph.core.engine import Engine
from omnigraph.core.snapshot import Snapshot
from omnigraph.exec.dense.worlds import Worlds
from omnigraph.exec.evaluate import Context
from omnigraph.exec.search import segment, text_index
from omnigraph.exec.search.engine import Search
from omnigraph.lang.catalog.model import Metric
from omnigraph.lang.ir.expr import Bm25, Const, EntityRef, Nearest, TextMatch, TextMode
from omnigraph.lang.values import Base, ValueType
from omnigraph.store.root import Root
from tests.graphs import Delta, make, write

SCHEMA = "node Doc { name: String @key  body: String?  spot: Vector(2)? }"
DOC = EntityRef("node", "Doc", "")
TEXT = ValueType(Base.STRING)
SPOT = ValueType(Base.VECTOR, dim=2)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return make(Root.parse(str(tmp_path / "graph")), SCHEMA)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many texts were indexed, build by build."""
    counted: list[int] = []
    build = text_index.TextIndex.build.__func__  # type: ignore[attr-defined]
    small = segment.build

    def whole(cls, texts):  # type: ignore[no-untyped-def]
        counted.append(len(texts))
        return build(cls, texts)

    def part(texts):  # type: ignore[no-untyped-def]
        counted.append(len(texts))
        return small(texts)

    monkeypatch.setattr(text_index.TextIndex, "build", classmethod(whole))
    monkeypatch.setattr(text_index, "build", part)
    return counted


def docs(**bodies: str | None) -> Delta:
    return Delta(insert=[{"id": each, "name": each, "body": body} for each, body in bodies.items()])


def searched(worlds: Worlds, engine: Engine, text: str, at: Snapshot | None = None) -> list[str]:
    """Who matches, the most relevant first."""
    pinned = at or engine.snapshot()
    world = worlds.world(pinned, engine.schema(pinned).catalog)
    search, context = Search(), Context({}, 0)
    query = Const(text, TEXT)
    match = TextMatch(TextMode.SEARCH, "d", "body", query)
    handles = np.flatnonzero(search.matches(match, DOC, world, context)).astype(np.int32)
    top = search.best(Bm25("d", "body", query), DOC, world, None, 100, context)
    assert sorted(top.handles.tolist()) == handles.tolist()
    return [str(each) for each in world.take(DOC, "id", top.handles).to_pylist()]


def test_an_index_follows_writes_and_old_snapshots_keep_theirs(
    engine: Engine, builds: list[int]
) -> None:
    write(engine, {"node:Doc": docs(**{f"d{n:02}": f"common word{n}" for n in range(40)})})
    worlds, first = Worlds(engine), engine.snapshot()
    assert searched(worlds, engine, "word7") == ["d07"]
    change = Delta(
        insert=[{"id": "aa", "name": "aa", "body": "word7 twice word7"}],
        update={"d03": {"body": "word7 changed"}},
        delete=["d07"],
    )
    write(engine, {"node:Doc": change})
    assert searched(worlds, engine, "word7") == ["aa", "d03"]
    assert searched(worlds, engine, "word3") == []
    assert builds == [40, 2]
    assert searched(worlds, engine, "word7", first) == ["d07"]
    assert searched(Worlds(engine), engine, "word7 common") == searched(
        worlds, engine, "word7 common"
    )


def test_an_old_snapshot_that_is_searched_later_is_itself(engine: Engine) -> None:
    write(engine, {"node:Doc": docs(a="red", b="blue")})
    worlds, first = Worlds(engine), engine.snapshot()
    world = worlds.world(first, engine.schema(first).catalog)
    world.take(DOC, "id", None)  # known, but not searched yet
    write(engine, {"node:Doc": Delta(update={"a": {"body": "green"}})})
    assert searched(worlds, engine, "green red") == ["a"]
    assert searched(worlds, engine, "red", first) == ["a"]
    assert searched(worlds, engine, "green", first) == []


def test_an_index_is_saved_for_the_next_process(
    engine: Engine, builds: list[int], tmp_path: Path
) -> None:
    write(engine, {"node:Doc": docs(a="red wine", b="blue", c=None, d="red red rose")})
    folder = tmp_path / "cache"
    worlds = Worlds(engine, folder=folder, saved_rows_min=1)
    expected = searched(worlds, engine, "red")
    worlds.flush()
    assert builds == [4]
    assert searched(Worlds(engine, folder=folder, saved_rows_min=1), engine, "red") == expected
    assert builds == [4]


def test_vectors_follow_writes(engine: Engine) -> None:
    spots = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": None}
    rows = [{"id": each, "name": each, "spot": spot} for each, spot in spots.items()]
    write(engine, {"node:Doc": Delta(insert=rows)})
    worlds, ranking = (
        Worlds(engine),
        Nearest("d", "spot", 2, Metric.L2, Const((1.0, 0.0), SPOT), None),
    )

    def nearest() -> list[str]:
        pinned = engine.snapshot()
        world = worlds.world(pinned, engine.schema(pinned).catalog)
        top = Search().best(ranking, DOC, world, None, 2, Context({}, 0))
        return [str(each) for each in world.take(DOC, "id", top.handles).to_pylist()]

    assert nearest() == ["a", "b"]
    write(engine, {"node:Doc": Delta(update={"c": {"spot": [0.9, 0.0]}}, delete=["a"])})
    assert nearest() == ["c", "b"]
