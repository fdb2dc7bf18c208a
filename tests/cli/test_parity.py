"""Commands on a graph behind a server print what they print on the graph itself, and end alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.golden import FOLDER, played, write_files
from tests.cli.support import LATE, invoke, process

# The tests share a graph and its server.
pytestmark = pytest.mark.xdist_group("parity")
HEAVY = {"lance", "numpy", "pyarrow", "obstore", "pandas", "rich", "starlette"}
ALL = "query q() { match { $p: Person } return { $p.name as name } }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("parity")
    write_files(place)
    made = process("init", "--schema", "people.pg", "people.omni", cwd=place)
    assert made.returncode == 0
    return place


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """The address of the graph on a server that runs as a process of its own."""
    command = [str(Path(sys.executable).with_name("omnigraph")), "serve", "people.omni"]
    with subprocess.Popen(
        [*command, "--bind", "127.0.0.1:0"],
        cwd=folder,
        env={"PATH": os.environ.get("PATH", ""), "OMNIGRAPH_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip().partition("=")[2]
        yield f"http://{address}/graphs/people"
        server.terminate()


def test_a_session_prints_the_same_through_a_server(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name, text in played(url):
        assert text == (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), name


def test_a_file_of_violations_has_all_of_them_also_from_a_server(
    folder: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    line = '{"type": "Person", "data": {"name": 7}}\n'
    Path("many.jsonl").write_text(line * 1_200, encoding="utf-8")
    found = []
    for graph in ("people.omni", url):
        words = ("load", graph, "-d", "many.jsonl", "--mode", "append", "--violations", "all.jsonl")
        answer = invoke(*words, OMNIGRAPH_HOME=".")
        written = [json.loads(item) for item in Path("all.jsonl").read_text().splitlines()]
        found.append((answer.exit_code, answer.output, [item["line"] for item in written]))
    assert found[0] == found[1]
    status, output, numbers = found[1]
    assert (status, numbers) == (1, list(range(1, 1_201)))
    assert output.endswith("1,180 more violations; all of them are in all.jsonl\n")


def test_every_way_to_name_a_server_reaches_it(folder: Path, url: str) -> None:
    server = url.partition("/graphs/")[0]
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(
        f"servers: {{here: {{url: '{server}'}}}}\n"
        "profiles: {work: {server: here, default_graph: people}}\n"
    )
    for words in (
        ("branch", "list", url),
        ("branch", "list", "--store", url),
        ("branch", "list", "--server", server, "--graph", "people"),
        ("branch", "list", "--server", "here", "--graph", "people@main"),
        ("--profile", "work", "branch", "list"),
    ):
        answer = invoke(*words, "--json=name", OMNIGRAPH_HOME=str(home))
        assert (answer.exit_code, json.loads(answer.stdout)) == (0, [{"name": "main"}]), words
    assert invoke("branch", "list", server).exit_code == 2
    refused = invoke("mutate", url, "-e", ALL, "--as", "me")
    assert (refused.exit_code, "token" in refused.stderr) == (2, True)


def test_maintenance_says_the_same_through_a_server(folder: Path, url: str) -> None:
    place = str(folder / "people.omni")
    for words in (
        ("recover", "G"),
        ("recover", "G", "--json"),
        ("repair", "G"),
        ("repair", "G", "--json"),
        ("cleanup", "G", "--keep", "1", "--json=dry_run,states"),
        ("cleanup", "G", "--older-than", "soon"),
        ("verify", "G", "--json=findings,branches,tables,rows"),
        ("embed", "G", "--json=commits,vectors"),
        ("profile", "query", "G", "-e", ALL, "--json=path,row_count"),
        ("profile", "query", "G", "-e", ALL.replace("Person", "Persn")),
    ):
        here, there = (
            invoke(*(graph if word == "G" else word for word in words)) for graph in (place, url)
        )
        assert (here.exit_code, here.stdout) == (there.exit_code, there.stdout), words
        assert here.stderr.replace(place, "G") == there.stderr.replace(url, "G"), words


def test_what_needs_the_store_says_so(url: str) -> None:
    for words in (
        ("clone", url, "copy.omni"),
        ("relocate", url),
        ("init", url, "--schema", "people.pg"),
    ):
        answer = invoke(*words)
        assert (answer.exit_code, "where a graph is stored" in answer.stderr) == (2, True), words


def test_changes_are_followed_through_a_server(url: str) -> None:
    branch = f"{url}@followed"
    add = 'query q() { insert Person { name: "Zed" } }'
    assert invoke("branch", "create", url, "followed").exit_code == 0
    assert invoke("mutate", branch, "-e", add).exit_code == 0
    words = ("changes", "follow", branch, "--start", "beginning", "--pages", "1", "--json")
    page = json.loads(invoke(*words).stdout)
    assert page["blocks"][0]["cause"]["actor_id"] == "anonymous"
    assert invoke("branch", "delete", url, "followed", "--yes").exit_code == 0


def test_a_server_that_is_not_there_is_tried_later(url: str) -> None:
    answer = invoke("branch", "list", "http://127.0.0.1:9/graphs/people")
    assert answer.exit_code == 75
    assert answer.stderr.startswith("error[unavailable]: ")
    assert invoke("branch", "list", url.replace("people", "nobody")).exit_code == 1


def test_requests_are_sent_as_they_are(url: str) -> None:
    server = url.partition("/graphs/")[0]
    health = invoke("api", "--server", server, "GET", "/healthz")
    assert json.loads(health.stdout)["status"] == "ok"
    told = invoke("api", url, "POST", "query", "-F", f"query={ALL}")
    assert json.loads(told.stdout)["columns"] == ["name"]
    assert invoke("api", url, "GET", "nothing").exit_code == 1
    assert invoke("api", "people.omni", "GET", "/healthz").exit_code == 2
    assert invoke("api", "--server", server, "GET", "branches").exit_code == 2


@pytest.mark.parametrize(
    "words", [("query", "URL", "-e", ALL), ("branch", "list", "URL"), ("log", "URL", "--json")]
)
def test_a_command_on_a_server_imports_no_engine(
    folder: Path, url: str, words: tuple[str, ...]
) -> None:
    code = (
        "import sys\n"
        f"sys.argv = ['omnigraph', *{tuple(url if w == 'URL' else w for w in words)!r}]\n"
        "from omnigraph.cli.entry import run\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"OMNIGRAPH_HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    loaded = set(answer.stderr.split())
    assert "omnigraph.client.transport" in loaded
    assert not {name.partition(".")[0] for name in loaded} & HEAVY
    assert not {"omnigraph.graph.facade", "omnigraph.lang.query.compile"} & loaded
    assert not LATE & loaded


def test_a_branch_is_renamed_through_a_server(folder: Path, url: str) -> None:
    assert invoke("branch", "create", url, "draft").exit_code == 0
    answer = invoke("branch", "rename", url, "draft", "final")
    assert (answer.exit_code, answer.stdout) == (0, "draft is final now\n"), answer.stderr
    assert invoke("branch", "delete", url, "final", "--yes").exit_code == 0


def test_conflicts_are_settled_by_a_file_through_a_server(folder: Path, url: str) -> None:
    born = 'query q($d: Date) { update Person set { born: $d } where name = "Yo" }'
    add = 'query q() { insert Person { name: "Yo" } }'
    said: dict[str, list[tuple[int, str]]] = {}
    file = folder / "choices.jsonl"
    for graph in (str(folder / "people.omni"), url):
        assert invoke("branch", "create", graph, "base").exit_code == 0
        assert invoke("mutate", f"{graph}@base", "-e", add).exit_code == 0
        assert invoke("branch", "create", graph, "side", "--from", "base").exit_code == 0
        for branch, day in (("base", "2001-01-01"), ("side", "2002-02-02")):
            done = invoke("mutate", f"{graph}@{branch}", "-e", born, "-p", f"d={day}")
            assert done.exit_code == 0, done.stderr
        merge = ("branch", "merge", graph, "side", "--into", "base")
        answers = [invoke(*merge, "--dry-run", "--resolutions", file)]
        answers.append(invoke(*merge, "--resolve", file))
        line = {**json.loads(file.read_text()), "choice": "theirs"}
        file.write_text(json.dumps(line) + "\n")
        answers.append(invoke(*merge, "--resolve", file, "--json=outcome,counts"))
        assert [each.exit_code for each in answers] == [1, 1, 0], answers
        said[graph] = [(each.exit_code, each.stdout + each.stderr) for each in answers]
        for branch in ("side", "base"):
            assert invoke("branch", "delete", graph, branch, "--yes").exit_code == 0
    here, there = said.values()
    assert here == there
