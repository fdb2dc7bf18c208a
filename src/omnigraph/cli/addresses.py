"""Addresses of graphs: one model for every command, and for arguments, options and defaults alike.

An address is a folder, `s3://bucket/prefix`, or `https://host/graphs/ID`, perhaps with `@branch`.
It comes from the first of these that is given:

1. the argument GRAPH, or `--store`, or `--server` with `--graph`
2. `--profile`, or the variable OMNIGRAPH_PROFILE
3. `defaults` of the configuration
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from omnigraph.cli.config import Config, Place
from omnigraph.cli.nearest import nearest
from omnigraph.errors import Code, InvalidInput

_SUFFIX: Final = ".omni"
_GRAPHS: Final = "/graphs/"
# What a folder has that holds a graph.
_MANIFEST: Final = "__manifest"


class AddressUnusable(Exception):
    """The words of the command line name no graph, or two; the message says what to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphWords:
    """The words that name a graph, as they stand in a command."""

    argument: str | None = None
    store: str | None = None
    server: str | None = None
    graph: str | None = None
    profile: str | None = None

    @property
    def has_option(self) -> bool:
        """True if an option names the graph, so that no argument does."""
        return any((self.store, self.server, self.graph, self.profile))

    def over(self, outer: GraphWords) -> GraphWords:
        """The same, completed by the options that stand before the command."""
        if self.argument is not None or self.store or self.server:
            return replace(self, graph=self.graph or (outer.graph if self.server else None))
        return GraphWords(
            store=outer.store,
            server=outer.server,
            graph=self.graph or outer.graph,
            profile=self.profile or outer.profile,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphAddress:
    """The place of a graph.

    Attributes:
        place: A folder, an `s3://` address, or the URL of a server.
        graph: The graph on the server; None elsewhere.
        branch: The branch behind the `@`, if there is one.
        server: The name of the server in the configuration, if it has one.
        origin: What named it, for messages.
    """

    place: str
    graph: str | None = None
    branch: str | None = None
    server: str | None = None
    origin: str = "the command"

    @property
    def is_remote(self) -> bool:
        """True if it is on a server."""
        return is_url(self.place)

    @property
    def is_local(self) -> bool:
        """True if it is on this machine."""
        return "://" not in self.place or self.place.startswith("file://")

    @property
    def uri(self) -> str:
        """The address without its branch."""
        return self.place if self.graph is None else f"{self.place}{_GRAPHS}{self.graph}"

    def __str__(self) -> str:
        return self.uri if self.branch is None else f"{self.uri}@{self.branch}"


def is_url(text: str) -> bool:
    """True for the address of a server."""
    return text.startswith(("https://", "http://"))


def looks_like_a_graph(text: str) -> bool:
    """True if an argument can only be meant as a graph: by its form, or because one is there."""
    if "://" in text or text.startswith(("/", "./", "../", "~")):
        return True
    place, _ = split_branch(text)
    return place.rstrip("/").endswith(_SUFFIX) or os.path.isdir(os.path.join(place, _MANIFEST))


def is_graph_argument(
    words: Sequence[str], least: int, most: int, *, has_option: bool, has_default: bool
) -> bool:
    """Decide whether the first argument of a command is its graph.

    Args:
        words: The arguments.
        least: How many arguments the command needs besides.
        most: How many it can take besides.
        has_option: An option names the graph.
        has_default: A profile or the configuration does.
    """
    if len(words) > most:
        return True
    if has_option or not words:
        return False
    return looks_like_a_graph(words[0]) or (not has_default and len(words) > least)


def split_branch(text: str) -> tuple[str, str | None]:
    """An address apart from the branch behind its last `@`."""
    begin = text.find("/", text.find("://") + 3) if "://" in text else 0
    at = text.rfind("@", begin) if begin >= 0 else -1
    # A folder may have the sign in its name.
    if at <= 0 or ("://" not in text and os.path.isdir(text)):
        return text, None
    if at == len(text) - 1:
        raise AddressUnusable(f"{text!r} ends with @; name the branch behind it, or leave it out")
    return text[:at], text[at + 1 :]


def resolve(
    given: GraphWords, config: Config, profile: str | None, *, branches: bool = True
) -> GraphAddress:
    """The graph that a command is about.

    Args:
        given: What its words say.
        config: The configuration.
        profile: The profile that the environment names.
        branches: Does `@` stand before a branch? Not where a graph is made.

    Raises:
        AddressUnusable: Nothing names a graph, or two things do.
        InvalidInput: There is no such profile or server.
    """
    named = [
        name
        for name, value in (
            ("an argument", given.argument),
            ("--store", given.store),
            ("--server", given.server),
        )
        if value
    ]
    if len(named) > 1:
        raise AddressUnusable(f"the graph is named by {' and by '.join(named)}; give one of them")
    if text := given.argument or given.store:
        found = _parsed(text, "the command", branches, config)
        if given.graph and found.is_remote and found.graph is None:
            return _on_server(found.place, given.graph, config, "the command")
        if given.graph:
            raise AddressUnusable("--graph names a graph on a server; it goes with --server")
        return found
    if given.server:
        return _on_server(given.server, given.graph, config, "the command")
    place = _chosen(given.profile or profile, config)
    if place.store is not None and not given.graph:
        return _parsed(place.store, place.origin, branches, config)
    if place.server is not None:
        return _on_server(place.server, given.graph or place.graph, config, place.origin)
    if given.graph:
        raise AddressUnusable("--graph names a graph on a server; name the server with --server")
    raise AddressUnusable(
        "no graph is named: give one as an argument, such as people.omni, or by --store, by "
        f"--server and --graph, by --profile, or as defaults.store in {config.path}"
    )


def server_of(name: str, config: Config) -> tuple[str, str | None]:
    """The URL of a server and its name in the configuration, given one of the two.

    Raises:
        InvalidInput: There is no such server.
    """
    if is_url(name):
        url = name.rstrip("/")
        known = next((each for each, place in config.servers.items() if place == url), None)
        return url, known
    if name not in config.servers:
        raise _unknown("server", name, [*config.servers], config)
    return config.servers[name], name


def _parsed(text: str, origin: str, branches: bool, config: Config) -> GraphAddress:
    place, branch = split_branch(text) if branches else (text, None)
    if not is_url(place):
        if place.startswith("~"):
            place = os.path.expanduser(place)
        return GraphAddress(place=place, branch=branch, origin=origin)
    base, separator, graph = place.rstrip("/").partition(_GRAPHS)
    url, name = server_of(base, config)
    return GraphAddress(
        place=url,
        graph=graph if separator else None,
        branch=branch,
        server=name,
        origin=origin,
    )


def _on_server(server: str, graph: str | None, config: Config, origin: str) -> GraphAddress:
    url, name = server_of(server, config)
    known, branch = (None, None) if graph is None else split_branch(graph)
    return GraphAddress(place=url, graph=known, branch=branch, server=name, origin=origin)


def _chosen(profile: str | None, config: Config) -> Place:
    if profile is None:
        return config.defaults
    if profile not in config.profiles:
        raise _unknown("profile", profile, [*config.profiles], config)
    return config.profiles[profile]


def _unknown(kind: str, name: str, known: Sequence[str], config: Config) -> InvalidInput:
    near = nearest(name, known)
    told = f"there are: {', '.join(known)}" if known else f"{config.path} has none"
    hint = f"did you mean {near}?" if near else told
    text = f"there is no {kind} {name!r}; {hint}"
    return InvalidInput(Code.SETTINGS_INVALID, text, name=name, path=str(config.path))
