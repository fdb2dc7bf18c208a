"""Search over the dense view: what is kept, what follows changes, what is saved."""

from pathlib import Path

import numpy as np
import pytest

from omnigraph.core.commits.graph_version import GraphVersion
from omnigraph.core.repository import Repository
from omnigraph.exec.dense.view_cache import ViewCache
from omnigraph.exec.evaluate import EvalContext
from omnigraph.exec.search import segment, text_index
from omnigraph.exec.search.search import Search
from omnigraph.lang.ir.expr import Bm25, Const, EntityRef, Nearest, TextMatch, TextMode
from omnigraph.lang.values import Base, ValueType
from omnigraph.store.root import Root
from omnigraph.types import Metric
from tests.graphs import Delta, make, write

SCHEMA = "node Doc { name: String @key  body: String?  spot: Vector(2)? }"
DOC = EntityRef("node", "Doc", "")
TEXT = ValueType(Base.STRING)
SPOT = ValueType(Base.VECTOR, dim=2)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return make(Root.parse(str(tmp_path / "graph")), SCHEMA)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts indexed by each build."""
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


def searched(
    views: ViewCache, repo: Repository, text: str, at: GraphVersion | None = None
) -> list[str]:
    """The matching entities, the most relevant first."""
    pinned = at or repo.snapshot()
    view = views.view(pinned, repo.schema(pinned).catalog)
    search, context = Search(), EvalContext({}, 0)
    query = Const(text, TEXT)
    match = TextMatch(TextMode.SEARCH, "d", "body", query)
    handles = np.flatnonzero(search.matches(match, DOC, view, context)).astype(np.int32)
    top = search.best(Bm25("d", "body", query), DOC, view, None, 100, context)
    assert sorted(top.handles.tolist()) == handles.tolist()
    return [str(each) for each in view.take(DOC, "id", top.handles).to_pylist()]


def test_an_index_follows_writes_and_old_snapshots_keep_theirs(
    repo: Repository, builds: list[int]
) -> None:
    write(repo, {"node:Doc": docs(**{f"d{n:02}": f"common word{n}" for n in range(40)})})
    views, first = ViewCache(repo), repo.snapshot()
    assert searched(views, repo, "word7") == ["d07"]
    change = Delta(
        insert=[{"id": "aa", "name": "aa", "body": "word7 twice word7"}],
        update={"d03": {"body": "word7 changed"}},
        delete=["d07"],
    )
    write(repo, {"node:Doc": change})
    assert searched(views, repo, "word7") == ["aa", "d03"]
    assert searched(views, repo, "word3") == []
    assert builds == [40, 2]
    assert searched(views, repo, "word7", first) == ["d07"]
    assert searched(ViewCache(repo), repo, "word7 common") == searched(views, repo, "word7 common")


def test_an_old_snapshot_that_is_searched_later_is_itself(repo: Repository) -> None:
    write(repo, {"node:Doc": docs(a="red", b="blue")})
    views, first = ViewCache(repo), repo.snapshot()
    view = views.view(first, repo.schema(first).catalog)
    view.take(DOC, "id", None)  # known, but not searched yet
    write(repo, {"node:Doc": Delta(update={"a": {"body": "green"}})})
    assert searched(views, repo, "green red") == ["a"]
    assert searched(views, repo, "red", first) == ["a"]
    assert searched(views, repo, "green", first) == []


def test_an_index_is_saved_for_the_next_process(
    repo: Repository, builds: list[int], tmp_path: Path
) -> None:
    write(repo, {"node:Doc": docs(a="red wine", b="blue", c=None, d="red red rose")})
    folder = tmp_path / "cache"
    views = ViewCache(repo, folder=folder, saved_rows_min=1)
    expected = searched(views, repo, "red")
    views.flush()
    assert builds == [4]
    assert searched(ViewCache(repo, folder=folder, saved_rows_min=1), repo, "red") == expected
    assert builds == [4]


def test_vectors_follow_writes(repo: Repository) -> None:
    spots = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": None}
    rows = [{"id": each, "name": each, "spot": spot} for each, spot in spots.items()]
    write(repo, {"node:Doc": Delta(insert=rows)})
    views, ranking = (
        ViewCache(repo),
        Nearest("d", "spot", 2, Metric.L2, Const((1.0, 0.0), SPOT), None),
    )

    def nearest() -> list[str]:
        pinned = repo.snapshot()
        view = views.view(pinned, repo.schema(pinned).catalog)
        top = Search().best(ranking, DOC, view, None, 2, EvalContext({}, 0))
        return [str(each) for each in view.take(DOC, "id", top.handles).to_pylist()]

    assert nearest() == ["a", "b"]
    write(repo, {"node:Doc": Delta(update={"c": {"spot": [0.9, 0.0]}}, delete=["a"])})
    assert nearest() == ["c", "b"]
