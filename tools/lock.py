"""Resolve dependencies into pinned files: one for development, one for the peers of the benchmarks.

Versions that are pinned already stay, unless `--upgrade` asks for newer ones. The resolver lives in
a throw-away environment, so it never becomes a dependency. The result holds versions and hashes
only: whoever installs decides where packages come from.
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
    "--no-config",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--no-annotate",
    "--no-header",
    "--quiet",
)


def main() -> int:
    """Write the lock files, or leave the old ones in place when resolving fails."""
    upgrade = ["--upgrade"] if "--upgrade" in sys.argv[1:] else []
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        tools = Path(folder, "bin")
        subprocess.run([tools / "python", "-m", "pip", "install", "-qq", "uv"], check=True)
        for sources, name, purpose in LOCKS:
            lock = Path(folder, name)
            if (FOLDER / name).exists():
                # The resolver prefers what the file that it writes to has pinned.
                lock.write_text((FOLDER / name).read_text())
            command = [tools / "uv", *RESOLVE, *upgrade, "--output-file", lock, *sources]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
            header = f"# Versions and hashes of {purpose}. Written by `make lock`.\n"
            found[name] = header + lock.read_text()
    if any("://" in text for text in found.values()):
        print("the resolver wrote an address into a lock; not keeping it", file=sys.stderr)
        return 1
    FOLDER.mkdir(exist_ok=True)
    for name, text in found.items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
