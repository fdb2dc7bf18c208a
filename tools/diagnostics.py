"""Write docs/diagnostics.md from the code registries, so that the page cannot fall behind.

Run as `python -m tools.diagnostics`; a guard test compares the page with `page()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from omnigraph.lang.catalog.steps import MIGRATION_CODES
from omnigraph.lang.query.codes import MEANINGS
from omnigraph.lang.schema.codes import CODES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "diagnostics.md"

_INTRO = """\
# Diagnostics

Every finding of the compiler has a code. Codes are API: a published one keeps its meaning, and
programs match on it. The message beside it is for people and may improve at any time.

A finding names its file, line and column, shows the source line with the place underlined, and
says what to do where that is known:

```text
people.gq:4:9: error[T4]: unknown edge type `knwos`
    4 |     $me knwos $friend
      |         ^^^^^
      = hint: did you mean `knows`?
```

From Python, `InvalidInput.diagnostics` holds the same as plain values; on the command line,
`--json` prints them.
"""


def page() -> str:
    """The whole page."""
    queries = {code.value: meaning for code, meaning in MEANINGS.items()}
    return "\n".join(
        (
            _INTRO,
            _table("Schemas", "Codes `S9xx` are warnings.", CODES),
            _table("Queries", "Codes `L2xx` are warnings of lint.", queries),
            _table(
                "Migrations",
                "`OG-DS-*` lose data, `OG-MF-*` may fail or cannot be done.",
                MIGRATION_CODES,
            ),
        )
    )


def _table(title: str, note: str, codes: Mapping[str, str]) -> str:
    rows = "\n".join(f"| `{code}` | {meaning} |" for code, meaning in codes.items())
    return f"## {title}\n\n{note}\n\n| code | meaning |\n|---|---|\n{rows}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
