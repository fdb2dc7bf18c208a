"""Resolve the dependencies of the base install and of development into one pinned file.

The resolver lives in a throw-away environment, so it never becomes a dependency. The result holds
versions and hashes only: whoever installs decides where packages come from.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "dev.lock"
HEADER = """\
# Versions and hashes of the base install and of development. Written by `make lock`.
"""
RESOLVE = (
    "pip",
    "compile",
    "pyproject.toml",
    "--extra=dev",
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
    """Write the lock file, or leave the old one in place when resolving fails."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        tools = Path(folder, "bin")
        subprocess.run([tools / "python", "-m", "pip", "install", "-qq", "uv"], check=True)
        answer = subprocess.run(
            [tools / "uv", *RESOLVE], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
        )
    if "://" in answer.stdout:
        print("the resolver wrote an address into the lock; not keeping it", file=sys.stderr)
        return 1
    LOCK.parent.mkdir(exist_ok=True)
    LOCK.write_text(HEADER + answer.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
