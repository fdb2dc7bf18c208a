"""Resolve dependencies into pinned files: one for development, one for the peers of the benchmarks.

The resolver lives in a throw-away environment, so it never becomes a dependency. The result holds
versions and hashes only: whoever installs decides where packages come from.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
# What is resolved, into which file, and what that file is for.
LOCKS = (
    (("pyproject.toml", "--extra=dev"), "dev.lock", "the base install and of development"),
    (("requirements/bench.in",), "bench.lock", "the engines that benchmarks compare with"),
)
RESOLVE = (
    "pip",
    "compile",
    "--universal",  # one file for every platform, with environment markers
    "--python-version=3.11",
    "--generate-hashes",
    "--upgrade",
    "--no-config",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--no-header",
    "--quiet",
)


def main() -> int:
    """Write the lock files, or leave the old ones in place when resolving fails."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        tools = Path(folder, "bin")
        subprocess.run([tools / "python", "-m", "pip", "install", "-qq", "uv"], check=True)
        for sources, name, purpose in LOCKS:
            command = [tools / "uv", *RESOLVE, *sources]
            answer = subprocess.run(
                command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
            )
            header = f"# Versions and hashes of {purpose}. Written by `make lock`.\n"
            found[name] = header + answer.stdout
    if any("://" in text for text in found.values()):
        print("the resolver wrote an address into a lock; not keeping it", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    for name, text in found.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
