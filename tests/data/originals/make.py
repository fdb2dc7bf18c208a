"""Write the sample graphs of the original, one per format.

    python -m tests.data.originals.make

Run once. An archive is never made anew: `test_originals.py` shows that every later release takes it
over.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

from tests.originals import make_original

HERE = Path(__file__).parent


def main() -> int:
    """Write the archives that are missing."""
    for number in (1, 2, 3, 4):
        target = HERE / f"original-{number}.tar.xz"
        if target.exists():
            print(f"{target.name} is there already", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph"
            make_original(path, number)
            with tarfile.open(target, "w:xz") as archive:
                archive.add(path, "graph")
    return 0


if __name__ == "__main__":
    sys.exit(main())
