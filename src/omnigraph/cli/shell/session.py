"""A session of the shell: its state, its commands, and the statements that it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from omnigraph.cli import render
from omnigraph.cli.exits import show
from omnigraph.cli.plain import counted
from omnigraph.cli.queries import parameters
from omnigraph.cli.results import Format, plain_row, show_rows
from omnigraph.cli.shell.input import as_query, is_command
from omnigraph.cli.shell.names import ShellNames, names_of
from omnigraph.errors import Code, GraphError, InvalidInput
from omnigraph.lang import compile_queries, compile_schema
from omnigraph.lang.catalog.model import Catalog
from omnigraph.lang.ir.explain import explain
from omnigraph.lang.ir.ops import MutationPlan, ReadPlan
from omnigraph.lang.source import did_you_mean
from omnigraph.runtime.clock import Clock

if TYPE_CHECKING:
    import omnigraph as og

_ON_OFF: Final = ("on", "off")
_SOURCE: Final = "<shell>"
HELP: Final = (
    (":branch [NAME]", "show the branches, or work on one of them"),
    (":at [REVISION]", "read an older state: a commit, a tag, main~3; without one the newest"),
    (":explain [on|off]", "show plans instead of running queries"),
    (":timer [on|off]", "tell how long each statement takes"),
    (":format [NAME]", f"print rows as {', '.join(get_args(Format))}"),
    (":schema [TYPE]", "show the schema, or the declaration of one type"),
    (":param [NAME=VALUE]", "give a parameter of queries a value; without one show all"),
    (":help", "show this"),
    (":quit", "leave; so does the end of the input"),
)


class Session:
    """The state of a shell on one graph; every statement runs with it.

    Attributes:
        branch: The branch that statements are about.
        at: The older state that queries read; None for the newest.
        has_failed: Something has failed so far.
        is_over: The user has left.
    """

    def __init__(self, graph: og.Graph, branch: str, clock: Clock) -> None:
        """Work on a branch of a graph."""
        self._graph = graph
        self._clock = clock
        self._format: Format = "table"
        self._params: dict[str, Any] = {}
        self._is_timed = False
        self._explains = False
        self._compiled: tuple[str, Catalog] | None = None
        self.branch = branch
        self.at: str | None = None
        self.has_failed = False
        self.is_over = False
        self._commands: Mapping[str, Callable[[str], None]] = {
            ":branch": self._use_branch,
            ":at": self._read_at,
            ":explain": self._explain,
            ":timer": self._time,
            ":format": self._form,
            ":schema": self._schema,
            ":param": self._param,
            ":help": self._help,
            ":quit": self._quit,
        }

    @property
    def place(self) -> str:
        """The branch, and the older state that is read, for the prompt."""
        return self.branch if self.at is None else f"{self.branch} at {self.at}"

    def run(self, text: str) -> None:
        """Run a statement or a command; a failure is printed, and the session goes on."""
        if not text.strip().strip(";"):
            return
        begin = self._clock.ticks_ns()
        try:
            if is_command(text):
                self._command(text.strip().removesuffix(";"))
            else:
                self._statement(as_query(text))
        except GraphError as error:
            self.has_failed = True
            show(error)
        except KeyboardInterrupt:
            self.has_failed = True
            render.err().line("interrupted")
        if self._is_timed and not is_command(text):
            took = (self._clock.ticks_ns() - begin) / 1_000_000
            render.err().line((f"{took:.1f} ms", "dim"))

    def names(self) -> ShellNames:
        """The names that completion offers; those of the last schema if it cannot be read now."""
        try:
            branches: Sequence[str] = self._graph.branches.list()
            catalog = self._catalog()
        except GraphError:
            branches, catalog = (), Catalog()
        values = {
            ":branch": branches,
            ":explain": _ON_OFF,
            ":timer": _ON_OFF,
            ":format": get_args(Format),
            ":schema": [each.name for each in (*catalog.nodes, *catalog.edges)],
        }
        return names_of(catalog, {name: values.get(name, ()) for name in self._commands})

    # -- statements --------------------------------------------------------------------------------

    def _statement(self, text: str) -> None:
        plans = compile_queries(text, self._catalog(), _SOURCE)
        for plan in plans:
            if self._explains:
                render.out().line(explain(plan).rstrip("\n"))
            elif isinstance(plan, ReadPlan):
                self._read(text, plan)
            else:
                self._change(text, plan)

    def _given(self, plan: ReadPlan | MutationPlan) -> dict[str, object]:
        """The values of the parameters that a query declares; others are for other queries."""
        declared = {each.name for each in plan.params}
        return {name: value for name, value in self._params.items() if name in declared}

    def _read(self, text: str, plan: ReadPlan) -> None:
        given = self._given(plan)
        rows = self._graph.query(text, given, name=plan.name, branch=self.branch, at=self.at)
        with render.paged(as_json=self._format != "table") as screen:
            if self._format == "json":
                screen.json([plain_row(row) for row in rows])
            else:
                show_rows(screen, rows.columns, rows, self._format)

    def _change(self, text: str, plan: MutationPlan) -> None:
        if self.at is not None:
            message = f"an older state is read, {self.at}; `:at` alone goes back to the newest"
            raise InvalidInput(Code.INPUT_INVALID, message)
        done = self._graph.mutate(text, self._given(plan), name=plan.name, branch=self.branch)
        for item in done.warnings:
            render.err().line(("warning", "bold yellow"), f": {item.message}")
        counts = f"{counted(done.affected_nodes, 'node')}, {counted(done.affected_edges, 'edge')}"
        made = "nothing changes" if done.commit is None else f"{counts}, commit {done.commit.id}"
        render.out().line(made)

    def _catalog(self) -> Catalog:
        text = self._graph.schema.show(self.branch, at=self.at)
        if self._compiled is None or self._compiled[0] != text:
            self._compiled = text, compile_schema(text, "the schema", accepted=True)
        return self._compiled[1]

    # -- commands ----------------------------------------------------------------------------------

    def _command(self, text: str) -> None:
        name, _, value = text.partition(" ")
        found = self._commands.get(":quit" if name in (":q", ":exit") else name)
        if found is None:
            near = did_you_mean(name, list(self._commands)) or "`:help` lists what there is"
            raise InvalidInput(Code.INPUT_INVALID, f"there is no command {name}; {near}")
        found(value.strip())

    def _use_branch(self, name: str) -> None:
        if not name:
            for each in self._graph.branches.list():
                render.out().line(f"{'*' if each == self.branch else ' '} {each}")
            return
        self._graph.snapshot(name)
        self.branch, self.at = name, None

    def _read_at(self, revision: str) -> None:
        if not revision:
            self.at = None
            return
        found = self._graph.snapshot(self.branch, at=revision)
        self.at = revision
        render.out().line(f"reading commit {found.commit}")

    def _explain(self, value: str) -> None:
        self._explains = self._switched(":explain", value, self._explains)

    def _time(self, value: str) -> None:
        self._is_timed = self._switched(":timer", value, self._is_timed)

    def _switched(self, name: str, value: str, now: bool) -> bool:
        if value not in ("", *_ON_OFF):
            raise InvalidInput(Code.INPUT_INVALID, f"{name} is on or off, not {value!r}")
        is_on = value == "on" if value else not now
        render.out().line(f"{name} is {'on' if is_on else 'off'}")
        return is_on

    def _form(self, value: str) -> None:
        known: dict[str, Format] = {each: each for each in get_args(Format)}
        if value and value not in known:
            hint = did_you_mean(value, list(known)) or f"there are: {', '.join(known)}"
            raise InvalidInput(Code.INPUT_INVALID, f"there is no format {value!r}; {hint}")
        self._format = known.get(value, self._format)
        render.out().line(f":format is {self._format}")

    def _schema(self, name: str) -> None:
        text = self._graph.schema.show(self.branch, at=self.at)
        if not name:
            render.out().line(text.rstrip("\n"))
            return
        known = [each.name for each in (*self._catalog().nodes, *self._catalog().edges)]
        if name not in known:
            hint = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            raise InvalidInput(Code.INPUT_INVALID, f"there is no type {name!r}; {hint}")
        for line in _declaration(text, name):
            render.out().line(line)

    def _param(self, value: str) -> None:
        if value:
            name, is_there, _ = value.partition("=")
            if not is_there or not name.strip():
                raise InvalidInput(Code.INPUT_INVALID, "a parameter is NAME=VALUE")
            self._params.update(parameters([value]))
        for name, given in self._params.items():
            render.out().line(f"{name} = {given!r}")

    def _help(self, _: str) -> None:
        for usage, meaning in HELP:
            render.out().line(f"  {usage:<22}{meaning}")
        render.out().line("Anything else is a query, or statements of one: match, insert, update…")

    def _quit(self, _: str) -> None:
        self.is_over = True


def _declaration(text: str, name: str) -> list[str]:
    """The lines of a schema that declare a type, up to the next declaration."""
    lines = text.splitlines()
    words = [line.replace(":", " ").replace("{", " ").split() for line in lines]
    begins = [at for at, found in enumerate(words) if found[:1] in (["node"], ["edge"])]
    for number, begin in enumerate(begins):
        if words[begin][1:2] == [name]:
            end = begins[number + 1] if number + 1 < len(begins) else len(lines)
            return "\n".join(lines[begin:end]).rstrip().splitlines()
    return []
