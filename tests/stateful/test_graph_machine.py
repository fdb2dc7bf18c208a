"""Graph and model side by side through changes, branches, old commits, indexes and new handles."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from itertools import count
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import omnigraph as og
from omnigraph.errors import ConstraintViolated
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.ir.ops import MutationPlan
from omnigraph.lang.query.params import bind
from omnigraph.testing.naive import Given, ModelGraph, Outcome, Refused, Row, apply
from omnigraph.testing.schemas import SOCIAL, STRICT
from omnigraph.testing.strategies_mutation import changes
from omnigraph.testing.strategies_query import TypedQuery
from omnigraph.testing.strategies_search import any_queries
from omnigraph.types import AccessChoice
from tests.modelled import NOW_MS, adopt, expected, make, read, same

MAIN = "main"
BRANCHES_MAX = 3


class GraphMachine(RuleBasedStateMachine):
    """Whatever is done to the graph is done to the model; they must always agree."""

    commits = Bundle("commits")
    schema = STRICT

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.catalog = compile_schema(self.schema)
        self.graph = make(Path(self.folder.name) / "g", self.schema)
        self.models: dict[str, ModelGraph] = {MAIN: ModelGraph()}
        self.history: dict[str, ModelGraph] = {}
        self.numbers = count()

    def teardown(self) -> None:
        self.graph.close()
        self.folder.cleanup()

    @initialize(target=commits)
    def start(self) -> str:
        return self.remember(MAIN)

    def remember(self, branch: str) -> str:
        commit = self.graph.snapshot(branch).commit
        self.history[commit] = self.models[branch]
        return commit

    def pick(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.models)))

    # -- changes ---------------------------------------------------------------------------

    @rule(target=commits, data=st.data())
    def change(self, data: st.DataObject) -> str:
        branch = self.pick(data)
        change = data.draw(changes(self.catalog, self.models[branch]))
        head = self.graph.snapshot(branch).commit
        try:
            wanted = self.modelled(change, self.models[branch])
        except Refused as refused:
            self.refused(change, branch, refused)
            assert self.graph.snapshot(branch).commit == head
            return head
        done = self.graph.mutate(change.text, change.params, branch=branch)
        assert (done.affected_nodes, done.affected_edges) == (
            wanted.affected_nodes,
            wanted.affected_edges,
        ), change
        if not wanted.published:
            assert done.commit is None
            assert self.graph.snapshot(branch).commit == head
            return head
        assert done.commit is not None
        assert done.commit.parent_id == head
        self.models[branch] = adopt(wanted.graph, read(self.graph, self.catalog, branch))
        return self.remember(branch)

    def modelled(self, change: TypedQuery, model: ModelGraph) -> Outcome:
        (plan,) = compile_queries(change.text, self.catalog)
        assert isinstance(plan, MutationPlan)
        given = Given(bind(plan.params, change.params), NOW_MS)
        return apply(plan, model, self.catalog, given, lambda: f"~{next(self.numbers)}")

    def refused(self, change: TypedQuery, branch: str, wanted: Refused) -> None:
        try:
            self.graph.mutate(change.text, change.params, branch=branch)
        except ConstraintViolated as error:
            found = {(str(item["rule"]), str(item["type"])) for item in error.violations}
            assert found == {(item.rule, item.type_name) for item in wanted.broken}, change
        else:
            raise AssertionError(f"{change} breaks {wanted}")

    # -- branches, indexes, handles --------------------------------------------------------

    @rule(data=st.data())
    def branch_off(self, data: st.DataObject) -> None:
        if len(self.models) > BRANCHES_MAX:
            return
        source = self.pick(data)
        name = f"b{next(self.numbers)}"
        self.graph.branches.create(name, from_=source)
        self.models[name] = self.models[source]

    @rule(data=st.data())
    def index(self, data: st.DataObject) -> None:
        branch = self.pick(data)
        self.graph.ensure_indices(branch=branch)
        self.remember(branch)

    @rule(data=st.data())
    def optimize(self, data: st.DataObject) -> None:
        branch = self.pick(data)
        self.graph.optimize(branch=branch, engine="inprocess")
        self.remember(branch)

    @rule()
    def reopen(self) -> None:
        uri = self.graph.uri
        self.graph.close()
        self.graph = og.open(uri)

    # -- reading ---------------------------------------------------------------------------

    @rule(data=st.data(), access=st.sampled_from(["dense", "direct", "auto"]))
    def ask(self, data: st.DataObject, access: AccessChoice) -> None:
        branch = self.pick(data)
        query = data.draw(any_queries(self.catalog))
        wanted = expected(query, self.catalog, self.models[branch])
        found = self.graph.query(query.text, query.params, branch=branch, access=access)
        assert same(found.to_pylist(), wanted), (query, found.to_pylist(), wanted)

    @rule(commit=commits)
    def look_back(self, commit: str) -> None:
        found = read(self.graph, self.catalog, at=commit)
        assert_same(found, self.history[commit])

    @invariant()
    def agree(self) -> None:
        for branch, model in self.models.items():
            assert_same(read(self.graph, self.catalog, branch), model)


def assert_same(found: ModelGraph, wanted: ModelGraph) -> None:
    def kept(graph: ModelGraph) -> dict[str, Mapping[str, Row]]:
        return {key: rows for key, rows in graph.tables.items() if rows}

    assert same(kept(found), kept(wanted)), (found, wanted)


class SocialMachine(GraphMachine):
    """The same with parallel edges, texts and vectors."""

    schema = SOCIAL


_SETTINGS = settings(
    max_examples=8, stateful_step_count=15, suppress_health_check=[HealthCheck.too_slow]
)
TestStrictGraph = GraphMachine.TestCase
TestStrictGraph.settings = _SETTINGS
TestSocialGraph = SocialMachine.TestCase
TestSocialGraph.settings = _SETTINGS
