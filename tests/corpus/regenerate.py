"""Write what the compilers say today into the fixtures: `python -m tests.corpus.regenerate`.

With `--check` nothing is written and the exit code says whether anything would be.
"""

from __future__ import annotations

import argparse
import sys

import tests.corpus.kinds  # noqa: F401 - registers all kinds
from tests.corpus.harness import CASES, fixtures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    only_check: bool = parser.parse_args().check
    stale = 0
    for fixture in fixtures():
        text = fixture.regenerated().render()
        if text == fixture.path.read_text(encoding="utf-8"):
            continue
        stale += 1
        print(fixture.path.relative_to(CASES))
        if not only_check:
            fixture.path.write_text(text, encoding="utf-8")
    return 1 if only_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
