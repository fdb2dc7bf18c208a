"""The target of a command: the graph that it is about, and everything that is said about it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import omnigraph as og
from omnigraph.cli import environment, render
from omnigraph.cli.addresses import AddressUnusable, GraphAddress, GraphWords, resolve
from omnigraph.cli.addressing import given_words
from omnigraph.cli.completing import cache_folder, remember, remember_places
from omnigraph.cli.config import Config
from omnigraph.cli.credentials import token_for
from omnigraph.cli.parameters import Exit, UsageError
from omnigraph.cli.startup import spare_pandas, uncollected
from omnigraph.errors import GraphError, NotFound
from omnigraph.types import MAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The graph of a command, found and not opened yet.

    Attributes:
        address: Where it is.
        branch: The branch that the command is about; None for the default.
        actor: Who works, for the history.
        command: The name of the command, for messages.
        is_quiet: Nothing but results is printed.
        is_confirmed: Destructive work needs no question.
        as_json: Results are for programs, so nobody can be asked.
        config: The configuration.
    """

    address: GraphAddress
    branch: str | None = None
    actor: str | None = None
    command: str = ""
    is_quiet: bool = False
    is_confirmed: bool = False
    as_json: bool = False
    config: Config = field(repr=False)

    @property
    def on(self) -> str:
        """The branch that the command is about."""
        return self.branch or str(MAIN)

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self.address.uri

    @property
    def stored(self) -> str:
        """The address of a graph that is worked on where it is stored.

        Raises:
            UsageError: It is on a server.
        """
        if self.address.is_remote:
            raise UsageError(
                f"`{self.command}` works where a graph is stored, not through a server"
            )
        return self.uri

    def open(self, mode: str = "rw") -> og.Graph:
        """Open the graph: here, or on its server.

        Raises:
            GraphError: There is none, it cannot be reached, or the token does not open it.
        """
        if mode == "rw":
            self._echo()
        if self.address.is_remote:
            # It has the calls of a graph, and the errors.
            return cast("og.Graph", self._connect())
        with uncollected():
            spare_pandas()
            return og.open(self.uri, mode, actor=self.actor, settings=environment.settings())

    def _connect(self) -> og.RemoteGraph:
        if self.address.graph is None:
            raise UsageError(f"name the graph on {self.address.place} with --graph ID")
        return og.connect(self.address.place, self.address.graph, self.token)

    @property
    def token(self) -> str | None:
        """The token for the server of the graph, if there is one."""
        found = token_for(self.address, environment.home(), environment.variables())
        return None if found is None else found.text

    def schema(self) -> str:
        """The schema in force on the branch, as text."""
        with self.open("r") as graph:
            return graph.schema.show(self.on)

    def remember(self, *, are_all: bool = False, **names: Iterable[str]) -> None:
        """Keep names of the graph for completion in shells; see `completing.remember`."""
        folder = cache_folder(environment.variables())
        remember(folder, self.uri, names, are_all=are_all)

    def hinted(self, error: NotFound) -> NotFound:
        """The same error; about a branch, with a tag of the name, or a branch almost like it."""
        name = error.details.get("branch")
        if not isinstance(name, str) or name == MAIN:
            return error
        from omnigraph.lang.source import did_you_mean

        with suppress(GraphError), replace(self, is_quiet=True).open("r") as graph:
            if any(tag.name == name for tag in graph.tags.list()):
                text = f"{error}, but a tag of that name; --at {name} reads its state"
                return NotFound(error.code, text, **error.details)
            if near := did_you_mean(name, graph.branches.list()):
                return NotFound(error.code, f"{error}; {near}", **error.details)
        return error

    def confirm(self, work: str) -> None:
        """Ask before destructive work on a graph that others may share.

        Raises:
            UsageError: Nobody can be asked.
            Exit: The answer is no.
        """
        if self.is_confirmed or self.address.is_local:
            return
        if self.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(f"this would {work} at {self.address}; add --yes if it should")
        if not _agreed(f"{work} at {self.address}?"):
            raise Exit(1)

    def _echo(self) -> None:
        """Print where a change goes, on a terminal."""
        if not self.is_quiet and not self.as_json and sys.stderr.isatty():
            on = f" ({self.branch})" if self.branch else ""
            origin = "" if self.address.origin == "the command" else f", by {self.address.origin}"
            render.err().message((f"omnigraph {self.command} → {self.uri}{on}{origin}", "dim"))


def _remember_places(config: Config) -> None:
    """Keep what the configuration names for completion in shells."""
    if not (config.servers or config.profiles or config.defaults.is_named):
        return
    places: dict[str, Any] = {"servers": dict(config.servers), "profiles": {}}
    for name, place in (*config.profiles.items(), (None, config.defaults)):
        if place.server is not None and place.graph is not None:
            url = config.servers.get(place.server, place.server)
            uri = f"{url}/graphs/{place.graph}"
        else:
            uri = place.store or ""
        if name is None:
            places["default"] = uri
        else:
            places["profiles"][name] = uri
    remember_places(cache_folder(environment.variables()), places)


def _agreed(question: str) -> bool:
    """Ask on the terminal; anything but yes is no."""
    sys.stderr.write(f"{question} [y/N]: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def target_from(
    command: str,
    values: Mapping[str, Any],
    outer: Mapping[str, Any],
    *,
    as_json: bool,
    needs_graph: bool,
) -> Target:
    """The target that the words of a command name, and those that stand before the command.

    Args:
        command: The name of the command, with those of its groups.
        values: The values of the words about the target.
        outer: The values of the options before the command.
        as_json: Results are for programs.
        needs_graph: True if a server alone is not enough.
    """
    return target_of(
        given_words(values).over(given_words(outer)),
        branch=values.get("branch"),
        branches="branch" in values or command != "init",
        needs_graph=needs_graph,
        actor=values.get("actor") or outer.get("actor"),
        is_quiet=bool(values.get("quiet") or outer.get("quiet")),
        is_confirmed=bool(values.get("yes") or outer.get("yes")),
        as_json=as_json,
        command=command,
    )


def target_of(
    given: GraphWords,
    *,
    branch: str | None = None,
    branches: bool = True,
    needs_graph: bool = True,
    **said: object,
) -> Target:
    """The target that the words of a command name.

    Args:
        given: The words that name the graph.
        branch: The branch by its own option.
        branches: True if a branch may follow an `@`.
        needs_graph: True if a server alone is not enough.
        said: Other fields of the target.

    Raises:
        UsageError: The words contradict one another, or name no graph.
        InvalidInput: The configuration is wrong.
    """
    config = environment.config()
    for warning in config.warnings:
        render.err().line(("warning", "bold yellow"), f": {warning}")
    _remember_places(config)
    try:
        address = resolve(given, config, environment.profile(), branches=branches)
    except AddressUnusable as error:
        raise UsageError(str(error)) from error
    if needs_graph and address.is_remote and address.graph is None:
        raise UsageError(f"name the graph on {address.place} with --graph ID")
    if branch is not None and address.branch not in (None, branch):
        raise UsageError(
            f"the branch is {address.branch!r} in the address and {branch!r} by --branch"
        )
    actor = said.pop("actor", None)
    if actor is not None and address.is_remote:
        raise UsageError("a server knows who you are by your token; --as is for stores")
    actor = actor or config.actor
    return Target(
        address=address,
        branch=branch or address.branch,
        actor=actor,  # type: ignore[arg-type]
        config=config,
        **said,  # type: ignore[arg-type]
    )
