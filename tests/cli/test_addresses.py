"""Addresses of graphs: from arguments, options, profiles and defaults, by one rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.cli.addresses import (
    AddressUnusable,
    GraphAddress,
    GraphWords,
    is_graph_argument,
    resolve,
    split_branch,
)
from omnigraph.cli.config import Config, Place, parse_config
from omnigraph.cli.credentials import forget, keep, stored, token_for
from omnigraph.errors import Forbidden, InvalidInput
from tests.cli.support import invoke

CONFIG = """
operator: {actor: ada}
servers:
  prod: {url: https://graphs.example.com/}
profiles:
  work: {server: prod, default_graph: people}
  notes: {store: notes.omni@draft}
defaults: {store: people.omni, output: csv}
"""


def config(text: str = CONFIG) -> Config:
    return parse_config(text, Path("config.yaml"))


def found(variable: str | None = None, /, text: str = CONFIG, **given: str) -> str:
    return str(resolve(GraphWords(**given), config(text), variable))


@pytest.mark.parametrize(
    ("text", "place", "branch"),
    [
        ("people.omni", "people.omni", None),
        ("people.omni@main", "people.omni", "main"),
        ("people.omni@agent/42", "people.omni", "agent/42"),
        ("s3://bucket/people@draft", "s3://bucket/people", "draft"),
        ("https://me:secret@host/graphs/people", "https://me:secret@host/graphs/people", None),
        ("https://host/graphs/people@agent/42", "https://host/graphs/people", "agent/42"),
        ("https://host", "https://host", None),
        ("@draft", "@draft", None),
    ],
)
def test_a_branch_stands_behind_the_last_at(text: str, place: str, branch: str | None) -> None:
    assert split_branch(text) == (place, branch)


def test_a_folder_may_have_the_sign_in_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a@b").mkdir()
    assert split_branch("a@b") == ("a@b", None)
    with pytest.raises(AddressUnusable, match="ends with @"):
        split_branch("people.omni@")


def test_the_nearest_word_wins() -> None:
    assert found() == "people.omni"
    assert found("work") == "https://graphs.example.com/graphs/people"
    assert found("work", profile="notes") == "notes.omni@draft"
    assert found("work", argument="x.omni@b") == "x.omni@b"
    assert found("work", store="x.omni") == "x.omni"
    assert found(server="prod", graph="other@b") == "https://graphs.example.com/graphs/other@b"
    assert found("work", graph="other") == "https://graphs.example.com/graphs/other"
    assert found(argument="https://h/graphs/g@b") == "https://h/graphs/g@b"
    assert found(argument="https://h", graph="g") == "https://h/graphs/g"


def test_the_server_of_an_address_keeps_its_name() -> None:
    by_name = resolve(GraphWords(server="prod", graph="g"), config(), None)
    by_url = resolve(GraphWords(server="https://graphs.example.com", graph="g"), config(), None)
    assert (by_name.server, by_url.server, by_name.is_remote) == ("prod", "prod", True)


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"argument": "a.omni", "store": "b.omni"}, "by an argument and by --store"),
        ({"store": "a.omni", "server": "prod"}, "by --store and by --server"),
        ({"store": "a.omni", "graph": "people"}, "goes with --server"),
        ({"graph": "people"}, "name the server"),
    ],
)
def test_words_that_contradict_one_another(given: dict[str, str], advice: str) -> None:
    with pytest.raises(AddressUnusable, match=advice):
        found(**given)


def test_names_that_are_not_there_suggest_those_that_are() -> None:
    with pytest.raises(AddressUnusable, match="no graph is named"):
        found(text="")
    with pytest.raises(InvalidInput, match="did you mean work"):
        found("wrok")
    with pytest.raises(InvalidInput, match="there are: prod"):
        found(server="nowhere")


@pytest.mark.parametrize(
    ("words", "has_option", "has_default", "expected"),
    [
        (["people.omni"], False, False, True),
        (["people.omni", "friends"], False, True, True),
        (["friends"], False, True, False),
        (["friends"], True, False, False),
        (["friends"], False, False, True),
        (["./people"], False, True, True),
        (["a", "b"], True, False, True),
        ([], False, False, False),
    ],
)
def test_the_first_argument_may_be_the_graph(
    words: list[str], has_option: bool, has_default: bool, expected: bool
) -> None:
    assert (
        is_graph_argument(words, 0, 1, has_option=has_option, has_default=has_default) is expected
    )


# -- the configuration -----------------------------------------------------------------------------


def test_a_configuration_says_where_graphs_are() -> None:
    read = config()
    assert (read.actor, read.output) == ("ada", "csv")
    assert read.servers == {"prod": "https://graphs.example.com"}
    assert read.profiles["work"] == Place(
        server="prod", graph="people", origin="profiles.work of config.yaml"
    )
    assert config("").defaults == Place(origin="defaults of config.yaml")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("- a", "holds names and values"),
        ("servers: {prod: {}}", "servers.prod.url is missing"),
        ("profiles: {p: {store: a, server: b}}", "takes one of them"),
        ("profiles: {p: {}}", "neither a store nor a server"),
        ("defaults: {output: xml}", "one of table, kv, csv, jsonl, json"),
        ("operator: {actor: 3}", "operator.actor is a text"),
        ("a: [", "is not YAML"),
    ],
)
def test_a_wrong_configuration_names_the_key(text: str, advice: str) -> None:
    with pytest.raises(InvalidInput, match=advice):
        config(text)


def test_a_key_that_means_nothing_is_a_warning() -> None:
    assert config("default: {store: a}").warnings == (
        "config.yaml: default means nothing; did you mean defaults?",
    )


# -- tokens ----------------------------------------------------------------------------------------


def test_a_token_is_for_its_own_server_and_for_its_owner_alone(tmp_path: Path) -> None:
    prod = GraphAddress(place="https://a", server="prod")
    other = GraphAddress(place="https://b")
    path = keep(tmp_path, "prod", "og_secret-secret")
    assert path.stat().st_mode & 0o777 == 0o600
    token = token_for(prod, tmp_path, {})
    assert token is not None
    assert (token.text, "secret" in repr(token)) == ("og_secret-secret", False)
    assert token_for(other, tmp_path, {}) is None
    variables = {"OMNIGRAPH_TOKEN_PROD": "first", "OMNIGRAPH_BEARER_TOKEN": "last"}
    assert [t.text for t in (token_for(p, tmp_path, variables) for p in (prod, other)) if t] == [
        "first",
        "last",
    ]
    keep(tmp_path, "https://b", "og_b")
    assert stored(tmp_path) == {"prod": "og_secret-secret", "https://b": "og_b"}
    assert forget(tmp_path, "prod")
    assert not forget(tmp_path, "prod")
    path.chmod(0o644)
    with pytest.raises(Forbidden, match="chmod 600"):
        token_for(other, tmp_path, {})


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "\u00e4"])
def test_what_is_no_token_is_not_kept(tmp_path: Path, token: str) -> None:
    with pytest.raises(InvalidInput):
        keep(tmp_path, "prod", token)


# -- the commands ----------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> str:
    (tmp_path / "config.yaml").write_text(CONFIG)
    return str(tmp_path)


def test_config_explain_says_what_chose_the_graph(home: str) -> None:
    told = json.loads(invoke("config", "explain", "--json", OMNIGRAPH_HOME=home).stdout)
    assert (told["graph"], told["actor"], told["branch"]) == ("people.omni", "ada", "main")
    assert told["chosen_by"] == f"defaults of {home}/config.yaml"
    words = ("config", "explain", "--profile", "notes", "--as", "bo")
    shown = invoke(*words, OMNIGRAPH_HOME=home).stdout
    assert "graph:       notes.omni\n" in shown
    assert "branch:      draft\n" in shown
    assert "actor:       bo\n" in shown
    outer = invoke("--profile", "notes", "config", "explain", OMNIGRAPH_HOME=home)
    assert "notes.omni" in outer.stdout


def test_a_wrong_configuration_is_an_error_also_before_a_command_begins(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("profiles: {work: {store: a, server: b}}")
    answer = invoke("query", "friends", "--json", OMNIGRAPH_HOME=str(tmp_path))
    assert answer.exit_code == 1
    assert json.loads(answer.stdout)["error"]["code"] == "settings_invalid"
    assert "profiles.work has a store and a server" in answer.stderr


def test_profiles_are_listed_and_shown(home: str) -> None:
    listed = invoke("profile", "list", "-f", "table", OMNIGRAPH_HOME=home).stdout.splitlines()
    assert listed[0].split() == ["profile", "store", "server", "graph", "active"]
    assert listed[1].split() == ["work", "-", "prod", "people", "false"]
    words = ("profile", "show", "--json")
    told = json.loads(invoke(*words, OMNIGRAPH_HOME=home, OMNIGRAPH_PROFILE="work").stdout)
    assert (told["active"], told["address"]) == (True, "https://graphs.example.com/graphs/people")
    assert invoke("profile", "show", OMNIGRAPH_HOME=home).exit_code == 2


def test_tokens_are_kept_shown_in_part_and_forgotten(home: str) -> None:
    said = invoke("login", "prod", stdin=b"og_0123456789abcdef\n", OMNIGRAPH_HOME=home)
    assert (said.exit_code, "0123456789" in said.output) == (0, False)
    (row,) = json.loads(invoke("auth", "status", "--json", OMNIGRAPH_HOME=home).stdout)
    assert (row["server"], row["token"]) == ("prod", "og_012…")
    assert row["origin"].endswith("/credentials")
    assert "is forgotten" in invoke("logout", "prod", OMNIGRAPH_HOME=home).stdout
    assert "was not kept" in invoke("logout", "prod", OMNIGRAPH_HOME=home).stdout


def test_destructive_work_on_shared_graphs_needs_a_word() -> None:
    for words in (
        ("branch", "delete", "s3://bucket/people", "draft"),
        ("load", "s3://bucket/people", "-d", "x.jsonl", "--mode", "overwrite", "--json"),
        ("reset", "https://host/graphs/people@draft", "draft~1"),
    ):
        answer = invoke(*words)
        assert answer.exit_code == 2
        assert "add --yes" in answer.stderr


def test_a_server_that_is_named_by_its_url_gets_the_token_of_its_name(tmp_path: Path) -> None:
    keep(tmp_path, "prod", "og_abcdefghijklmnop")
    words = GraphWords(argument="https://graphs.example.com/graphs/people@draft")
    address = resolve(words, config(), None)
    assert (address.server, str(address)) == ("prod", words.argument)
    assert token_for(address, tmp_path, {}) is not None
