"""The user's own settings of the command line: `config.yaml` in the folder `~/.omnigraph`.

    operator: {actor: ada}
    servers:
      prod: {url: https://graphs.example.com}
    profiles:
      work: {server: prod, default_graph: people}
      notes: {store: ~/notes.omni}
    defaults: {store: people.omni, output: table}

A store or a server is where graphs are; a profile names one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omnigraph.cli.nearest import nearest
from omnigraph.errors import Code, InvalidInput

FILE: Final = "config.yaml"
OUTPUTS: Final = ("table", "kv", "csv", "jsonl", "json")
_KEYS: Final = {
    "": {"operator", "servers", "profiles", "defaults"},
    "operator": {"actor"},
    "servers": {"url"},
    "profiles": {"store", "server", "default_graph"},
    "defaults": {"store", "server", "default_graph", "output"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place that the configuration names: a store, or a server with a graph on it.

    Attributes:
        store: A folder or an `s3://` address.
        server: The name of a server, or its URL.
        graph: The graph on that server.
        origin: The part of the configuration that says so, for messages.
    """

    store: str | None = None
    server: str | None = None
    graph: str | None = None
    origin: str = ""

    @property
    def is_named(self) -> bool:
        """True if it says where graphs are."""
        return self.store is not None or self.server is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings that a file of the user makes; without a file nothing is set.

    Attributes:
        path: The file, whether it is there or not.
        actor: Who works here, for the history.
        servers: The URLs of servers by name.
        profiles: Places by name.
        defaults: The place of commands that name none.
        output: The format of rows when a command names none.
        warnings: Remarks on keys that mean nothing.
    """

    path: Path
    actor: str | None = None
    servers: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, Place] = field(default_factory=dict)
    defaults: Place = Place()
    output: str | None = None
    warnings: tuple[str, ...] = ()


def read_config(folder: Path) -> Config:
    """The configuration in a folder.

    Raises:
        InvalidInput: The file is no YAML, or a value is not what its key asks for.
    """
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Config(path=path)
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, f"cannot be read: {error}") from error
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> Config:
    """The configuration that a text makes; see `read_config`."""
    # Most commands of most people read no such file, and the parser takes its time to import.
    import yaml  # noqa: PLC0415

    try:
        whole = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _wrong(path, f"is not YAML: {error}") from error
    checked = _ConfigReader(path)
    top = checked.section(whole, "")
    operator = checked.section(top.get("operator"), "operator")
    defaults = checked.section(top.get("defaults"), "defaults")
    output = checked.text(defaults, "defaults", "output")
    if output is not None and output not in OUTPUTS:
        raise _wrong(path, f"defaults.output is one of {', '.join(OUTPUTS)}, not {output!r}")
    servers = {
        name: checked.needed(section, f"servers.{name}", "url").rstrip("/")
        for name, section in checked.named(top.get("servers"), "servers").items()
    }
    profiles = {
        name: checked.place(section, f"profiles.{name}", is_needed=True)
        for name, section in checked.named(top.get("profiles"), "profiles").items()
    }
    return Config(
        path=path,
        actor=checked.text(operator, "operator", "actor"),
        servers=servers,
        profiles=profiles,
        defaults=checked.place(defaults, "defaults", is_needed=False),
        output=output,
        warnings=tuple(checked.warnings),
    )


class _ConfigReader:
    """Takes a document apart, and says which key is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.warnings: list[str] = []

    def section(self, value: Any, name: str, kind: str | None = None) -> Mapping[str, Any]:
        """The mapping at a key; an absent one is empty."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise _wrong(self._path, f"{name or 'the document'} holds names and values")
        known = _KEYS[name if kind is None else kind]
        for key in value:
            if key not in known:
                near = nearest(str(key), known)
                hint = f"; did you mean {near}?" if near else ""
                where = f"{name}.{key}" if name else str(key)
                self.warnings.append(f"{self._path}: {where} means nothing{hint}")
        return value

    def named(self, value: Any, kind: str) -> dict[str, Mapping[str, Any]]:
        """The mappings below a key, by name."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise _wrong(self._path, f"{kind} holds names and values")
        return {
            str(name): self.section(item, f"{kind}.{name}", kind) for name, item in value.items()
        }

    def text(self, section: Mapping[str, Any], name: str, key: str) -> str | None:
        """The text at a key, if there is one."""
        value = section.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise _wrong(self._path, f"{name}.{key} is a text, not {value!r}")
        return value

    def needed(self, section: Mapping[str, Any], name: str, key: str) -> str:
        """The text at a key."""
        value = self.text(section, name, key)
        if value is None:
            raise _wrong(self._path, f"{name}.{key} is missing")
        return value

    def place(self, section: Mapping[str, Any], name: str, *, is_needed: bool) -> Place:
        """A place: a store or a server, and not both."""
        store, server, graph = (
            self.text(section, name, key) for key in ("store", "server", "default_graph")
        )
        if store is not None and server is not None:
            raise _wrong(self._path, f"{name} has a store and a server; it takes one of them")
        if is_needed and store is None and server is None:
            raise _wrong(self._path, f"{name} names neither a store nor a server")
        return Place(store=store, server=server, graph=graph, origin=f"{name} of {self._path}")


def _wrong(path: Path, fault: str) -> InvalidInput:
    return InvalidInput(Code.SETTINGS_INVALID, f"{path}: {fault}", path=str(path))
