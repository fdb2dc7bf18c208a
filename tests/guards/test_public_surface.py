"""What ``import omnigraph`` offers, and what it costs."""

import ast
import importlib
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import omnigraph

ROOT = Path(__file__).parents[2]
SURFACE = {
    "AccessRequest",
    "AlgorithmResult",
    "Baseline",
    "BlameLine",
    "Branch",
    "BranchHandle",
    "CancelToken",
    "Change",
    "ChangeCounts",
    "ChangeEvent",
    "ChangePage",
    "CleanedTable",
    "CleanupResult",
    "Commit",
    "CopyResult",
    "Counts",
    "Diff",
    "EmbedResult",
    "Embedder",
    "ExportResult",
    "VerifyFinding",
    "Graph",
    "IndexResult",
    "LoadResult",
    "MergeConflict",
    "MergeResult",
    "MutationResult",
    "OptimizeResult",
    "Permission",
    "Policy",
    "Profile",
    "Progress",
    "RecoveredWrite",
    "RecoveryResult",
    "RepairResult",
    "RepairedTable",
    "RelocateResult",
    "RemoteGraph",
    "ResetResult",
    "ResultWarning",
    "Rows",
    "SetAsideFile",
    "Settings",
    "SchemaChange",
    "Snapshot",
    "StageFigures",
    "Tag",
    "Transaction",
    "TransactionResult",
    "VerifyResult",
    "__version__",
    "connect",
    "errors",
    "init",
    "open",
    "register_spark",
    "relocate",
    "spark_error",
}


def test_the_surface_is_exactly_this() -> None:
    """Names are API: a change here is a change for users, and belongs in the changelog."""
    assert set(omnigraph.__all__) == SURFACE
    assert list(omnigraph.__all__) == sorted(omnigraph.__all__)
    reachable = {
        name
        for name, value in vars(omnigraph).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert reachable <= SURFACE
    assert all(hasattr(omnigraph, name) for name in SURFACE)
    assert set(dir(omnigraph)) == SURFACE


def test_the_stub_says_what_the_module_has() -> None:
    """The module loads its names on first use; type checkers read the stub instead."""
    stub = ast.parse(Path(omnigraph.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert {*homes, "__version__"} == SURFACE
    for name, (module, original) in homes.items():
        assert module is not None
        found = importlib.import_module(module)
        assert getattr(omnigraph, name) is getattr(found, original), name


def test_the_package_root_binds_nothing_by_accident() -> None:
    tree = ast.parse(Path(omnigraph.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= SURFACE


def test_the_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" in project["dynamic"]
    assert metadata.version("omnigraph") == omnigraph.__version__
    assert f"## [{omnigraph.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_importing_the_package_imports_nothing_foreign() -> None:
    """A one-shot command pays for every import: the heavy ones wait until they are used."""
    script = "import sys, omnigraph; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    answer = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(answer.stdout.split())
    assert "omnigraph" in loaded
    heavy = {
        "duckdb",
        "lance",
        "numpy",
        "pandas",
        "pyarrow",
        "pydantic",
        "pyspark",
        "rich",
        "typer",
    }
    assert not loaded & heavy


def test_types_are_shipped() -> None:
    assert Path(omnigraph.__file__).with_name("py.typed").exists()
