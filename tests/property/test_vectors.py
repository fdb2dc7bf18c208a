"""Whatever is written, and by whom: a vector is never that of a text that is gone."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.core.repository import OpenMode, Repository, components
from omnigraph.core.schema.schema_state import AcceptedSchema
from omnigraph.dataplane.load.fill import FillRequest, VectorFiller
from omnigraph.dataplane.load.loader import Loader
from omnigraph.dataplane.load.request import Fill, Loaded, LoadRequest
from omnigraph.dataplane.progress import Monitor
from omnigraph.dataplane.source.model import FileInput, Format, TypeRef
from omnigraph.dataplane.source.records import entity_lines
from omnigraph.embed.local import MockEmbedder
from omnigraph.graph.opening import _graph
from omnigraph.lang import compile_schema
from omnigraph.store.root import Root
from omnigraph.types import MAIN, LoadMode
from tests.embeddings import vector_of
from tests.unit.dataplane.load.support import PicklingRunner

SCHEMA = "node Doc { slug: String @key  page: I32?  text: String?  vec: Vector(2)? @embed(text) }"
DOC = "node:Doc"
Row = dict[str, Any]

_text = st.sampled_from((None, "one", "two", "three"))
_vector = st.sampled_from((None, (1.0, 2.0), (3.0, 4.0)))
_fields = st.fixed_dictionaries({}, optional={"text": _text, "vec": _vector, "page": st.just(1)})
_rows = st.dictionaries(st.sampled_from("abcd"), _fields, min_size=1, max_size=4)


@dataclass
class Step:
    """Something that is done to the graph, with a provider or without, here or elsewhere."""

    what: str
    rows: Mapping[str, Row] = field(default_factory=dict)
    has_provider: bool = True
    is_remote: bool = False


_steps = st.builds(
    Step,
    st.sampled_from(
        ("append", "merge", "merge", "replace", "overwrite", "insert", "update", "embed")
    ),
    _rows,
    st.booleans(),
    st.booleans(),
)


class Model:
    """What the entities have to be: text and vector by slug."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, Any]] = {}

    def apply(self, step: Step) -> int:
        """Do a step; how many vectors nobody could compute."""
        before = self.rows
        if step.what == "overwrite":
            self.rows = before = {}
        after, missing = dict(before), 0
        for slug, row in step.rows.items():
            old_text, old_vector = before.get(slug, (None, None))
            keeps = step.what in ("merge", "update") and slug in before
            text = row.get("text", old_text) if keeps else row.get("text")
            if "vec" in row:
                vector = row["vec"]
            elif keeps and "text" not in row:
                vector = old_vector
            elif text is None:
                vector = old_vector if keeps and old_text is None else None
            elif text == old_text and old_vector is not None:
                vector = old_vector
            else:
                vector = vector_of(text, 2) if step.has_provider else None
                missing += not step.has_provider
            after[slug] = (text, vector)
        self.rows = after
        return missing

    def embed(self) -> int:
        """Fill what is missing; how many."""
        wanting = [slug for slug, (text, vector) in self.rows.items() if text and vector is None]
        self.rows |= {
            slug: (self.rows[slug][0], vector_of(self.rows[slug][0], 2)) for slug in wanting
        }
        return len(wanting)


class Machine:
    """A graph with two handles: one has a provider."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root = Root.parse(str(folder / "g.omni"))
        accepted = AcceptedSchema(catalog=compile_schema(SCHEMA), text=SCHEMA)
        Repository.init(root, accepted, components(root, durable=False))
        self.graphs = {
            has: _graph(
                Repository.open(root, components(root, durable=False), OpenMode.READ_WRITE),
                None,
                MockEmbedder() if has else None,
                None,
            )
            for has in (True, False)
        }

    def do(self, step: Step) -> int:
        """Do a step; how many vectors were left null."""
        graph = self.graphs[step.has_provider]
        if step.what == "insert":
            return sum(self._mutate(graph, "insert Doc {{ slug: {slug}, {values} }}", step))
        if step.what == "update":
            body = "update Doc set {{ {values} }} where slug = {slug}"
            return sum(self._mutate(graph, body, step))
        rows = [{"slug": slug, **row} for slug, row in step.rows.items()]
        mode: Any = "merge" if step.what == "replace" else step.what
        if not step.is_remote:
            done = graph.load({"Doc": rows}, mode=mode, replace=step.what == "replace")
            return done.vectors_missing
        return sum(item.count for item in self._load(graph, rows, mode, step).missing)

    def _mutate(self, graph: og.Graph, body: str, step: Step) -> list[int]:
        found = []
        for slug, row in step.rows.items():
            values = {"page": 2, **row}
            names = ", ".join(f"{name}: ${name}" for name in values)
            text = body.format(slug="$slug", values=names)
            types = {"page": "I32", "text": "String?", "vec": "Vector(2)?"}
            given = ", ".join(f"${name}: {types[name]}" for name in values)
            done = graph.mutate(
                f"query q($slug: String, {given}) {{ {text} }}", {"slug": slug, **values}
            )
            found.append(done.vectors_missing)
        return found

    def _load(self, graph: og.Graph, rows: list[Row], mode: LoadMode, step: Step) -> Loaded:
        repo = graph._repo
        path = self.folder / "rows.jsonl"
        lines = entity_lines(rows, TypeRef(kind="node", name="Doc"), "rows")
        path.write_bytes(b"".join(lines))
        size = path.stat().st_size
        request = LoadRequest(
            inputs=(FileInput(uri=str(path), name="rows", format=Format.NDJSON, size=size),),
            catalog=repo.schema(repo.snapshot()).catalog,
            mode=mode,
            replace=step.what == "replace",
            split_bytes=60,
            partitions=2,
        )
        monitor = Monitor("load", "spark", "a test", repo.clock)
        return Loader(repo, graph._parts.embeddings).load(request, PicklingRunner(), monitor)

    def embed(self, *, is_remote: bool) -> int:
        """Compute what is missing; how many vectors."""
        graph = self.graphs[True]
        if not is_remote:
            return sum(graph.embed(batch=2).vectors.values())
        filler = VectorFiller(graph._repo, graph._parts.embeddings)
        monitor = Monitor("embed", "spark", "a test", graph._repo.clock)
        request = FillRequest(branch=MAIN, fill=Fill.MISSING, batch=3)
        return sum(filler.fill(request, PicklingRunner(), monitor).vectors.values())

    def rows(self) -> dict[str, tuple[Any, Any]]:
        """What the graph holds."""
        query = "query q() { match { $d: Doc } return { $d.slug as s, $d.text as t, $d.vec as v } }"
        found = self.graphs[False].query(query)
        return {r["s"]: (r["t"], None if r["v"] is None else tuple(r["v"])) for r in found}


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_steps, min_size=1, max_size=7))
@example([Step("append", {"a": {"text": "one"}}, has_provider=False, is_remote=True)])
@example(
    [
        Step("append", {"a": {"text": "one"}, "b": {"text": "two"}}, is_remote=True),
        Step("merge", {"a": {"text": "two"}, "b": {"text": "two"}}, False, is_remote=True),
        Step("embed", is_remote=True),
    ]
)
def test_a_vector_is_never_that_of_an_old_text(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine, model = Machine(Path(folder)), Model()
        for step in steps:
            if step.what == "embed":
                assert machine.embed(is_remote=step.is_remote) == model.embed()
            else:
                known = set(model.rows)
                if step.what == "append":
                    step.rows = {s: row for s, row in step.rows.items() if s not in known}
                if step.what == "update":
                    step.rows = {s: row for s, row in step.rows.items() if s in known}
                if not step.rows:
                    continue
                assert machine.do(step) == model.apply(step)
            assert machine.rows() == model.rows
