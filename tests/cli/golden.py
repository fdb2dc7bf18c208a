"""A session of commands whose output is compared with files, for a graph here or on a server.

`python -m tests.cli.golden` writes the files anew; review the difference.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.cli.support import SCHEMA, invoke

FOLDER = Path(__file__).parent / "golden"
ALL = (
    "query q() { match { $p: Person } return { $p.name as name, $p.born as born } order { name } }"
)
CHANGES = """query add($name: String, $born: Date?) { insert Person { name: $name, born: $born } }
query born($name: String, $born: Date) { update Person set { born: $born } where name = $name }
query gone($name: String) { delete Person where name = $name }
"""
FILES = {
    "people.pg": SCHEMA + "\nnode File {\n  path: String @key\n  content: Blob?\n}\n",
    "wider.pg": SCHEMA.replace("  born: Date?", "  born: Date?\n  city: String?")
    + "\nnode File {\n  path: String @key\n  content: Blob?\n}\n",
    "other.pg": SCHEMA.replace("born: Date?", "birth: Date?"),
    "changes.gq": CHANGES,
    "people.jsonl": '{"type": "Person", "data": {"name": "Ada", "born": "1815-12-10"}}\n'
    '{"type": "Person", "data": {"name": "Bo"}}\n'
    '{"edge": "Knows", "from": "Ada", "to": "Bo"}\n'
    '{"type": "File", "data": {"path": "a", "content": "base64:aGVsbG8="}}\n',
    "wrong.jsonl": '{"type": "Person", "data": {"name": "Di", "born": "soon"}}\n'
    '{"edge": "Knows", "from": "Di", "to": "Nobody"}\n',
}
# The commands of a session, by the file that holds what they print. G is the graph.
SESSION: dict[str, tuple[tuple[str, ...], ...]] = {
    "load": (
        ("load", "G", "--data", "people.jsonl", "--mode", "append", "-m", "first"),
        ("load", "G", "--data", "wrong.jsonl", "--mode", "append"),
        ("load", "G", "--data", "wrong.jsonl", "--mode", "append", "--json"),
        ("load", "G", "--data", "people.jsonl", "--mode", "merge", "--json=mode,total_entities"),
        ("load", "G", "--data", "people.jsonl"),
        ("load", "G", "--data", "nowhere.jsonl", "--mode", "append"),
    ),
    "query": (
        ("query", "G", "-e", ALL),
        ("query", "G", "-e", ALL, "--format", "kv"),
        ("query", "G", "-e", ALL, "--format", "csv"),
        ("query", "G", "-e", ALL, "--format", "jsonl"),
        ("query", "G", "-e", ALL, "--json"),
        ("query", "G", "-e", ALL, "--json=name"),
        ("query", "G", "-e", ALL, "--json=nme"),
        ("query", "G", "-e", ALL.replace("Person", "Persn")),
        ("query", "G", "-e", ALL.replace("Person", "Persn"), "--json"),
        ("query", "G", "-e", ALL, "--at", "main~1"),
        ("query", "G@nowhere", "-e", ALL),
        ("query", "G"),
        ("query", "G", "--json", "--what"),
    ),
    "mutate": (
        ("mutate", "G", "-q", "changes.gq", "add", "-p", "name=Cy", "-m", "one more"),
        ("mutate", "G", "-q", "changes.gq", "gone", "-p", "name=Nobody"),
        ("mutate", "G", "-q", "changes.gq", "gone", "-p", "name=Nobody", "--json"),
        ("mutate", "G", "-q", "changes.gq", "add", "-p", "name=Cy"),
        ("mutate", "G", "-q", "changes.gq", "add", "-p", "name=Ed", "--if-commit", "0" * 26),
        ("mutate", "G", "-q", "changes.gq", "nothing"),
    ),
    "branches": (
        ("branch", "create", "G", "draft"),
        ("branch", "create", "G", "draft"),
        ("branch", "list", "G"),
        ("branch", "list", "G", "--json=name,parent"),
        ("mutate", "G@draft", "-q", "changes.gq", "born", "-p", "name=Bo", "-p", "born=2000-01-01"),
        ("mutate", "G", "-q", "changes.gq", "born", "-p", "name=Bo", "-p", "born=1990-01-01"),
        ("branch", "diff", "G", "draft"),
        ("branch", "merge", "G", "draft", "--dry-run"),
        ("branch", "merge", "G", "draft"),
        ("branch", "merge", "G", "draft", "--resolve", "theirs"),
        ("branch", "delete", "G", "draft", "--yes"),
        ("branch", "delete", "G", "draft", "--yes"),
    ),
    "history": (
        ("log", "G"),
        ("log", "G", "--limit", "1", "--json=kind,message"),
        ("commit", "list", "G", "--filter", "message=first", "--json=kind,message"),
        ("show", "G", "main~1"),
        ("diff", "G", "main~2", "main"),
        ("diff", "G", "main~2", "main", "--stat"),
        ("tag", "create", "G", "v1", "-m", "as published"),
        ("tag", "list", "G"),
        ("tag", "delete", "G", "v1", "--yes"),
        ("blame", "G", "Person", "Bo"),
        ("blame", "G", "Persn", "Bo"),
        ("revert", "G", "main", "--dry-run"),
        ("show", "G", "nowhere"),
        ("commit", "show", "G", "main", "--json=kind,counts"),
        ("commit", "changes", "G", "main"),
        ("log", "G", "--graph", "--limit", "3"),
        ("log", "G", "--graph", "--json"),
        ("changes", "follow", "G", "--start", "beginning", "--pages", "1"),
    ),
    "taking_back": (
        ("branch", "create", "G", "draft", "--idempotency-key", "k1"),
        ("branch", "create", "G", "draft", "--idempotency-key", "k1"),
        ("branch", "create", "G", "other", "--idempotency-key", "k1"),
        ("branch", "rename", "G", "draft", "plan"),
        ("branch", "protect", "G", "plan"),
        ("branch", "delete", "G", "plan", "--yes"),
        ("branch", "unprotect", "G", "plan"),
        ("mutate", "G@plan", "-q", "changes.gq", "add", "-p", "name=Fy"),
        ("revert", "G@plan", "plan", "-m", "a mistake", "--idempotency-key", "k2"),
        ("revert", "G@plan", "plan", "-m", "a mistake", "--idempotency-key", "k2"),
        ("reset", "G@plan", "plan~1", "--dry-run", "--json=counts"),
        ("reset", "G@plan", "plan~1", "--yes"),
        ("reset", "G", "main~1", "--yes"),
        ("branch", "delete", "G", "plan", "--if-head", "0" * 26, "--yes"),
        ("branch", "delete", "G", "plan", "--yes"),
    ),
    "states": (
        ("snapshot", "G"),
        ("snapshot", "G", "--json=graph_branch,datasets"),
        ("changes", "poll", "G", "--limit", "2"),
        ("changes", "baseline", "G", "--type", "Person"),
        ("export", "G", "--type", "Person", "--quiet"),
        ("blob", "get", "G", "File", "a", "content"),
        ("blob", "get", "G", "File", "b", "content"),
        ("blob", "stat", "G", "File", "a", "content"),
        ("blob", "stat", "G", "File", "b", "content"),
        ("schema", "show", "G"),
        ("schema", "plan", "G", "--schema", "wider.pg"),
        ("schema", "plan", "G", "--schema", "other.pg", "--queries", "changes.gq"),
        ("lint", "G", "--query", "changes.gq"),
        ("explain", "G", "-e", ALL),
        ("profile", "query", "G", "-e", ALL, "--json=path,row_count"),
        ("schema", "apply", "G", "--schema", "wider.pg"),
        ("schema", "apply", "G", "--schema", "wider.pg"),
    ),
    "upkeep": (
        ("optimize", "G", "--json=graph_commit_id"),
        ("embed", "G"),
        ("recover", "G"),
        ("repair", "G"),
        ("verify", "G", "--json=findings"),
        ("cleanup", "G", "--keep", "1", "--json=dry_run,states"),
    ),
}
# Commands about a graph that the session leaves out: where a graph is stored, or with no end.
APART = {"api", "clone", "config explain", "init", "relocate", "serve", "shell"}
_COMMIT = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?")
_SECONDS = re.compile(r"\d+\.\d\d s\b")
_CURSOR = re.compile(r'(cursor"?:? "?)[\w=+/-]{20,}')
_REASON = re.compile(r"inprocess: [^;]+;")


def played(graph: str) -> Iterator[tuple[str, str]]:
    """Run the session on a graph; yield what each part printed, without what differs each time."""
    for name, commands in SESSION.items():
        text = ""
        for words in commands:
            given = [
                graph + word[1:] if word == "G" or word.startswith("G@") else word for word in words
            ]
            answer = invoke(*given, OMNIGRAPH_HOME=".")
            text += f"$ omnigraph {' '.join(words)}\n"
            text += _masked(answer.stdout, graph)
            text += "".join(f"! {line}\n" for line in _masked(answer.stderr, graph).splitlines())
            text += f"= {answer.exit_code}\n\n"
        yield name, text


def _masked(text: str, graph: str) -> str:
    text = text.replace(graph, "G")
    text = _COMMIT.sub("<commit>", text)
    text = _TIME.sub("<time>", text)
    text = _SECONDS.sub("<seconds>", text)
    text = _REASON.sub("inprocess: <reason>;", text)
    # The width of a column follows what is masked.
    text = re.sub(r"(<commit>|<time>) +", r"\1 ", text)
    text = re.sub(r"(commit|time) {3,}", r"\1 ", text)
    return _CURSOR.sub(r"\1<cursor>", text)


def write_files(folder: Path) -> None:
    """Write the files of the session into the folder where it is played."""
    (folder / "config.yaml").write_text("operator: {actor: anonymous}\n", encoding="utf-8")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write_files(Path(place))
        os.chdir(place)
        invoke("init", "--schema", "people.pg", "people.omni")
        FOLDER.mkdir(exist_ok=True)
        for part, output in played("people.omni"):
            (FOLDER / f"{part}.txt").write_text(output, encoding="utf-8")
