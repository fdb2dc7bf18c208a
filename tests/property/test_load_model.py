"""Random loads do what the model says, whichever way they are divided and wherever they run."""

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.request import LoadRequest
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.run.inprocess import InProcessRunner
from omnigraph.dataplane.run.runner import Runner
from omnigraph.dataplane.source.model import FileInput, Format
from omnigraph.errors import ConstraintViolated
from omnigraph.runtime.ids import is_ulid
from omnigraph.store.root import Root
from omnigraph.types import LoadMode
from tests.examples import examples
from tests.graphs import audit, make
from tests.property.load_model import EDGES, NODES, SCHEMA, Model
from tests.unit.dataplane.load.support import PicklingRunner

# Some are sent in a short form of one kind, some of another, some cannot be with others.
NAMES = ("a", "b", "c", "a-long-name", "é")
Lines = list[dict[str, Any]]


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_names = st.sampled_from(NAMES)
_small = st.sampled_from((None, 1, 2, 3, 4))
_nodes = st.one_of(
    st.builds(
        lambda k, rest: {"type": "P", "data": {"k": k, **rest}},
        _names,
        _some(
            u=st.sampled_from((None, "x", "y", "z", "w")),
            a=st.sampled_from((None, 1, 2, 3, 4, 5, 9, 10)),
            r=st.sampled_from(("d", "e")),
        ),
    ),
    st.builds(
        lambda text, rest: {"type": "Q", "data": {**text, **rest}},
        st.sampled_from([{"t": "t"}] * 5 + [{}]),
        _some(id=st.sampled_from(("q", "s")), u=_small),
    ),
)


def _edge(kind: str, source: str, target: int, rest: dict[str, Any]) -> dict[str, Any]:
    targets = ("q", "s", "q", "s", "q", "a") if kind == "C" else (*NAMES, "f")
    data = {"s": 2 if "n" in rest else 1} if kind == "R" else rest
    return {"edge": kind, "from": source, "to": targets[target], "data": data}


_edges = st.builds(
    _edge,
    st.sampled_from(("K", "C", "C", "R")),
    _names,
    st.integers(0, 5),
    _some(id=st.sampled_from(("k", "l", "m")), n=_small),
)
_lines = st.lists(st.one_of(_nodes, _edges), max_size=9)
_loads = st.tuples(
    _lines, st.sampled_from(("append", "merge", "merge", "merge", "overwrite")), st.booleans()
)
SEED: Lines = [
    *({"type": "P", "data": {"k": name, "u": u}} for name, u in zip("abc", "xyz", strict=True)),
    {"type": "Q", "data": {"id": "q", "t": "t", "u": 1}},
    {"type": "Q", "data": {"id": "s", "t": "t"}},
    {"type": "Q", "data": {"t": "t", "u": 2}},
    {"edge": "C", "from": "a", "to": "q", "data": {"id": "k"}},
    {"edge": "C", "from": "a", "to": "s", "data": {"id": "l"}},
    {"edge": "C", "from": "b", "to": "s"},
    {"edge": "K", "from": "a", "to": "b", "data": {"id": "k"}},
    {"edge": "R", "from": "a", "to": "b", "data": {"s": 1}},
]
_ways = st.tuples(
    st.sampled_from((1 << 20, 120, 40)), st.integers(1, 5), st.sampled_from((1, 3, None))
)


class _Real:
    """A graph, and the ways to load into it."""

    def __init__(self, folder: Path) -> None:
        self.repo = make(Root.parse(str(folder / "graph")), SCHEMA)
        self._catalog = self.repo.schema(self.repo.snapshot()).catalog
        self._path = folder / "in.jsonl"

    def load(
        self, lines: Lines, mode: LoadMode, flag: bool, way: tuple[int, int, int | None]
    ) -> list[Any] | None:
        self._path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        split_bytes, partitions, threads = way
        runner: Runner = PicklingRunner() if threads is None else InProcessRunner(threads)
        given = FileInput(
            uri=str(self._path),
            name="in",
            format=Format.NDJSON,
            size=self._path.stat().st_size,
        )
        request = LoadRequest(
            inputs=(given,),
            catalog=self._catalog,
            mode=mode,
            replace=flag and mode == "merge",
            cascade=flag and mode == "overwrite",
            split_bytes=split_bytes,
            partitions=partitions,
        )
        monitor = Monitor("load", "inprocess", "a test", self.repo.clock)
        try:
            Loader(self.repo).load(request, runner, monitor)
        except ConstraintViolated as error:
            return list(error.violations)
        return None

    def content(self, name: str) -> tuple[dict[str, Any], Counter[str]]:
        key = f"{'node' if name in NODES else 'edge'}:{name}"
        known: dict[str, Any] = {}
        others: Counter[str] = Counter()
        for row in self.repo.read(self.repo.snapshot(), key).to_pylist():
            id_ = row.pop("id")
            if is_ulid(id_):
                others[repr(sorted(row.items()))] += 1
            else:
                known[id_] = row
        return known, others


def _told(violation: dict[str, Any]) -> tuple[Any, ...]:
    id_ = violation["id"]
    return (
        violation["line"],
        violation["type"],
        "~" if id_ is not None and is_ulid(id_) else id_,
        violation["rule"],
        tuple(violation["properties"]),
    )


@examples(30)
@given(
    seeded=st.booleans(),
    loads=st.lists(_loads, min_size=1, max_size=4),
    way=_ways,
    other=_ways,
)
def test_loads_do_what_the_model_says(
    seeded: bool,
    loads: list[tuple[Lines, LoadMode, bool]],
    way: tuple[int, int, int | None],
    other: tuple[int, int, int | None],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        real, model = _Real(Path(folder)), Model()
        first: list[tuple[Lines, LoadMode, bool]] = [(SEED, "append", False)] if seeded else []
        for lines, mode, flag in [*first, *loads]:
            expected, after = model.load(
                lines,
                mode,
                replace=flag and mode == "merge",
                cascade=flag and mode == "overwrite",
            )
            found = real.load(lines, mode, flag, way)
            # Edges that stay and whose ids were made have no order that a model could know.
            assert sorted(map(repr, map(_told, found or []))) == sorted(map(repr, expected))
            if after is None:
                assert real.load(lines, mode, flag, other) == found
                continue
            model = after
            for name in (*NODES, *EDGES):
                known, others = real.content(name)
                assert known == model.known[name]
                assert others == Counter(repr(sorted(r.items())) for r in model.others[name])
        audit(real.repo)
