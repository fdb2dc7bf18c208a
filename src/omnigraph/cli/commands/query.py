"""`omnigraph query`: runs a reading query."""

from typing import Annotated, Any

from omnigraph.cli import render
from omnigraph.cli.exits import Status
from omnigraph.cli.lazy import command
from omnigraph.cli.options import At, Json
from omnigraph.cli.parameters import Option
from omnigraph.cli.queries import QueryArguments, query_name
from omnigraph.cli.results import Form, chosen_format, plain_row, show_lines, show_rows
from omnigraph.cli.targets import Target


@command(
    "omnigraph query people.omni --query people.gq friends -p name=Ada",
    "omnigraph query people.omni@draft -e 'query q() { match { $p: Person } return { $p } }'",
    'omnigraph query --store people.omni -q people.gq friends --params \'{"name": "Ada"}\' -f csv',
    branch=True,
)
def query(
    target: Target,
    asked: QueryArguments,
    at: At = None,
    timeout: Annotated[
        float | None, Option("--timeout", metavar="SECONDS", help="Give up after so long.")
    ] = None,
    form: Form = None,
    as_json: Json = False,
) -> Status:
    """Run a reading query, and print its rows."""
    queries, values = asked.read()
    wanted = chosen_format(form, target.config.output, as_json=as_json)
    with target.open("r") as graph, render.paged(as_json=wanted != "table") as screen:
        pinned = graph.snapshot(target.on, at=at)
        rows = pinned.query(queries, values, name=asked.name, timeout=timeout)
        about: dict[str, Any] = {
            "query_name": query_name(queries, asked.name),
            "target": {"branch": target.on} if at is None else {"snapshot": pinned.commit},
            "graph_commit_id": pinned.commit,
            "row_count": len(rows),
        }
        if wanted == "json":
            listed = [plain_row(row) for row in rows]
            screen.json({**about, "columns": list(rows.columns), "rows": listed})
        else:
            if wanted == "jsonl":
                show_lines(screen, [{"kind": "metadata", **about}])
            show_rows(screen, rows.columns, rows, wanted)
    return Status.OK
