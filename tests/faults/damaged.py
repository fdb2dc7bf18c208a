"""Breaking one file of a graph, and judging what a visitor sees of it.

Every step of a visit must give the right answer or a typed error that names a place. A visitor that
dies, hangs, gets an error that is not ours, or a wrong answer fails the test.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests import tally
from tests.faults import damage
from tests.faults.damage import Outcome
from tests.faults.harness import children

SECONDS_MAX: Final = 240
# What a visitor may be told about damage; a branch without its record is not there.
TYPED: Final = ("Corrupt", "Gone", "RecoveryRequired", "NotFound")

_HISTORY: Final = "after: history of main"
_KINDS: Final = (
    ("cache", r"^cache/"),
    ("intent", r"^__recovery/"),
    ("audit", r"^_graph_commit_recoveries"),
    ("claim", r"^__claims/"),
    ("schema", r"^_schemas/"),
    ("schema copy", r"^_schema|^__schema"),
    ("version", r"_versions/.*\.manifest$"),
    ("hint", r"_versions/"),
    ("transaction", r"_transactions/"),
    ("deletion", r"_deletions/"),
    ("reference", r"_refs/"),
    ("index", r"_indices/"),
    ("data", r"data/"),
)


def kind_of(relative: str) -> str:
    """What a file is, by its path."""
    kind = next(name for name, pattern in _KINDS if re.search(pattern, relative))
    if not re.match(r"__manifest|nodes|edges", relative):
        return kind
    owner = "manifest" if relative.startswith("__manifest") else "table"
    return f"{kind} of {owner}" + (" fork" if "/tree/" in relative else "")


@dataclass(frozen=True, slots=True)
class Damage:
    """A way to break a file."""

    name: str
    content: bytes | None  # None: the file is gone


def damages(content: bytes, other: bytes, *, places: int, masks: Sequence[int]) -> Iterator[Damage]:
    """Ways to break a file; `other` is the content of another file of its kind."""
    yield Damage("gone", None)
    yield Damage("empty", b"")
    yield Damage("half", content[: len(content) // 2])
    yield Damage("without its last byte", content[:-1])
    yield Damage("zeros", bytes(len(content)))
    if other != content:
        yield Damage("another file", other)
    for number in range(places):
        place = (2 * number + 1) * len(content) // (2 * places)
        for mask in masks:
            flipped = bytearray(content)
            flipped[place] ^= mask
            yield Damage(f"byte {place} ^ {mask:#04x}", bytes(flipped))


class Patient:
    """A graph that is broken again and again, and whole in between."""

    def __init__(self, folder: Path, *, with_intent: bool = False) -> None:
        self.graph = folder / "graph"
        self.home = folder / "home"
        self._whole = folder / "whole"
        _run(damage.make, self.graph)
        bare = None
        shutil.copytree(self.graph, self._whole / "graph")
        if with_intent:
            # Without the intent its tables are taken back, which is a commit of its own.
            bare = {k: v for k, v in self._answers().items() if "history" not in k}
            self._whole_again()
            _run(damage.leave_intent, self.graph)
            shutil.rmtree(self._whole / "graph")
            shutil.copytree(self.graph, self._whole / "graph")
        whole = self._answers()
        shutil.copytree(self.home, self._whole / "home")
        self._whole_again()
        self.admissible = [whole] if bare is None else [whole, bare]

    def _answers(self) -> dict[str, Any]:
        outcomes = self.visit()
        assert not isinstance(outcomes, str), outcomes
        failed = [each for each in outcomes if each.error is not None]
        assert not failed, failed
        return {each.step: each.answer for each in outcomes}

    def _whole_again(self) -> None:
        for name, place in (("graph", self.graph), ("home", self.home)):
            shutil.rmtree(place, ignore_errors=True)
            if (self._whole / name).exists():
                shutil.copytree(self._whole / name, place)

    def files(self) -> Mapping[str, list[Path]]:
        """The files by kind."""
        found: dict[str, list[Path]] = {}
        for root in (self.graph, self.home):
            for path in sorted(root.rglob("*")):
                if path.is_file():
                    found.setdefault(kind_of(path.relative_to(root).as_posix()), []).append(path)
        return found

    def content(self, path: Path) -> bytes:
        """The content of a file while the graph is whole: visitors may replace or remove it."""
        for name, place in (("graph", self.graph), ("home", self.home)):
            if place in path.parents:
                return (self._whole / name / path.relative_to(place)).read_bytes()
        raise AssertionError(f"{path} is not of this graph")

    def visit(self) -> list[Outcome] | str:
        """What a visitor sees, or how it perished."""
        mine, theirs = children.Pipe(duplex=False)
        child = children.Process(target=damage.visit_in_child, args=(self.graph, self.home, theirs))
        child.start()
        theirs.close()
        try:
            if not mine.poll(SECONDS_MAX):
                return "hangs"
            found: list[Outcome] = mine.recv()
            return found
        except EOFError:
            child.join()
            return f"ends with {child.exitcode}"
        finally:
            if child.is_alive():
                child.join(5)
                child.kill()
            child.join()

    def suffer(self, path: Path, harm: Damage) -> str | None:
        """Break a file, visit, and make it whole; what is wrong with what was seen."""
        admissible = self.admissible
        if path.parent.parent.name == "_indices":
            # Nobody is told anything wrong, and the visitor's `ensure_indices` builds it anew.
            admissible = [{**each, _HISTORY: each[_HISTORY] + 1} for each in admissible]
        self._whole_again()
        tally.count("files damaged")
        if harm.content is None:
            path.unlink()
        else:
            path.write_bytes(harm.content)
        return complaint(self.visit(), admissible)


def complaint(outcomes: list[Outcome] | str, admissible: Sequence[Mapping[str, Any]]) -> str | None:
    """Say what must not be; None if all is as it should."""
    if isinstance(outcomes, str):
        return f"the process {outcomes}"
    for each in outcomes:
        if each.error is not None and (each.code is None or each.error not in TYPED):
            return f"{each.step}: {each.error}: {each.message}"
        if each.error is not None and each.path is None:
            return f"{each.step}: no path: {each.error}: {each.message}"
    # After a write that failed it is open which of the writes are there.
    judged = [each for each in outcomes if each.error is None]
    if any(each.error is not None for each in outcomes):
        judged = [each for each in judged if not each.step.startswith("after")]
    wrongs = [
        [each for each in judged if answers.get(each.step, each.answer) != each.answer]
        for answers in admissible
    ]
    if not all(wrongs):
        return None
    return "; or ".join(
        f"{wrong[0].step}: {wrong[0].answer} is not {answers.get(wrong[0].step)}"
        for wrong, answers in zip(wrongs, admissible, strict=True)
    )


def _run(target: Any, *arguments: Any) -> None:
    child = children.Process(target=target, args=arguments)
    child.start()
    child.join()
