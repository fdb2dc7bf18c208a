"""The `omnigraph` command: the table of its commands, each in a module of its own."""

import sys
from typing import Annotated, ClassVar, Final

import typer

from omnigraph.cli.exits import Status, discard_output, output_failed
from omnigraph.cli.lazy import PLAIN_HELP, CommandEntry, LazyGroup, examples

_LANGUAGES: Final = "Schemas and queries"
_DATA: Final = "Graphs and data"
_ABOUT: Final = "About"
_LINT: Final = "Check a schema, and queries against it (alias: check)."


class Commands(LazyGroup):
    """The commands of `omnigraph`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "lint": CommandEntry("lint", _LANGUAGES, _LINT),
        "check": CommandEntry("lint", _LANGUAGES, _LINT, hidden=True),
        "fmt": CommandEntry("fmt", _LANGUAGES, "Format .pg and .gq files in place."),
        "explain": CommandEntry("explain", _LANGUAGES, "Show how queries would run, step by step."),
        "init": CommandEntry("init", _DATA, "Make a new graph."),
        "query": CommandEntry("query", _DATA, "Run a reading query, and print its rows."),
        "mutate": CommandEntry(
            "mutate", _DATA, "Run a changing query: all of it is one commit, or nothing happens."
        ),
        "load": CommandEntry("load", _DATA, "Load data: all of it in one commit, or nothing."),
        "export": CommandEntry(
            "export", _DATA, "Write the data of a branch or commit to files that `load` reads back."
        ),
        "log": CommandEntry("log", _DATA, "Show the commits of a branch, the newest first."),
        "diff": CommandEntry("diff", _DATA, "Compare two states of the graph, entity by entity."),
        "optimize": CommandEntry(
            "optimize", _DATA, "Compact tables and bring indexes up to date; answers stay the same."
        ),
        "recover": CommandEntry(
            "recover", _DATA, "Settle writes that stopped half-way, and say what was found."
        ),
        "relocate": CommandEntry(
            "relocate", _DATA, "Make the branches of a graph work that was moved or copied."
        ),
        "embed": CommandEntry(
            "embed",
            _DATA,
            "Compute vectors that are missing from their texts; an interrupted call can be "
            "repeated.",
        ),
        "version": CommandEntry(
            "version", _ABOUT, "Print the release and the version of the storage layout."
        ),
    }


class SchemaCommands(LazyGroup):
    """The commands of `omnigraph schema`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "show": CommandEntry(
            "schema_show", "Commands", "Print the schema in force, as it was written."
        ),
        "plan": CommandEntry(
            "schema_plan", "Commands", "Show the steps from one schema to another."
        ),
        "apply": CommandEntry(
            "schema_apply", "Commands", "Change the schema of a branch, in one commit."
        ),
    }


class BranchCommands(LazyGroup):
    """The commands of `omnigraph branch`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "list": CommandEntry(
            "branch_list",
            "Commands",
            "List the branches, each with what it was made from and its newest commit.",
        ),
        "create": CommandEntry(
            "branch_create",
            "Commands",
            "Make a branch. It takes one small write, however large the graph is.",
        ),
        "merge": CommandEntry(
            "branch_merge",
            "Commands",
            "Bring the changes of one branch into another: one commit, or nothing.",
        ),
        "delete": CommandEntry(
            "branch_delete",
            "Commands",
            "Delete a branch; its commits that no other branch shares go with it.",
        ),
    }


app = typer.Typer(name="omnigraph", cls=Commands, no_args_is_help=True, **PLAIN_HELP)
schema = typer.Typer(cls=SchemaCommands, no_args_is_help=True, **PLAIN_HELP)
app.add_typer(schema, name="schema", rich_help_panel=_LANGUAGES)
branch = typer.Typer(cls=BranchCommands, no_args_is_help=True, **PLAIN_HELP)
app.add_typer(branch, name="branch", rich_help_panel=_DATA)


@branch.callback()
def about_branches() -> None:
    """List, make, merge and delete branches."""


@schema.callback()
def about_schemas() -> None:
    """Show, plan and change schemas."""


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "omnigraph lint --schema people.pg --query people.gq",
        "omnigraph fmt --check .",
        "omnigraph explain --schema people.pg --query people.gq friends",
        "omnigraph schema plan --schema people_v2.pg --against people.pg",
    ),
)
def root(
    version: Annotated[
        bool, typer.Option("--version", "-v", help="Print the release and stop.")
    ] = False,
) -> None:
    """A typed property graph with a schema and a query language of its own."""
    if version:
        Commands.entries["version"].load().callback(as_json=False)


def run() -> None:
    """Run the command line of this process, and end it."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not turn a report into a failure.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    status: str | int | None = Status.OK
    try:
        try:
            app(prog_name="omnigraph")
        except SystemExit as leaving:
            status = leaving.code
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough.
        discard_output()
    except OSError as error:
        status = output_failed(error)
    sys.exit(status)


if __name__ == "__main__":
    run()
