"""Commands that are imported when somebody names them.

A group knows its commands by name, heading and summary, so that its help imports none of them.
"""

import difflib
import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from omnigraph.cli.exits import Status, reporting

# Drawing help with rich would double the time it takes.
PLAIN_HELP: Final[dict[str, Any]] = {
    "add_completion": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command as the help of its group lists it.

    Attributes:
        module: The module below `omnigraph.cli.commands`, which holds a command of the same name.
        heading: The heading that it stands under.
        summary: The first line of its docstring.
        hidden: Is it left out of the list?
    """

    module: str
    heading: str
    summary: str
    hidden: bool = False

    def load(self) -> Any:
        """Import the command."""
        found = importlib.import_module(f"omnigraph.cli.commands.{self.module}")
        return getattr(found, self.module)


class LazyGroup(TyperGroup):
    """A group whose commands stand in a table; a subclass brings the table."""

    entries: ClassVar[dict[str, CommandEntry]] = {}

    # The types of these arguments are no public names of typer.
    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands: those of the table, then the groups below."""
        return [*self.entries, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, which is imported now; None if there is none."""
        entry = self.entries.get(cmd_name)
        return super().get_command(ctx, cmd_name) if entry is None else entry.load()

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name; a name that is almost right gets a hint."""
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            close = difflib.get_close_matches(args[0], known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list of commands per heading."""
        rows: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            if not entry.hidden:
                rows.setdefault(entry.heading, []).append((name, entry.summary))
        for name, group in self.commands.items():
            summary = group.get_short_help_str(formatter.width)
            rows.setdefault(getattr(group, "rich_help_panel", ""), []).append((name, summary))
        for heading, listed in rows.items():
            with formatter.section(heading):
                formatter.write_dl(listed)


def command(*shown: str) -> Callable[[Callable[..., Status]], Any]:
    """Make a function a command: its failures become messages, its status ends the process.

    Args:
        shown: Examples that stand below the help.
    """

    def decorate(body: Callable[..., Status]) -> Any:
        @functools.wraps(body)
        def run(**values: Any) -> None:
            with reporting(as_json=bool(values.get("as_json"))):
                raise typer.Exit(body(**values))

        single = typer.Typer(**PLAIN_HELP)
        single.command(epilog=examples(*shown) if shown else None)(run)
        return get_command(single)

    return decorate


def examples(*commands: str) -> str:
    """Examples as they stand below a help text; the mark keeps the lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in commands)])
