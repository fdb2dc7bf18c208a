"""Write the table of commands in docs/cli.md from the commands, so that it cannot fall behind.

Run as `python -m tools.commands`; a guard test compares the page with `page()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from omnigraph.cli.lazy import Command, LazyGroup
from omnigraph.cli.main import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
MARK = "<!-- made by `make docs` -->\n"


def page() -> str:
    """The whole page: what people wrote, and the table below the mark."""
    written, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    rows = "".join(f"{row}\n" for row in _rows(app, ""))
    intro = "`omnigraph COMMAND --help` has the options of each.\n"
    head = "| command | arguments | what it does |\n|---|---|---|\n"
    return f"{written}{mark}\n{intro}\n{head}{rows}"


def _rows(group: LazyGroup, path: str) -> Iterator[str]:
    for name in sorted(group.list_commands()):
        entry = group.entries.get(name)
        command = group.get_command(name)
        if isinstance(command, LazyGroup):
            yield from _rows(command, f"{path}{name} ")
        elif entry is not None and not entry.hidden:
            cells = (f"`{path}{name}`", _arguments(command), entry.summary)
            yield f"| {' | '.join(cells)} |"


def _arguments(command: Command) -> str:
    found = [each for each in command.params if not each.is_option]
    shown = [each.metavar if each.required else f"[{each.metavar}]" for each in found]
    return " ".join(f"`{name}`" for name in shown).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
