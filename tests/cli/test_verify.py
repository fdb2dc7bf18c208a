"""`verify` and `repair`: what is found in graphs that are sound, damaged, or adrift."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.core.failpoints import Fp
from omnigraph.errors import Corrupt, InvalidInput, NotFound, RecoveryRequired
from omnigraph.runtime.failpoints import Refuse, armed
from tests.cli.support import SCHEMA, invoke

ADD = 'query q() { insert Person { name: "Ada" }  insert Person { name: "Bo" } }'
KNOW = 'query q() { insert Knows { from: "Ada", to: "Bo" } }'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.pg").write_text(SCHEMA)
    assert invoke("init", "--schema", "people.pg", "people.omni").exit_code == 0
    with og.open("people.omni") as graph:
        graph.mutate(ADD)
        graph.mutate(KNOW)
        graph.branches.create("dev")
        graph.mutate('query q() { insert Person { name: "Cy" } }', branch="dev")
    return tmp_path


def table(kind: str) -> Path:
    """The folder of the table of persons, or of who knows whom."""
    with og.open("people.omni", "r") as graph:
        key = {"nodes": "node:Person", "edges": "edge:Knows"}[kind]
        return Path("people.omni", graph.snapshot().pinned.pin(key).path)


def aspects(depth: str) -> set[tuple[str, str]]:
    with og.open("people.omni", "r") as graph:
        return {(each.severity, each.aspect) for each in graph.verify(depth).findings}


def test_a_sound_graph_is_sound_at_every_depth(here: Path) -> None:
    for depth in ("metadata", "files", "rows"):
        told = json.loads(invoke("verify", "people.omni", "--depth", depth, "--json").stdout)
        assert (told["sound"], told["findings"], told["depth"]) == (True, [], depth)
        assert (told["branches"], told["tables"]) == (2, 2)
        assert (told["files"] > 0) is (depth != "metadata")
        assert (told["rows"] == 6) is (depth == "rows")
    answer = invoke("verify", "people.omni")
    assert (answer.exit_code, answer.stdout.splitlines()[-1].endswith("sound")) == (0, True)


def test_there_are_three_depths(here: Path) -> None:
    with og.open("people.omni") as graph, pytest.raises(InvalidInput, match="metadata, files"):
        graph.verify("everything")


def test_a_file_that_is_missing_or_changed_is_found(here: Path) -> None:
    first, *_ = sorted((table("nodes") / "data").glob("*.lance"))
    content = bytearray(first.read_bytes())
    content[40] ^= 1
    first.write_bytes(bytes(content))
    assert aspects("metadata") == set()
    assert ("error", "file") in aspects("files")
    first.unlink()
    answer = invoke("verify", "people.omni", "--depth", "files")
    assert answer.exit_code == 1
    assert "is missing" in answer.stdout
    assert "not sound" in answer.stdout
    assert ("error", "rows") in aspects("rows")


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 0xFF]) + content[half + 1 :]


def damage_versions(folder: Path, harm: Callable[[bytes], bytes]) -> Iterator[Path]:
    """The newest and the oldest version file of a folder, each damaged for a while."""
    files = sorted((folder / "_versions").glob("*.manifest"))
    for file in (files[0], files[-1]):
        whole = file.read_bytes()
        file.write_bytes(harm(whole))
        yield file
        file.write_bytes(whole)


@pytest.mark.parametrize("harm", [cut, flipped])
def test_a_damaged_version_is_told_with_its_file_and_not_in_the_words_of_the_engine(
    here: Path, harm: Callable[[bytes], bytes]
) -> None:
    persons, knows = table("nodes"), table("edges")
    fork = next(Path("people.omni/__manifest/tree").iterdir())
    for folder in (persons, knows, Path("people.omni/__manifest"), fork):
        for file in damage_versions(folder, harm):
            answer = invoke("verify", "people.omni", "--depth", "files", "--json")
            text = answer.stdout + answer.stderr
            assert answer.exit_code == 1, file
            assert str(file.relative_to("people.omni")) in text
            for word in ("LanceError", "Protobuf", "External", ".rs:", "Encountered"):
                assert word not in text, file
    assert invoke("verify", "people.omni", "--depth", "files").exit_code == 0


def test_a_damaged_record_of_a_fork_is_one_finding_of_many(here: Path) -> None:
    for folder in (table("nodes"), Path("people.omni/__manifest")):
        (record,) = (folder / "_refs/branches").glob("*.json")
        whole = record.read_bytes()
        record.write_bytes(flipped(whole))
        copy = Path("people.omni/_schema.pg")
        text = copy.read_text()
        copy.write_text(text + "// edited")
        answer = invoke("verify", "people.omni", "--depth", "files", "--json")
        places = {each["place"] for each in json.loads(answer.stdout)["findings"]}
        assert answer.exit_code == 1
        assert {str(record.relative_to("people.omni")), "_schema.pg"} <= places
        record.write_bytes(whole)
        copy.write_text(text)


def test_a_version_that_is_missing_is_found(here: Path) -> None:
    folder = table("edges") / "_versions"
    newest = min(folder.glob("*.manifest"))
    newest.unlink()
    assert ("error", "pin") in aspects("metadata")
    with og.open("people.omni", "r") as graph:
        [found] = graph.verify().findings
        assert (found.place, "Dataset at path" in found.text) == (
            newest.relative_to("people.omni").as_posix(),
            False,
        )
        with pytest.raises(Corrupt, match="restore it from a backup") as caught:
            graph.query("query q() { match { $a: Person  $a knows $b } return { $b.name } }")
        assert caught.value.details["path"] == found.place


def test_a_copy_of_the_schema_that_was_edited_is_told_and_does_no_harm(here: Path) -> None:
    Path("people.omni", "_schema.pg").write_text("node Town { name: String @key }")
    with og.open("people.omni", "r") as graph:
        [found] = graph.verify().findings
        assert (found.severity, found.aspect, found.place) == ("warning", "schema", "_schema.pg")
        assert graph.verify().is_sound


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_newest_version_of_the_manifest_that_is_missing_is_named(here: Path, branch: str) -> None:
    place = Path("people.omni", "__manifest", *(() if branch == "main" else ("tree", branch)))
    newest = min((place / "_versions").glob("*.manifest"))
    newest.unlink()
    answer = invoke("verify", "people.omni")
    assert answer.exit_code == 1
    assert newest.relative_to("people.omni").as_posix() in answer.stdout.replace("\n", "")
    assert f"the newest version of branch '{branch}' is missing" in answer.stdout


def test_what_a_lost_version_of_the_manifest_published_is_not_taken_back(here: Path) -> None:
    """The tables are right: neither recovery nor a write may undo what was acknowledged."""
    insert = 'query q() { insert Person { name: "Zoe" } }'
    with og.open("people.omni") as graph:
        graph.mutate(insert)
    newest = min(Path("people.omni", "__manifest", "_versions").glob("*.manifest"))
    content = newest.read_bytes()
    newest.unlink()
    for command in ("verify", "recover", "repair"):
        answer = invoke(command, "people.omni")
        assert "is missing, so the branch shows" in answer.stdout.replace("\n", " "), command
        assert "force" not in answer.stdout, command
        assert "rolled back" not in answer.stdout, command
    with og.open("people.omni") as graph, pytest.raises(Corrupt, match="restore it from a backup"):
        graph.mutate(insert.replace("Zoe", "Ada"))
    newest.write_bytes(content)
    with og.open("people.omni", "r") as graph:
        assert graph.verify().is_sound
        zoe = graph.query('query q() { match { $p: Person { name: "Zoe" } } return { $p.name } }')
        assert len(zoe) == 1


def test_repair_tells_of_files_that_it_cannot_bring_back(here: Path) -> None:
    lost = min((table("nodes") / "data").glob("*.lance"))
    lost.unlink()
    answer = invoke("repair", "people.omni")
    assert answer.exit_code == 1
    assert "cannot be repaired (file)" in answer.stdout
    assert "nothing to repair" not in answer.stdout
    with og.open("people.omni") as graph:
        [flaw] = graph.repair(dry_run=True).irreparable
        assert flaw.place == lost.relative_to("people.omni").as_posix()


def test_a_write_that_waits_is_told_and_repair_is_refused(here: Path) -> None:
    with og.open("people.omni") as graph:
        with armed({Fp.PUBLISH: Refuse()}), pytest.raises(RecoveryRequired):
            graph.mutate('query q() { insert Person { name: "Di" } }')
        assert [each.aspect for each in graph.verify().findings] == ["intent"]
        assert graph.verify().is_sound
        with pytest.raises(RecoveryRequired, match="omnigraph recover"):
            graph.repair(dry_run=True)
        assert graph.repair().tables == ()  # it recovers first
        assert graph.verify("rows").findings == ()


def test_maintenance_of_another_tool_is_healed(here: Path) -> None:
    lance.dataset(str(table("nodes"))).create_scalar_index("name", "BTREE", name="other")
    assert aspects("metadata") == {("error", "drift")}
    told = invoke("repair", "people.omni")
    assert told.exit_code == 1
    assert "preview: node:Person on main" in told.stdout
    done = json.loads(invoke("repair", "people.omni", "--yes", "--json").stdout)
    (one,) = done["tables"]
    assert (one["verdict"], one["action"], done["settled"]) == ("maintenance", "healed", True)
    assert aspects("rows") == set()
    with og.open("people.omni") as graph:
        graph.mutate('query q() { insert Person { name: "Di" } }')
        assert graph.commits.list(limit=2)[1].kind == "repair"


def test_rows_that_another_tool_changed_are_refused_unless_forced(here: Path) -> None:
    lance.dataset(str(table("nodes"))).delete("name = 'Ada'")
    with og.open("people.omni") as graph:
        refused = graph.repair()
        assert [(each.verdict, each.action) for each in refused.tables] == [
            ("suspicious", "refused")
        ]
        assert not refused.is_settled
        forced = graph.repair(force=True)
        assert [each.action for each in forced.tables] == ["forced"]
        assert graph.snapshot().counts["node:Person"] == 1
        found = graph.verify("rows")
        assert [each.aspect for each in found.findings] == ["endpoint"]
        assert "lead to no Person" in found.findings[0].text


def test_two_rows_with_one_id_are_found(here: Path) -> None:
    folder = str(table("nodes"))
    rows = lance.dataset(folder).to_table()
    lance.write_dataset(pa.concat_tables([rows, rows.slice(0, 1)]), folder, mode="overwrite")
    with og.open("people.omni") as graph:
        graph.repair(force=True)
        assert {each.aspect for each in graph.verify("rows").findings} == {"key"}


def test_forks_of_deleted_branches_are_told(here: Path) -> None:
    with og.open("people.omni") as graph:
        with armed({Fp.DROP: Refuse()}, nth=3):
            graph.branches.delete("dev")
        findings = graph.verify().findings
        assert [(each.severity, each.aspect) for each in findings] == [("warning", "fork")]
        graph.cleanup(keep=100)
        assert graph.verify("rows").findings == ()
    assert os.path.isdir("people.omni")


def test_a_missing_file_of_a_state_that_is_there_is_damage_and_not_history(here: Path) -> None:
    first, *_ = sorted((table("nodes") / "data").glob("*.lance"))
    first.unlink()
    with og.open("people.omni") as graph, pytest.raises(Corrupt, match="is missing") as caught:
        graph.query("query q() { match { $p: Person } return { $p.name as n } }").to_pylist()
    assert caught.value.details["path"] == str(first.relative_to("people.omni"))


def test_what_is_no_graph_is_said_to_be_none(here: Path) -> None:
    for name, content in (("empty", None), ("other", "x")):
        (here / name).mkdir()
        if content is not None:
            (here / name / "notes.txt").write_text(content)
        with pytest.raises(NotFound, match="there is no graph at") as caught:
            og.open(name)
        assert "lance" not in str(caught.value).lower()
