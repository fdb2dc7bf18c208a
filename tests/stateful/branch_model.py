"""A graph in memory, simple enough to be obviously right: what the engine is compared with.

A `World` is one thing that may be true: for every branch its tables, and what each commit held. As
long as every outcome is known there is one world. After an unknown outcome there are two, with and
without the write; looking at the real graph leaves those that agree with what is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

__all__ = ["Change", "Models", "World"]

# Table key to entity id to value; and branch to that. Frozen by convention: never changed in place.
Tables = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a write does to tables: values to set, ids to remove."""

    sets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    removes: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def apply(self, tables: Tables) -> Tables:
        """The tables afterwards."""
        after = {key: dict(rows) for key, rows in tables.items()}
        for key, rows in self.sets.items():
            after.setdefault(key, {}).update(rows)
        for key, gone in self.removes.items():
            after[key] = {name: v for name, v in after.get(key, {}).items() if name not in gone}
        return after


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One thing that may be true."""

    branches: Mapping[str, Tables]
    parents: Mapping[str, str | None]
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)  # used on a branch

    def write(self, branch: str, change: Change, key: str | None = None) -> World:
        """The world after a write; a key that was used makes it a replay, which changes nothing."""
        used = self.keys.get(branch, frozenset())
        if key is not None and key in used:
            return self
        tables = change.apply(self.branches[branch])
        keys = used if key is None else used | {key}
        return replace(
            self,
            branches={**self.branches, branch: tables},
            keys={**self.keys, branch: keys},
        )

    def create(self, name: str, source: str) -> World:
        """The world after a branch was made."""
        return self.create_at(name, source, self.branches[source], self.keys.get(source))

    def create_at(
        self, name: str, source: str, tables: Tables, keys: frozenset[str] | None
    ) -> World:
        """The world after a branch was made from what a commit held."""
        return replace(
            self,
            branches={**self.branches, name: tables},
            parents={**self.parents, name: source},
            keys={**self.keys, name: keys or frozenset()},
        )

    def delete(self, name: str) -> World:
        """The world after a branch was deleted."""
        return World(
            branches={k: v for k, v in self.branches.items() if k != name},
            parents={k: v for k, v in self.parents.items() if k != name},
            keys={k: v for k, v in self.keys.items() if k != name},
        )

    def children(self, name: str) -> tuple[str, ...]:
        """The branches that were made from one."""
        return tuple(sorted(child for child, parent in self.parents.items() if parent == name))


class Models:
    """The worlds that are possible."""

    def __init__(self, first: World) -> None:
        """Begin with one."""
        self.worlds: list[World] = [first]

    @property
    def certain(self) -> bool:
        """Whether only one is left."""
        return len(self.worlds) == 1

    def step(self, after: Callable[[World], World]) -> None:
        """Something happened, for sure."""
        self.worlds = _distinct(after(world) for world in self.worlds)

    def maybe(self, after: Callable[[World], World]) -> None:
        """Something happened, or not."""
        self.worlds = _distinct([*self.worlds, *(after(world) for world in self.worlds)])

    def observe(self, branch: str, tables: Tables) -> None:
        """The real graph was looked at; worlds that disagree were never true.

        Raises:
            AssertionError: When none is left.
        """
        agreeing = [world for world in self.worlds if _same(world.branches.get(branch), tables)]
        if not agreeing:
            expected = [world.branches.get(branch) for world in self.worlds]
            raise AssertionError(f"branch {branch} holds {tables}, expected one of {expected}")
        self.worlds = agreeing

    def doubtful_keys(self, branch: str) -> frozenset[str]:
        """The idempotency keys that are used in some worlds and not in others."""
        used = [world.keys.get(branch, frozenset()) for world in self.worlds]
        return frozenset().union(*used) - frozenset(used[0]).intersection(*used)

    def observe_key(self, branch: str, key: str, *, used: bool) -> None:
        """The real graph was asked about a key. A write may change nothing else that shows."""
        agreeing = [w for w in self.worlds if (key in w.keys.get(branch, frozenset())) == used]
        if not agreeing:
            raise AssertionError(f"key {key} of branch {branch}: used is {used}, in no world")
        self.worlds = agreeing


def _same(left: Tables | None, right: Tables) -> bool:
    if left is None:
        return False
    keys = {*left, *right}
    return all(dict(left.get(key, {})) == dict(right.get(key, {})) for key in keys)


def _distinct(worlds: Iterable[World]) -> list[World]:
    found: list[World] = []
    for world in worlds:
        if world not in found:
            found.append(world)
    return found
