"""Text fixtures for the compilers: many small cases per file, expectations written by a command.

A file `cases/<kind>/<topic>.txt` holds cases of one kind:

    === name of the case
    the program
    --- expected
    what came out

A kind is a folder with a function: program text and the folder of its file go in, readable text
comes out. To add a kind, decorate its function with `@kind("query/accept")` in a module that
`kinds.py` imports. Regenerate with `python -m tests.corpus.regenerate` and review the diff.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

CASES = Path(__file__).parent / "cases"
_CASE = "=== "
_EXPECTED = "--- expected"

Render = Callable[[str, Path], str]

KINDS: dict[str, Render] = {}


def kind(name: str) -> Callable[[Render], Render]:
    """Register the function of a kind."""

    def register(render: Render) -> Render:
        assert name not in KINDS, f"{name} is registered twice"
        KINDS[name] = render
        return render

    return register


@dataclass(frozen=True, slots=True)
class Case:
    """One program and the output it is expected to give; None when it is new."""

    kind: str
    file: Path
    name: str
    text: str
    expected: str | None

    def __str__(self) -> str:
        return f"{self.kind}/{self.file.stem}: {self.name}"

    def run(self) -> str:
        """What the compiler makes of the program now."""
        return _tidy(KINDS[self.kind](self.text, self.file.parent))


@dataclass(frozen=True, slots=True)
class Fixture:
    """A file of cases; `preamble` is whatever stands above the first one."""

    path: Path
    preamble: str
    cases: tuple[Case, ...]

    def regenerated(self) -> Fixture:
        """The same file with the output of today."""
        cases = tuple(replace(case, expected=case.run()) for case in self.cases)
        return replace(self, cases=cases)

    def render(self) -> str:
        """The text of the file."""
        parts = [self.preamble + "\n"] if self.preamble else []
        for case in self.cases:
            expected = "" if case.expected is None else f"{_EXPECTED}\n{case.expected}"
            parts.append(f"{_CASE}{case.name}\n{case.text}{expected}")
        return "\n".join(parts)


def read(path: Path) -> Fixture:
    """Read one file of cases."""
    preamble, *chunks = ("\n" + path.read_text(encoding="utf-8")).split(f"\n{_CASE}")
    kind_name = path.parent.relative_to(CASES).as_posix()
    cases: list[Case] = []
    for chunk in chunks:
        name, _, body = chunk.partition("\n")
        text, found, expected = body.partition(f"{_EXPECTED}\n")
        output = _tidy(expected) if found else None
        cases.append(Case(kind_name, path, name.strip(), _tidy(text), output))
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), f"{path} has two cases of one name"
    return Fixture(path, preamble.strip("\n"), tuple(cases))


def fixtures() -> Iterator[Fixture]:
    """All files of all registered kinds."""
    for name in sorted(KINDS):
        for path in sorted((CASES / name).glob("*.txt")):
            yield read(path)


def cases(prefix: str = "") -> list[Case]:
    """All cases whose kind starts with the prefix, for parametrisation."""
    return [case for file in fixtures() for case in file.cases if case.kind.startswith(prefix)]


def _tidy(text: str) -> str:
    """No blank lines around, one line end at the end."""
    stripped = text.strip("\n")
    return stripped + "\n" if stripped else ""
