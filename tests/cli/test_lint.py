"""`omnigraph lint`: what it prints, as text and as JSON, and how it ends."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.cli.support import QUERY, SCHEMA, invoke

WRONG = QUERY.replace("$friend.name", "$friend.naem")
REPORT_KEYS = {
    "status",
    "schema_source",
    "query_path",
    "queries_processed",
    "errors",
    "warnings",
    "infos",
    "results",
    "findings",
}


def lint_json(*arguments: str) -> tuple[int, Any]:
    answer = invoke("lint", *arguments, "--json")
    assert answer.stderr == ""
    return answer.exit_code, json.loads(answer.stdout)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["lint", "check"])
def test_what_fits_is_counted(name: str) -> None:
    answer = invoke(name, "--schema", "people.pg", "--query", "people.gq")
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout == "1 query, 0 errors, 0 warnings\n"


@pytest.mark.usefixtures("folder")
def test_a_schema_alone() -> None:
    answer = invoke("lint", "--schema", "people.pg")
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout == "1 node type, 1 edge type, 0 errors, 0 warnings\n"


@pytest.mark.usefixtures("folder")
def test_standard_input() -> None:
    answer = invoke("lint", "-s", "people.pg", "-q", "-", stdin=WRONG.encode())
    assert answer.exit_code == 1
    assert answer.stdout.startswith("<stdin>:6:20: error[T6]: ")
    answer = invoke("lint", "-s", "-", "-q", "people.gq", "--json", stdin=SCHEMA.encode())
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["schema_source"]["path"] == "<stdin>"


def test_mistakes_are_shown_with_place_line_caret_and_hint(folder: Path) -> None:
    (folder / "people.gq").write_text(WRONG, encoding="utf-8")
    answer = invoke("lint", "-s", "people.pg", "-q", "people.gq")
    assert (answer.exit_code, answer.stderr) == (1, "")
    assert answer.stdout == dedent("""\
        people.gq:6:20: error[T6]: node type `Person` has no property `naem`
            6 |   return { $friend.naem as name }
              |                    ^^^^
              = hint: did you mean `name`?

        1 query, 1 error, 0 warnings
        """)


def test_warnings_are_allowed(folder: Path) -> None:
    (folder / "people.gq").write_text(QUERY.replace(")", ", $x: I32)", 1), encoding="utf-8")
    answer = invoke("lint", "-s", "people.pg", "-q", "people.gq")
    assert answer.exit_code == 0
    assert "warning[L203]" in answer.stdout
    assert answer.stdout.endswith("\n1 query, 0 errors, 1 warning\n")


def test_several_files_are_told_apart(folder: Path) -> None:
    (folder / "other.gq").write_text(WRONG, encoding="utf-8")
    files = ("-q", "people.gq", "-q", "other.gq")
    answer = invoke("lint", "-s", "people.pg", *files)
    assert answer.exit_code == 1
    assert answer.stdout.startswith("other.gq:6:20: error[T6]")
    assert answer.stdout.endswith("2 queries, 1 error, 0 warnings\n")
    status, report = lint_json("-s", "people.pg", *files)
    assert (status, report["status"], report["errors"]) == (1, "error", 1)
    assert report["queries_processed"] == 2
    assert [item["status"] for item in report["reports"]] == ["ok", "error"]
    assert all(set(item) == REPORT_KEYS for item in report["reports"])


def test_a_broken_schema_is_the_report(folder: Path) -> None:
    (folder / "people.pg").write_text("node Person { name: Strin }", encoding="utf-8")
    answer = invoke("lint", "-s", "people.pg", "-q", "people.gq")
    assert (answer.exit_code, answer.stderr) == (1, "")
    assert "people.pg:1:21: error[S201]" in answer.stdout
    assert answer.stdout.endswith("the schema does not compile, 1 error, 0 warnings\n")
    status, report = lint_json("-s", "people.pg", "-q", "people.gq")
    assert status == 1
    assert set(report) == REPORT_KEYS
    assert (report["status"], report["query_path"], report["results"]) == ("error", None, [])
    assert report["findings"][0]["code"] == "S201"


def test_warnings_about_the_schema_are_part_of_the_report(folder: Path) -> None:
    text = (folder / "people.pg").read_text(encoding="utf-8")
    (folder / "people.pg").write_text(text.replace("Date?", "Date? @indx"), encoding="utf-8")
    status, report = lint_json("-s", "people.pg", "-q", "people.gq")
    assert (status, report["warnings"]) == (0, 1)
    assert [(item["code"], item["file"]) for item in report["findings"]] == [("S901", "people.pg")]


@pytest.mark.usefixtures("folder")
def test_the_json_of_one_file() -> None:
    status, report = lint_json("-s", "people.pg", "-q", "people.gq")
    assert status == 0
    assert set(report) == REPORT_KEYS
    assert report["schema_source"] == {"kind": "file", "path": "people.pg"}
    assert (report["query_path"], report["status"]) == ("people.gq", "ok")
    [result] = report["results"]
    assert (result["name"], result["kind"], result["status"]) == ("friends", "read", "ok")
    assert result["operation"]["result"] == [{"name": "name", "kind": "string", "nullable": False}]


@pytest.mark.usefixtures("folder")
def test_the_json_of_a_schema_alone() -> None:
    status, report = lint_json("-s", "people.pg")
    assert (status, report["status"], report["query_path"]) == (0, "ok", None)
    assert set(report) == REPORT_KEYS


def test_long_reports_are_cut_and_say_so(folder: Path) -> None:
    wrong = (WRONG.replace("friends", f"friends{number}") for number in range(5))
    (folder / "people.gq").write_text("\n".join(wrong), encoding="utf-8")
    arguments = ("lint", "-s", "people.pg", "-q", "people.gq")
    answer = invoke(*arguments, OMNIGRAPH_DIAGNOSTICS_MAX="2")
    assert answer.stdout.count("error[T6]") == 2
    assert answer.stdout.endswith("\n\n... and 3 more\n\n5 queries, 5 errors, 0 warnings\n")
    assert invoke(*arguments).stdout.count("error[T6]") == 5


def test_more_mistakes_than_the_compiler_keeps_are_counted(folder: Path) -> None:
    wrong = (WRONG.replace("friends", f"friends{number}") for number in range(130))
    (folder / "people.gq").write_text("\n".join(wrong), encoding="utf-8")
    answer = invoke("lint", "-s", "people.pg", "-q", "people.gq")
    assert answer.stdout.endswith("\n... and 30 more\n\n130 queries, 130 errors, 0 warnings\n")


def test_the_schema_of_a_graph_says_whose_it_is(folder: Path) -> None:
    assert invoke("init", "people.omni", "--schema", "people.pg").exit_code == 0
    status, found = lint_json("people.omni", "--query", "people.gq")
    assert (status, found["schema_source"]) == (0, {"kind": "graph", "path": "people.omni"})
    _, found = lint_json("--schema", "people.pg")
    assert found["schema_source"] == {"kind": "file", "path": "people.pg"}
