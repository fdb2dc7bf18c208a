"""The command line as a whole: help, versions, failures, exit codes, what it imports."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph import __version__
from omnigraph.cli.exits import Status, reporting, status_of
from omnigraph.cli.lazy import LazyGroup
from omnigraph.cli.main import GROUPS, Commands
from omnigraph.cli.parameters import Exit
from omnigraph.core.commits.records import FORMAT_VERSION
from omnigraph.errors import CLASS_OF, Code
from tests.cli.support import LATE, ROOT, invoke, process

COMMANDS = ("lint", "fmt", "explain", "schema", "version")


def test_version() -> None:
    expected = f"omnigraph {__version__} (internal schema version {FORMAT_VERSION})\n"
    for arguments in (("version",), ("--version",), ("-v",)):
        answer = invoke(*arguments)
        assert (answer.exit_code, answer.stdout) == (0, expected)


def test_python_runs_the_package_as_the_command() -> None:
    command = [sys.executable, "-m", "omnigraph", "lint"]
    answer = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert answer.returncode == 2
    assert answer.stderr.startswith(b"Usage: omnigraph lint ")


def test_version_as_json() -> None:
    assert json.loads(invoke("version", "--json").stdout) == {
        "name": "omnigraph",
        "version": __version__,
        "internal_schema_version": FORMAT_VERSION,
        "python_version": platform.python_version(),
    }


def test_help_groups_the_commands() -> None:
    answer = invoke("--help")
    assert answer.exit_code == 0
    groups = [line for line in answer.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    assert groups == [
        "Options:",
        "Schemas and queries:",
        "Graphs and data:",
        "Branches and history:",
        "Maintenance:",
        "Servers:",
        "About:",
    ]
    assert all(f"\n  {name} " in answer.stdout for name in COMMANDS)


@pytest.mark.parametrize("command", ["lint", "check", "fmt", "explain", "schema plan"])
def test_help_shows_examples(command: str) -> None:
    shown = invoke(*command.split(), "--help").stdout
    assert "Examples:\n    omnigraph" in shown


@pytest.mark.parametrize("group", [Commands, *(group for _, group, _, _ in GROUPS)])
def test_the_table_says_what_the_commands_say(group: type[LazyGroup]) -> None:
    for entry in group.entries.values():
        assert entry.load().help.splitlines()[0] == entry.summary


@pytest.mark.parametrize("command", ["load", "export", "embed", "optimize", "recover", "init"])
def test_help_of_a_command_on_graphs_imports_no_engine(command: str) -> None:
    loaded = imported_by_help(command)
    assert f"omnigraph.cli.commands.{command}" in loaded
    assert not {"lance", "numpy", "pyarrow", "omnigraph.graph", "omnigraph.lang"} & loaded


def imported_by_help(*names: str) -> set[str]:
    script = (
        "import sys\n"
        "from omnigraph.cli.main import app\n"
        f"try:\n    app([*{names!r}, '--help'], prog_name='omnigraph')\n"
        "except SystemExit as leaving:\n    assert leaving.code == 0\n"
        "print(*sorted(sys.modules), file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(answer.stderr.split())


def test_help_imports_nothing_heavy() -> None:
    loaded = imported_by_help()
    assert "omnigraph.cli.main" in loaded
    heavy = {
        "click",
        "duckdb",
        "lance",
        "numpy",
        "pyarrow",
        "pydantic",
        "pyspark",
        "rich",
        "typer",
        "yaml",
    }
    assert not heavy & {name.partition(".")[0] for name in loaded}
    assert not any(name.startswith("omnigraph.lang") for name in loaded)
    assert not any(name.startswith("omnigraph.cli.commands.") for name in loaded)


def test_a_plain_command_needs_no_rich(folder: Path) -> None:
    script = (
        "import sys\n"
        "from omnigraph.cli.main import app\n"
        "try:\n    app(['lint', '-s', 'people.pg'])\n"
        "except SystemExit:\n    pass\n"
        "assert 'omnigraph.lang' in sys.modules\n"
        "assert 'rich' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, check=True)


@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        ((), "Usage: omnigraph [OPTIONS] COMMAND"),
        (("lnt",), "Did you mean 'lint'?"),
        (("schema",), "plan"),
        (("schema", "pln"), "Did you mean 'plan'?"),
        (("lint",), "no graph is named"),
        (("branch", "create", "--store", "g"), "Missing argument 'NAME'"),
        (("lint", "--shema", "x"), "--schema"),
        (("fmt", "--lang", "sql", "-"), "sql"),
    ],
)
def test_misuse_ends_with_two_and_advice(
    tmp_path: Path, arguments: tuple[str, ...], advice: str
) -> None:
    answer = process(*arguments, cwd=tmp_path)
    assert (answer.returncode, answer.stdout) == (Status.USAGE, b"")
    assert advice in answer.stderr.decode()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("people.pq", "no such file: people.pq; did you mean people.p"),
        ("zzz", "no such file: zzz; check the spelling; paths start at the current folder"),
        ("no/where.pg", "no such file: no/where.pg; the folder no does not exist either"),
        (".", "error[input_invalid]: . is a folder; name a file in it"),
    ],
)
def test_paths_that_lead_nowhere(path: str, advice: str) -> None:
    answer = invoke("lint", "--schema", path)
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert advice in answer.stderr


def test_a_file_that_may_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    answer = invoke("lint", "-s", folder / "people.pg")
    assert answer.exit_code == 1
    assert answer.stderr.startswith("error[forbidden]: not allowed to read ")


@pytest.mark.usefixtures("folder")
def test_a_file_that_is_too_long_names_the_limit() -> None:
    answer = invoke("lint", "-s", "people.pg", OMNIGRAPH_SOURCE_BYTES_MAX="10")
    assert answer.exit_code == 1
    assert answer.stderr.startswith("error[limit_exceeded]: people.pg is longer than 10 bytes")
    assert "OMNIGRAPH_SOURCE_BYTES_MAX" in answer.stderr
    stdin = invoke("fmt", "--lang", "pg", "-", stdin=b" " * 11, OMNIGRAPH_SOURCE_BYTES_MAX="10")
    assert (stdin.exit_code, "<stdin> is longer" in stdin.stderr) == (1, True)


@pytest.mark.usefixtures("folder")
def test_a_wrong_setting_names_its_variable() -> None:
    answer = invoke("lint", "-s", "people.pg", OMNIGRAPH_SOURCE_BYTES_MAX="many")
    assert answer.exit_code == 1
    assert "OMNIGRAPH_SOURCE_BYTES_MAX: source_bytes_max must be a whole number" in answer.stderr


def test_json_holds_the_error_too() -> None:
    answer = invoke("lint", "-s", "nowhere.pg", "--json")
    assert answer.exit_code == 1
    report = json.loads(answer.stdout)
    assert report["status"] == "error"
    assert report["error"]["code"] == "file_not_found"
    assert report["error"]["details"] == {"path": "nowhere.pg"}
    assert answer.stderr.startswith("error[file_not_found]: ")


def test_lost_preconditions_and_passing_troubles_have_statuses_of_their_own() -> None:
    found = {code: status_of(family(code, "x")) for code, family in CLASS_OF.items()}
    assert {code for code, status in found.items() if status == Status.PRECONDITION} == {
        Code.PRECONDITION_FAILED
    }
    assert {code for code, status in found.items() if status == Status.TRY_LATER} == {
        Code.BUSY,
        Code.UNAVAILABLE,
        Code.HEAD_CONTENTION,
        Code.WRITER_ACTIVE,
        Code.INIT_IN_PROGRESS,
    }
    assert set(found.values()) == {Status.FAILED, Status.PRECONDITION, Status.TRY_LATER}
    assert (Status.PRECONDITION, Status.TRY_LATER) == (4, 75)


@pytest.mark.parametrize(
    "arguments",
    [("lint", "--json"), ("nonsense", "--json=a"), ("query", "--json", "--what"), ("branch", "x")],
)
def test_a_wrong_call_is_told_as_json_where_results_would_be(arguments: tuple[str, ...]) -> None:
    answer = invoke(*arguments)
    assert answer.exit_code == Status.USAGE
    assert answer.stderr.startswith("Usage: omnigraph")
    if arguments == ("branch", "x"):
        assert answer.stdout == ""
        return
    error = json.loads(answer.stdout)["error"]
    assert (error["code"], error["details"]) == ("input_invalid", {"usage": True})
    assert error["message"] in answer.stderr.replace("\n", " ")


def test_a_bug_is_told_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        with reporting(as_json=True):
            raise ZeroDivisionError("oops")

    monkeypatch.delenv("OMNIGRAPH_DEBUG", raising=False)
    with pytest.raises(Exit):
        fail()
    shown = capsys.readouterr()
    assert json.loads(shown.out)["error"]["code"] == Code.INTERNAL
    assert shown.err == (
        "error[internal]: unexpected ZeroDivisionError: oops; OMNIGRAPH_DEBUG=1 shows where\n"
    )
    monkeypatch.setenv("OMNIGRAPH_DEBUG", "1")
    with pytest.raises(Exit):
        fail()
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):")


def test_debugging_shows_the_traceback(folder: Path) -> None:
    quiet = process("lint", "-s", "x.pg", cwd=folder)
    loud = process("lint", "-s", "x.pg", cwd=folder, OMNIGRAPH_DEBUG="1")
    assert (quiet.returncode, loud.returncode) == (1, 1)
    assert b"Traceback" not in quiet.stderr
    assert b"Traceback" in loud.stderr


def test_a_reader_that_leaves_early_is_no_failure_to_talk_about(folder: Path) -> None:
    command = f"{Path(sys.executable).with_name('omnigraph')} --help | true"
    answer = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, capture_output=True, check=True, timeout=120
    )
    assert answer.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("arguments", ["lint -s people.pg", "lint -s x.pg --json", "--help"])
def test_output_that_cannot_be_written_is_an_ordinary_error(folder: Path, arguments: str) -> None:
    command = f"{Path(sys.executable).with_name('omnigraph')} {arguments} > /dev/full"
    answer = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, capture_output=True, check=False, timeout=120
    )
    assert answer.returncode == Status.FAILED
    said = answer.stderr.decode().splitlines()
    assert said[-1] == "error[unavailable]: cannot write the output: No space left on device"
    assert len(said) == (2 if "x.pg" in arguments else 1)


def test_a_write_that_fails_inside_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit) as caught, reporting(as_json=True):
        raise OSError(28, "No space left on device")
    assert caught.value.status == Status.FAILED
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == (
        "",
        "error[unavailable]: cannot write the output: No space left on device\n",
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", "-s", "-", "-q", "-"),
        ("lint", "-s", "people.pg", "-q", "-", "-q", "-"),
        ("explain", "-s", "-", "-q", "-"),
        ("schema", "plan", "-s", "-", "--against", "-"),
    ],
)
def test_standard_input_is_read_once(arguments: tuple[str, ...]) -> None:
    answer = invoke(*arguments)
    assert answer.exit_code == Status.USAGE
    assert "only once" in answer.stderr


def test_a_stream_that_knows_few_characters_gets_the_report(folder: Path) -> None:
    (folder / "people.pg").write_text("node Persön {}", encoding="utf-8")
    answer = process("lint", "-s", "people.pg", cwd=folder, PYTHONIOENCODING="ascii")
    assert answer.returncode == 1
    assert b"Pers\\xf6n" in answer.stdout
    (folder / "pröblem.pg").write_text("node", encoding="utf-8")
    answer = process("lint", "-s", "pröblem.pg", "--json", cwd=folder, PYTHONIOENCODING="ascii")
    assert json.loads(answer.stdout)["schema_source"]["path"] == "pröblem.pg"


@pytest.mark.parametrize("words", [("--help",), ("query", "--help"), ("version",)])
def test_help_waits_for_nothing_that_it_does_not_show(words: tuple[str, ...]) -> None:
    script = (
        "import sys\n"
        f"sys.argv = ['omnigraph', *{words!r}]\n"
        "from omnigraph.cli.entry import run\n"
        "try:\n    run()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not set(answer.stderr.split()) & {*LATE, "hashlib", "http.client", "ssl"}


def test_a_query_of_a_folder_needs_no_pandas_and_leaves_it_usable(folder: Path) -> None:
    invoke("init", "--schema", "people.pg", "people.omni")
    script = (
        "import sys\n"
        "from omnigraph.cli.entry import run\n"
        "sys.argv = ['omnigraph', 'query', 'people.omni', '-q', 'people.gq', '-p', 'name=Ada']\n"
        "try:\n    run()\n"
        "except SystemExit as leaving:\n    assert leaving.code == 0\n"
        "import pyarrow as pa\n"
        "assert not {'pandas', 'pyspark', 'duckdb'} & set(sys.modules)\n"
        "assert list(pa.table({'a': [1]}).to_pandas()['a']) == [1]\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, check=True)
