"""How we use Lance: the release that the facts are of, and what we never do with it."""

import subprocess
import sys
from pathlib import Path

import lance

ROOT = Path(__file__).parents[2]


# ---------------------------------------------------------------- the versions measured


def test_the_facts_are_of_this_release() -> None:
    """A new release: read its notes, rerun `test_lance_*`, then move this line."""
    assert lance.__version__ == "14.0.2"


# ---------------------------------------------------------------- what we never use


def test_the_dangerous_parts_are_used_nowhere() -> None:
    """Each of them loses data or bricks a table; see the comments in the store."""
    banned = (
        "Data" + "Overlay",
        "delete_" + "unverified",
        "commit_" + "lock=",
        "commit_" + "batch",
    )
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for word in banned
        if word in path.read_text(encoding="utf-8")
    ]
    assert found == []


def test_every_commit_of_ours_goes_without_retries() -> None:
    text = (ROOT / "src" / "omnigraph" / "store" / "versions" / "gateway.py").read_text(
        encoding="utf-8"
    )
    # A draft has no place in the history that others could take.
    drafts = text.count("detached=True")
    assert text.count("LanceDataset.commit") == text.count("max_retries=0,") + drafts
    others = [
        path.name
        for path in (ROOT / "src" / "omnigraph").rglob("*.py")
        if path.name != "gateway.py" and "LanceDataset.commit" in path.read_text(encoding="utf-8")
    ]
    assert others == []


def test_nothing_commits_by_its_own_name() -> None:
    """Lance's shortcuts commit at once, under a name that is there before its content is synced."""
    shortcuts = (".merge_insert(", ".update_schema_metadata(values", ".compact_files(")
    for path in (ROOT / "src" / "omnigraph").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert [name for name in shortcuts if name in text] == [], path


def test_importing_lance_needs_no_data_frames() -> None:
    """Nor a REST client: both cost more than the rest of a command.

    Arrow takes pandas along where it is installed, so here it is out of reach.
    """
    script = """
import sys
finders = list(sys.meta_path)
class WithoutPandas:
    def find_spec(self, name, *rest):
        found = () if name == "pandas" else (each.find_spec(name, *rest) for each in finders)
        return next((spec for spec in found if spec is not None), None)
sys.meta_path[:] = [WithoutPandas()]
import omnigraph.store.tables
print(*sorted({"pandas", "pydantic", "lance_namespace"} & set(sys.modules)))
"""
    answer = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == []
