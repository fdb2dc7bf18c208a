"""What messages and pages tell people to run is there to be run."""

import re
from pathlib import Path

import omnigraph as og
from omnigraph.cli.lazy import LazyGroup
from omnigraph.cli.main import app

ROOT = Path(__file__).parents[2]
TEXTS = [
    *sorted((ROOT / "src").rglob("*.py")),
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMAND = re.compile(r"`(?:\$ )?omnigraph ((?:[a-z]+ ?)+)[^`]*`")
METHOD = re.compile(r"`graph\.([a-z_]+)")


def command_names() -> set[str]:
    found: set[str] = set()

    def walk(group: object, prefix: str) -> None:
        if not isinstance(group, LazyGroup):
            return
        for name in group.list_commands():
            found.add(f"{prefix}{name}")
            walk(group.get_command(name), f"{prefix}{name} ")

    walk(app, "")
    return found


def test_the_pattern_finds_commands_and_methods() -> None:
    assert COMMAND.findall("run `omnigraph recover`, or `omnigraph schema plan --json`") == [
        "recover",
        "schema plan ",
    ]
    assert METHOD.findall("`graph.embed()`") == ["embed"]
    assert {"recover", "schema plan"} <= command_names()


def unknown_names(text: str, known: set[str]) -> list[str]:
    commands = [
        f"omnigraph {named}"
        for named in COMMAND.findall(text)
        if not any(" ".join(named.split()[:size]) in known for size in (1, 2))
    ]
    methods = [f"graph.{named}" for named in METHOD.findall(text) if not is_there(named)]
    return commands + methods


def is_there(named: str) -> bool:
    """Whether a graph has such a method or part; pages also name modules of the facade this way."""
    parts = ("algorithms", "branches", "changes", "commits", "tags")
    place = ROOT / "src" / "omnigraph" / "graph" / named
    is_module = place.is_dir() or place.with_suffix(".py").exists()
    return hasattr(og.Graph, named) or named in parts or is_module


def test_a_command_that_is_missing_is_noticed() -> None:
    found = unknown_names("`omnigraph nonsense`, `graph.nonsense()`", command_names())
    assert found == ["omnigraph nonsense", "graph.nonsense"]


def test_every_command_and_method_that_is_named_exists() -> None:
    known = command_names()
    found = {
        str(path.relative_to(ROOT)): names
        for path in TEXTS
        if (names := unknown_names(path.read_text(encoding="utf-8"), known))
    }
    assert found == {}


def test_make_faults_runs_every_deep_test() -> None:
    _, _, rest = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nfaults:")
    recipe, _, _ = rest.partition("\n\n")
    run = [ROOT / place for place in re.findall(r"\btests/\S+", recipe)]
    deep = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path != Path(__file__) and "pytest.mark.deep" in path.read_text(encoding="utf-8")
    ]
    assert all(place.exists() for place in run)
    left_out = [path.name for path in deep if not {path, *path.parents} & set(run)]
    assert not left_out


def test_every_test_that_a_page_names_exists() -> None:
    known = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    pages = [path for path in TEXTS if path.suffix == ".md"]
    named = {
        name for page in pages for name in re.findall(r"\btest_\w+\.py", page.read_text("utf-8"))
    }
    assert "test_power_cuts.py" in named
    assert named - known == set()
