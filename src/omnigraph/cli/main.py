"""The `omnigraph` command: what can be asked, in which words, and nothing of how it is done.

Every command imports its module when it runs, so that help and mistakes in the arguments are
answered at once.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from omnigraph.cli import data
from omnigraph.cli.exits import Status, discard_output, output_failed, reporting

_QUERIES = "Schemas and queries"
_ABOUT = "About"


def examples(*commands: str) -> str:
    """What stands below a help text; the mark keeps the lines as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


class CommandGroup(TyperGroup):
    """A group that lists its commands under the headings they name."""

    # The type of these arguments is no public name of typer.
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list of commands per heading."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                rows = panels.setdefault(heading if isinstance(heading, str) else "Commands", [])
                rows.append((name, command.get_short_help_str(formatter.width)))
        for heading, rows in panels.items():
            with formatter.section(heading):
                formatter.write_dl(rows)


_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

app = typer.Typer(
    name="omnigraph",
    cls=CommandGroup,
    context_settings=_CONTEXT,
    no_args_is_help=True,
    add_completion=False,
    # Drawing help with rich would double the time it takes.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
schema_app = typer.Typer(
    cls=CommandGroup,
    context_settings=_CONTEXT,
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(schema_app, name="schema", help="Change a schema.", rich_help_panel=_QUERIES)


class Language(StrEnum):
    """The two languages, by the suffixes of their files."""

    PG = "pg"
    GQ = "gq"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Schema = Annotated[
    Path,
    typer.Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="The schema, .pg or a catalog as .json; - for standard input.",
    ),
]
_STDIN = Path("-")


_COMMANDS = (
    (data.init, ("omnigraph init --schema people.pg people.omni",)),
    (
        data.load,
        (
            "omnigraph load --data people.jsonl --mode append --store people.omni",
            "omnigraph load -d Person=people.csv -d Knows=knows.parquet -m merge --store g.omni",
            "omnigraph load -d 'new/*.gz' -m merge -b review --create-from main --store g.omni",
            "zcat dump.gz | omnigraph load -d - -m append --store people.omni",
        ),
    ),
    (
        data.export,
        (
            "omnigraph export --store people.omni > people.jsonl",
            "omnigraph export --store people.omni --out parts/ --format parquet",
            "omnigraph export --store people.omni --type Person --at 01J… --out people.jsonl",
        ),
    ),
    (data.optimize, ("omnigraph optimize --store people.omni",)),
    (data.recover, ("omnigraph recover --store people.omni",)),
    (
        data.embed,
        (
            "omnigraph embed --store people.omni",
            "omnigraph embed --store people.omni --type Person --batch 1000",
        ),
    ),
)


def _read_stdin_once(*paths: Path | None) -> None:
    if paths.count(_STDIN) > 1:
        raise typer.BadParameter("- stands for standard input, which can be read only once")


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
        _version(as_json=False)


_LINTING = examples(
    "omnigraph lint --schema people.pg",
    "omnigraph lint --schema people.pg --query people.gq --query reports.gq",
    "omnigraph lint --schema people.pg --query people.gq --json",
)


@app.command("check", hidden=True, epilog=_LINTING)
@app.command(rich_help_panel=_QUERIES, epilog=_LINTING)
def lint(
    schema: Schema,
    query: Annotated[
        list[Path] | None,
        typer.Option(
            "--query",
            "-q",
            metavar="FILE",
            help="A file of queries, - for standard input; may be repeated.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a schema, and queries against it (alias: check).

    Everything that is wrong is reported at once, with its place and, where possible, a hint.
    Ends with 0 if there are no errors; warnings are allowed.
    """
    _read_stdin_once(schema, *(query or ()))
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.lint import perform

        raise typer.Exit(perform(schema, query or [], as_json=as_json))


@app.command(
    rich_help_panel=_QUERIES,
    epilog=examples(
        "omnigraph fmt",
        "omnigraph fmt --check --diff schemas/ people.gq",
        "omnigraph fmt --lang gq - < people.gq",
    ),
)
def fmt(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATHS",
            help="Files, folders, or - for standard input; without any, the current folder.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; end with 1 if a file would change.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; print what would change.")
    ] = False,
    language: Annotated[
        Language | None, typer.Option("--lang", help="The language of standard input.")
    ] = None,
) -> None:
    """Format .pg and .gq files in place.

    Folders are searched for both; hidden folders are not. A file that does not parse is reported
    and left as it is. Comments stay.
    """
    chosen = paths or [Path(".")]
    from_stdin = _STDIN in chosen
    if from_stdin and len(chosen) > 1:
        raise typer.BadParameter("- stands for standard input and cannot be mixed with paths")
    if from_stdin and language is None:
        raise typer.BadParameter("say --lang pg or --lang gq when reading standard input")
    if language is not None and not from_stdin:
        raise typer.BadParameter("--lang is for standard input; files tell by their suffix")
    with reporting():
        from omnigraph.cli.commands.fmt import perform, perform_stdin

        if language is not None:
            raise typer.Exit(perform_stdin(language.value, check=check, diff=diff))
        raise typer.Exit(perform(chosen, check=check, diff=diff))


@app.command(
    rich_help_panel=_QUERIES,
    epilog=examples(
        "omnigraph explain --schema people.pg --query people.gq friends",
        "omnigraph explain -s people.pg -e 'query all() { match { $p: Person } return { $p } }'",
        "omnigraph explain -s people.pg --query - --json < people.gq",
    ),
)
def explain(
    schema: Schema,
    name: Annotated[
        str | None,
        typer.Argument(help="The query to explain; without it, every one.", show_default=False),
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option(
            "--query", "-q", metavar="FILE", help="A file of queries; - for standard input."
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--expr", "-e", metavar="TEXT", help="Queries as text.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show how queries would run, step by step."""
    if (query is None) == (text is None):
        raise typer.BadParameter("give the queries either as a file (--query) or as text (-e)")
    _read_stdin_once(schema, query)
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.explain import perform

        source = query if query is not None else text or ""
        raise typer.Exit(perform(schema, source, name, as_json=as_json))


@schema_app.command(
    "plan",
    epilog=examples(
        "omnigraph schema plan --schema people_v2.pg --against people.pg",
    ),
)
def schema_plan(
    schema: Schema,
    against: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The schema in force, .pg or a catalog as .json; - for standard input.",
        ),
    ],
    allow_data_loss: Annotated[
        bool,
        typer.Option("--allow-data-loss", help="Let drops remove earlier versions as well."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the steps from one schema to another.

    Each step says what it means for stored data.
    Ends with 0 if the steps can be applied, with 1 if one of them is refused.
    """
    _read_stdin_once(schema, against)
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.schema_plan import perform

        raise typer.Exit(perform(schema, against, allow_data_loss=allow_data_loss, as_json=as_json))


for _command, _shown in _COMMANDS:
    app.command(rich_help_panel=data.DATA, epilog=examples(*_shown))(_command)


@app.command(rich_help_panel=_ABOUT)
def version(as_json: Json = False) -> None:
    """Print the release and the version of the storage layout."""
    _version(as_json=as_json)


def _version(*, as_json: bool) -> None:
    with reporting(as_json=as_json):
        from omnigraph.cli.commands.version import perform

        raise typer.Exit(perform(as_json=as_json))


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
