"""The `omnigraph` command: the table of its commands, each in a module of its own."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

from omnigraph.cli.addressing import (
    ACTOR_OPTION,
    GRAPH_OPTION,
    PROFILE_OPTION,
    QUIET_OPTION,
    SERVER_OPTION,
    STORE_OPTION,
    YES_OPTION,
)
from omnigraph.cli.exits import Status, discard_output, output_failed
from omnigraph.cli.lazy import CommandEntry, LazyGroup
from omnigraph.cli.parameters import CommandParameter, Option
from omnigraph.cli.parsing import HELP

_LANGUAGES: Final = "Schemas and queries"
_DATA: Final = "Graphs and data"
_HISTORY: Final = "Branches and history"
_MAINTENANCE: Final = "Maintenance"
_SERVERS: Final = "Servers"
_ABOUT: Final = "About"
_COMMANDS: Final = "Commands"
_LINT: Final = "Check a schema, and queries against it (alias: check)."
_QUERY: Final = "Run a reading query, and print its rows."
_MUTATE: Final = "Run a changing query: all of it is one commit, or nothing happens."
_SCHEMA_SHOW: Final = "Print the schema in force, as it was written."


class Commands(LazyGroup):
    """The commands of `omnigraph`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "lint": CommandEntry("lint", _LANGUAGES, _LINT),
        "check": CommandEntry("lint", _LANGUAGES, _LINT, hidden=True),
        "fmt": CommandEntry("fmt", _LANGUAGES, "Format .pg and .gq files in place."),
        "explain": CommandEntry("explain", _LANGUAGES, "Show how queries would run, step by step."),
        "init": CommandEntry("init", _DATA, "Make a new graph."),
        "query": CommandEntry("query", _DATA, _QUERY),
        "read": CommandEntry("query", _DATA, _QUERY, hidden=True),
        "mutate": CommandEntry("mutate", _DATA, _MUTATE),
        "change": CommandEntry("mutate", _DATA, _MUTATE, hidden=True),
        "load": CommandEntry("load", _DATA, "Load data: all of it in one commit, or nothing."),
        "export": CommandEntry(
            "export", _DATA, "Write the data of a branch or commit to files that `load` reads back."
        ),
        "shell": CommandEntry(
            "shell",
            _DATA,
            "Ask and change a graph interactively, or run statements of standard input.",
        ),
        "snapshot": CommandEntry(
            "snapshot",
            _DATA,
            "Show the newest commit of a branch, or an older one, and how many entities it has by "
            "type.",
        ),
        "log": CommandEntry("log", _HISTORY, "Show the commits of a branch, the newest first."),
        "show": CommandEntry("show", _HISTORY, "Show one commit, and what it changed."),
        "diff": CommandEntry(
            "diff", _HISTORY, "Compare two states of the graph, entity by entity."
        ),
        "blame": CommandEntry(
            "blame", _HISTORY, "List the commits that changed one entity, the newest first."
        ),
        "revert": CommandEntry(
            "revert", _HISTORY, "Take back what a commit changed, as a new commit."
        ),
        "reset": CommandEntry(
            "reset", _HISTORY, "Give a branch the state of an older commit back, as a new commit."
        ),
        "optimize": CommandEntry(
            "optimize",
            _MAINTENANCE,
            "Compact tables and bring indexes up to date; answers stay the same.",
        ),
        "cleanup": CommandEntry(
            "cleanup",
            _MAINTENANCE,
            "Remove old states of a graph, and every file that none of the others needs.",
        ),
        "verify": CommandEntry(
            "verify", _MAINTENANCE, "Compare what a graph says about itself with what is stored."
        ),
        "repair": CommandEntry(
            "repair",
            _MAINTENANCE,
            "Settle tables that are further than what is published, because of another tool.",
        ),
        "recover": CommandEntry(
            "recover", _MAINTENANCE, "Settle writes that stopped half-way, and say what was found."
        ),
        "clone": CommandEntry(
            "clone",
            _MAINTENANCE,
            "Copy a graph, or a branch of it, to another place: backup and restore.",
        ),
        "relocate": CommandEntry(
            "relocate", _MAINTENANCE, "Make the branches of a graph work that was moved or copied."
        ),
        "embed": CommandEntry(
            "embed",
            _MAINTENANCE,
            "Compute vectors that are missing from their texts; an interrupted call can be "
            "repeated.",
        ),
        "api": CommandEntry(
            "api", _SERVERS, "Send a request to a server with its token, and print the answer."
        ),
        "login": CommandEntry(
            "login", _SERVERS, "Keep the token of a server, in a file that only you may read."
        ),
        "logout": CommandEntry("logout", _SERVERS, "Forget the token of a server."),
        "serve": CommandEntry("serve", _SERVERS, "Serve graphs over HTTP, until a signal ends it."),
        "completion": CommandEntry(
            "completion",
            _ABOUT,
            "Print a script that completes commands, options and names in a shell.",
        ),
        "version": CommandEntry(
            "version", _ABOUT, "Print the release and the version of the storage layout."
        ),
    }

    def without_command(self, path: str, values: Mapping[str, Any]) -> int:
        """Print the release, if that is asked for; else help."""
        if values["version"]:
            return self.entries["version"].load().run(f"{path} version", [], values)
        return super().without_command(path, values)


class SchemaCommands(LazyGroup):
    """The commands of `omnigraph schema`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "show": CommandEntry("schema_show", _COMMANDS, _SCHEMA_SHOW),
        "get": CommandEntry("schema_show", _COMMANDS, _SCHEMA_SHOW, hidden=True),
        "plan": CommandEntry(
            "schema_plan", _COMMANDS, "Show the steps from one schema to another."
        ),
        "apply": CommandEntry(
            "schema_apply", _COMMANDS, "Change the schema of a branch, in one commit."
        ),
    }


class BranchCommands(LazyGroup):
    """The commands of `omnigraph branch`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "list": CommandEntry(
            "branch_list",
            _COMMANDS,
            "List the branches, each with what it was made from and its newest commit.",
        ),
        "create": CommandEntry(
            "branch_create",
            _COMMANDS,
            "Make a branch. It takes one small write, however large the graph is.",
        ),
        "diff": CommandEntry(
            "branch_diff",
            _COMMANDS,
            "Compare a branch with the one that it was made from, or with another.",
        ),
        "merge": CommandEntry(
            "branch_merge",
            _COMMANDS,
            "Bring the changes of one branch into another: one commit, or nothing.",
        ),
        "rename": CommandEntry("branch_rename", _COMMANDS, "Give a branch another name."),
        "protect": CommandEntry(
            "branch_protect",
            _COMMANDS,
            "Protect a branch: it is neither deleted, renamed nor reset.",
        ),
        "unprotect": CommandEntry("branch_unprotect", _COMMANDS, "Protect a branch no longer."),
        "delete": CommandEntry(
            "branch_delete",
            _COMMANDS,
            "Delete a branch; its commits that no other branch shares go with it.",
        ),
    }


class CommitCommands(LazyGroup):
    """The commands of `omnigraph commit`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "list": CommandEntry(
            "commit_list",
            _COMMANDS,
            "List the commits of a branch, the newest first; filters leave some out.",
        ),
        "show": CommandEntry("show", _COMMANDS, "Show one commit, and what it changed."),
        "changes": CommandEntry(
            "commit_changes",
            _COMMANDS,
            "Show the changes that a commit made to the state of its first parent.",
        ),
    }


class TagCommands(LazyGroup):
    """The commands of `omnigraph tag`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "list": CommandEntry("tag_list", _COMMANDS, "List the tags, each with its commit."),
        "create": CommandEntry(
            "tag_create",
            _COMMANDS,
            "Give a commit a name; the newest one of the branch, if no other is named.",
        ),
        "delete": CommandEntry("tag_delete", _COMMANDS, "Delete a tag; its commit stays."),
    }


class ChangesCommands(LazyGroup):
    """The commands of `omnigraph changes`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "poll": CommandEntry(
            "changes_poll",
            _COMMANDS,
            "Read the changes that follow a cursor; without one, start anew.",
        ),
        "follow": CommandEntry(
            "changes_follow",
            _COMMANDS,
            "Print changes as they are committed, until it is interrupted; --json prints a page a "
            "line.",
        ),
        "baseline": CommandEntry(
            "changes_baseline",
            _COMMANDS,
            "Print every entity of a branch as a JSON line, and last the cursor of its change "
            "feed.",
        ),
    }


class BlobCommands(LazyGroup):
    """The commands of `omnigraph blob`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "get": CommandEntry(
            "blob_get",
            _COMMANDS,
            "Write the bytes of a blob, or of a part of it, to a file or to standard output.",
        ),
        "stat": CommandEntry(
            "blob_stat", _COMMANDS, "Show how many bytes a blob has, and of which commit it is."
        ),
    }


class ProfileCommands(LazyGroup):
    """The commands of `omnigraph profile`: what is none of them is a query to be measured."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "list": CommandEntry("profile_list", _COMMANDS, "List the profiles of the configuration."),
        "show": CommandEntry(
            "profile_show", _COMMANDS, "Show one profile, and the graph that it names."
        ),
        "query": CommandEntry(
            "profile_query",
            _COMMANDS,
            "Run a query and report what each step did: rows, time, and the path taken.",
        ),
    }

    def arranged(self, words: Sequence[str]) -> list[str]:
        """The words; those that name no command are those of `query`."""
        is_query = bool(words) and words[0] not in {*self.entries, *HELP}
        return ["query", *words] if is_query else list(words)


class ConfigCommands(LazyGroup):
    """The commands of `omnigraph config`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "explain": CommandEntry(
            "config_explain",
            _COMMANDS,
            "Say which graph, branch and actor a command would use, and what chose them.",
        ),
    }


class AuthCommands(LazyGroup):
    """The commands of `omnigraph auth`."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "status": CommandEntry(
            "auth_status",
            _COMMANDS,
            "List the servers of the configuration and of kept tokens, and the token that each "
            "gets.",
        ),
    }


# The groups below `omnigraph`: name, commands, heading, and what their help says first.
GROUPS: Final = (
    ("schema", SchemaCommands, _LANGUAGES, "Show, plan and change schemas."),
    ("branch", BranchCommands, _HISTORY, "List, make, compare, merge, rename and delete branches."),
    ("tag", TagCommands, _HISTORY, "List, make and delete names of commits."),
    ("commit", CommitCommands, _HISTORY, "List and show commits."),
    ("changes", ChangesCommands, _HISTORY, "Read the change feed of a branch."),
    ("blob", BlobCommands, _DATA, "Read large binary values."),
    ("profile", ProfileCommands, _DATA, "Measure a query; list and show profiles."),
    ("config", ConfigCommands, _ABOUT, "Explain what a command would work on."),
    ("auth", AuthCommands, _SERVERS, "Show the tokens of servers."),
)

# These options may stand before a command or behind it.
_ROOT_OPTIONS: Final = (
    CommandParameter("store", Annotated[str | None, STORE_OPTION], None),
    CommandParameter("server", Annotated[str | None, SERVER_OPTION], None),
    CommandParameter("graph_id", Annotated[str | None, GRAPH_OPTION], None),
    CommandParameter("profile", Annotated[str | None, PROFILE_OPTION], None),
    CommandParameter("actor", Annotated[str | None, ACTOR_OPTION], None),
    CommandParameter("yes", Annotated[bool, YES_OPTION], False),
    CommandParameter("quiet", Annotated[bool, QUIET_OPTION], False),
    CommandParameter(
        "version",
        Annotated[bool, Option("--version", "-v", help="Print the release and stop.")],
        False,
    ),
)

app = Commands(
    """A typed property graph with a schema and a query language of its own.

    These options may stand before a command or behind it.
    """,
    params=_ROOT_OPTIONS,
    groups={name: group(about, heading) for name, group, heading, about in GROUPS},
    examples=(
        "omnigraph init --schema people.pg people.omni",
        "omnigraph load people.omni --data people.jsonl --mode append",
        "omnigraph query people.omni --query people.gq friends -p name=Ada",
        "omnigraph branch create people.omni draft",
        "omnigraph log people.omni@draft --graph",
    ),
)


def run() -> None:
    """Run the command line of this process, and end it."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character must not turn a report into a failure.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    status: str | int | None = Status.OK
    try:
        try:
            app()
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
