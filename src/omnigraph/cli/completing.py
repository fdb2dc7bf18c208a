"""Completion of a command line in a shell, from files of the cache and never from a graph.

Three kinds of files in the folder of caches are read: the commands with their options, which
`omnigraph completion` writes, the names of each graph that commands have met, and the places that
the configuration named then. It imports nothing but the standard library, since every key press
starts a process.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ASKED: Final = "__complete"
FILES: Final = ":files"
_HOME: Final = "OMNIGRAPH_HOME"
_RECENT_GRAPHS_MAX: Final = 20
_KINDS: Final = ("branch", "tag", "type")
# A branch or a tag.
_REVISION: Final = "revision"
_PLACES: Final = "places.json"


def answer(arguments: Sequence[str]) -> int:
    """Print the words that fit, one a line; `:files` asks the shell for files.

    Args:
        arguments: The shell, the line up to the cursor, and the characters at which the shell
            breaks words: bash completes only what stands behind the last one.
    """
    _, line, breaks = (*arguments, "", "", "")[:3]
    folder = cache_folder(os.environ)
    commands = _read(folder / "commands.json")
    found = completions(words_of(line)[1:], commands, folder)
    last = words_of(line)[-1]
    # An @ is a word with what follows.
    ends = (last.rfind(mark) + (mark != "@") for mark in "@:=" if mark in breaks and mark in last)
    cut = max(ends, default=0)
    for word in found:
        sys.stdout.write((word if word == FILES else word[cut:]) + "\n")
    return 0


def words_of(line: str) -> list[str]:
    """The words of a line, whose last one may be empty or open."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return [*words, ""] if not line or line[-1].isspace() else words


def completions(words: Sequence[str], commands: Mapping[str, Any], folder: Path) -> list[str]:
    """The words that fit in the place of the last one.

    Args:
        words: The words behind the program.
        commands: The tree of commands, see `completion_table`.
        folder: The folder of caches.
    """
    place, given, waiting = commands, [], None
    naming: dict[str, str] = {}
    for word in words[:-1]:
        if waiting is not None:
            naming[waiting.get("kind", "")] = word
            waiting = None
        elif word.startswith("-"):
            name, has_value, value = word.partition("=")
            option = place.get("options", {}).get(name)
            if not has_value:
                waiting = option if option and option["value"] else None
            elif option:
                naming[option.get("kind", "")] = value
        elif word in place.get("commands", {}):
            place = place["commands"][word]
        else:
            given.append(word)
    last = words[-1]
    places = _read(folder / _PLACES)
    graph = _graph(naming, places)
    default = places.get("default")
    if waiting is not None:
        return _named(waiting, last, graph or _first(given) or default, folder)
    if last.startswith("-"):
        options = place.get("options", {})
        name, has_value, value = last.partition("=")
        if not has_value or name not in options:
            return _fitting(last, options)
        found = _named(options[name], value, graph or _first(given) or default, folder)
        return [each if each == FILES else f"{name}={each}" for each in found]
    if below := place.get("commands"):
        return _fitting(last, below)
    arguments = place.get("arguments", [])
    # Where an option names the graph, it is none of the arguments.
    left = [each for each in arguments if not (graph and each.get("kind") == "graph")]
    if len(given) >= len(left):
        return [FILES]
    return _named(left[len(given)], last, graph or _first(given) or default, folder)


def _graph(naming: Mapping[str, str], places: Mapping[str, Any]) -> str | None:
    """The address of the graph that options name."""
    if "graph" in naming:
        return naming["graph"]
    if "server" in naming:
        url = places.get("servers", {}).get(naming["server"], naming["server"])
        return f"{url}/graphs/{naming.get('graph_id', '')}"
    found: str | None = places.get("profiles", {}).get(naming.get("profile"))
    return found


def remember_places(folder: Path, places: Mapping[str, Any]) -> None:
    """Keep the places that the configuration names.

    Args:
        folder: The folder of caches.
        places: `servers` and `profiles`, each with addresses by name, and the `default` graph.
    """
    if _read(folder / _PLACES) != places:
        _write(folder / _PLACES, places)


def remember(
    folder: Path, graph: str, names: Mapping[str, Iterable[str]], *, are_all: bool
) -> None:
    """Keep names of a graph for completion.

    Args:
        folder: The folder of caches.
        graph: The address of the graph.
        names: The names by kind: `branch`, `tag` and `type`.
        are_all: There are no others of these kinds.
    """
    path = _path(folder, graph)
    known = _read(path)
    kept = {kind: known.get(kind, []) for kind in _KINDS}
    for kind, found in names.items():
        kept[kind] = sorted({*found, *(() if are_all else kept[kind])})
    if known != {"graph": graph, **kept}:
        _write(path, {"graph": graph, **kept})
    recent = _read(folder / "recent.json").get("graphs", [])
    if recent[:1] != [graph]:
        others = [each for each in recent if each != graph]
        _write(folder / "recent.json", {"graphs": [graph, *others][:_RECENT_GRAPHS_MAX]})


def cache_folder(variables: Mapping[str, str]) -> Path:
    """The folder of what completion reads."""
    home = variables.get(_HOME)
    return (Path(home) if home else Path.home() / ".omnigraph") / "cache" / "names"


def write_table(folder: Path, table: Mapping[str, Any]) -> None:
    """Keep the tree of commands."""
    _write(folder / "commands.json", table)


def _named(what: Mapping[str, Any], word: str, graph: str | None, folder: Path) -> list[str]:
    """The names of a kind that begin with a word."""
    if choices := what.get("choices"):
        return _fitting(word, choices)
    kind = what.get("kind")
    if kind == "graph":
        address, has_branch, _ = word.rpartition("@")
        if has_branch:
            branches = _read(_path(folder, address)).get("branch", [])
            return _fitting(word, [f"{address}@{name}" for name in branches])
        recent = _fitting(word, _read(folder / "recent.json").get("graphs", []))
        return [*recent, FILES]
    if kind in ("profile", "server"):
        return _fitting(word, _read(folder / _PLACES).get(f"{kind}s", {}))
    if kind in _KINDS or kind == _REVISION:
        known = {} if graph is None else _read(_path(folder, graph.partition("@")[0]))
        kinds = ("branch", "tag") if kind == _REVISION else (str(kind),)
        return _fitting(word, [name for each in kinds for name in known.get(each, [])])
    return [FILES] if kind == "file" else []


def _fitting(word: str, known: Iterable[str]) -> list[str]:
    return [name for name in known if name.startswith(word)]


def _first(given: Sequence[str]) -> str | None:
    return given[0] if given else None


def _path(folder: Path, graph: str) -> Path:
    # It loads a library of ciphers, and help names no graph.
    import hashlib

    place = graph if "://" in graph else os.path.abspath(graph)
    return folder / f"{hashlib.sha256(place.encode()).hexdigest()[:16]}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file in one step; a cache that cannot be written is left alone."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(value), encoding="utf-8")
        os.replace(fresh, path)
    except OSError:
        fresh.unlink(missing_ok=True)
