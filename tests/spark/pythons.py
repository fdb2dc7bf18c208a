"""Pythons for workers that have some packages and no others."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

# What docs/spark.md asks of workers, with the modules that those packages bring.
PYARROW = ("pyarrow", "numpy", "numpy.libs")
PYLANCE = ("lance", "lance_namespace", "lance_namespace_urllib3_client")
OBSTORE = ("obstore",)


def python_with(folder: Path, modules: Iterable[str]) -> str:
    """The path of a Python like this one that has just these modules, linked from here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    names = {"base": str(folder), "platbase": str(folder)}
    there = Path(sysconfig.get_path("purelib", vars=names))
    here = Path(sysconfig.get_path("purelib"))
    for name in modules:
        if (here / name).exists():
            (there / name).symlink_to(here / name)
    return str(folder / "bin" / "python")


def without_path() -> dict[str, str]:
    """The environment, less what would let every Python find what this one finds."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
