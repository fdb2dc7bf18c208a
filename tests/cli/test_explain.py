"""`omnigraph explain`."""

import json
from textwrap import dedent

import pytest

from tests.cli.support import SCHEMA, invoke

pytestmark = pytest.mark.usefixtures("folder")

PLAN = dedent("""\
    read friends($name: String)
      scan     $me: Person where $me.name = $name
      expand   $me -[Knows]-> $friend: Person
      return   name: String = $friend.name
      ties     $me, $friend
      need     $me: Person name
      need     $friend: Person name
    """)
ALL = "query everyone() { match { $p: Person } return { $p.name as name } }"


@pytest.mark.parametrize("name", [(), ("friends",)])
def test_the_plan_of_a_file(name: tuple[str, ...]) -> None:
    answer = invoke("explain", "-s", "people.pg", "-q", "people.gq", *name)
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, PLAN, "")


def test_the_plans_of_a_text_are_set_apart() -> None:
    answer = invoke("explain", "-s", "people.pg", "-e", ALL + ALL.replace("everyone", "again"))
    assert answer.exit_code == 0
    first, second = answer.stdout.split("\n\n")
    assert first.startswith("read everyone()\n  scan ")
    assert second.startswith("read again()\n  scan ")


def test_the_json() -> None:
    answer = invoke("explain", "-s", "people.pg", "-q", "people.gq", "--json")
    assert answer.stderr == ""
    [query] = json.loads(answer.stdout)["queries"]
    assert set(query) == {"name", "kind", "operation", "plan", "structure"}
    assert (query["name"], query["kind"]) == ("friends", "read")
    assert query["plan"] == PLAN.splitlines()
    assert query["operation"]["params"][0]["name"] == "name"
    tags = [step["tag"] for step in query["structure"]["pipeline"]]
    assert tags == ["scan", "expand"]


def test_queries_from_standard_input() -> None:
    answer = invoke("explain", "-s", "people.pg", "-q", "-", stdin=ALL.encode())
    assert (answer.exit_code, answer.stderr) == (0, "")
    assert answer.stdout.startswith("read everyone()\n")
    wrong = ALL.replace("Person", "Persn").encode()
    answer = invoke("explain", "-s", "people.pg", "-q", "-", stdin=wrong)
    assert (answer.exit_code, answer.stderr[:14]) == (1, "<stdin>:1:32: ")


def test_a_schema_from_standard_input() -> None:
    answer = invoke("explain", "-s", "-", "-q", "people.gq", stdin=SCHEMA.encode())
    assert (answer.exit_code, answer.stdout) == (0, PLAN)


def test_an_unknown_name_suggests() -> None:
    answer = invoke("explain", "-s", "people.pg", "-q", "people.gq", "freinds")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr == (
        "error[query_invalid]: there is no query named `freinds`; did you mean `friends`?\n"
    )


def test_mistakes_are_diagnosed() -> None:
    answer = invoke("explain", "-s", "people.pg", "-e", ALL.replace("Person", "Persn"))
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr.startswith("<-e>:1:32: error[T1]: unknown node type `Persn`\n")


def test_mistakes_as_json() -> None:
    wrong = ALL.replace("Person", "Persn")
    answer = invoke("explain", "-s", "people.pg", "-e", wrong, "--json")
    assert answer.exit_code == 1
    report = json.loads(answer.stdout)
    assert (report["status"], report["error"]["code"]) == ("error", "query_invalid")
    assert report["error"]["details"]["diagnostics"][0]["code"] == "T1"


def test_an_empty_text() -> None:
    answer = invoke("explain", "-s", "people.pg", "-e", " ")
    assert (answer.exit_code, "there is no query" in answer.stderr) == (1, True)


@pytest.mark.parametrize("arguments", [(), ("-q", "people.gq", "-e", ALL)])
def test_either_a_file_or_a_text(arguments: tuple[str, ...]) -> None:
    answer = invoke("explain", "-s", "people.pg", *arguments)
    assert answer.exit_code == 2
    assert "either as a file" in answer.stderr


def test_a_mistake_in_another_query_does_not_matter() -> None:
    text = f"{ALL}\nquery wrong() {{ match {{ $p: Persn }} return {{ $p }} }}"
    name = ALL.split()[1].partition("(")[0]
    assert invoke("explain", "-s", "people.pg", "-e", text, name).exit_code == 0
    for words in ((), ("wrong",), ("wrng",)):
        assert "T1" in invoke("explain", "-s", "people.pg", "-e", text, *words).stderr
