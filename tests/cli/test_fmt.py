"""`omnigraph fmt`: whole files or none, and nothing that was not asked for."""

import os
import stat
from pathlib import Path

import pytest

from omnigraph.cli import files
from omnigraph.errors import Unavailable
from tests.cli.support import QUERY, SCHEMA, invoke, process

UNTIDY = SCHEMA.replace("  ", "      ")
BROKEN = "node Person {\n  name String\n}\n"


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_are_written_in_place(folder: Path) -> None:
    (folder / "people.pg").write_text(UNTIDY, encoding="utf-8")
    answer = invoke("fmt")
    assert answer.exit_code == 0
    assert answer.stdout == "formatted people.pg\n"
    assert answer.stderr == "1 file formatted, 1 already formatted\n"
    assert (folder / "people.pg").read_text(encoding="utf-8") == SCHEMA
    assert names(folder) == ["people.gq", "people.pg"]
    assert invoke("fmt", "people.pg").stderr == "1 already formatted\n"


def test_check_writes_nothing_and_lists(folder: Path) -> None:
    (folder / "people.pg").write_text(UNTIDY, encoding="utf-8")
    answer = invoke("fmt", "--check", ".")
    assert (answer.exit_code, answer.stdout) == (1, "would change people.pg\n")
    assert (folder / "people.pg").read_text(encoding="utf-8") == UNTIDY
    assert invoke("fmt", "--check", "people.gq").exit_code == 0


def test_diff_writes_nothing_and_shows(folder: Path) -> None:
    (folder / "people.pg").write_text(SCHEMA.replace("  born: Date?", "  born:Date?"))
    answer = invoke("fmt", "--diff", "people.pg")
    assert (answer.exit_code, answer.stderr) == (0, "1 file to format\n")
    assert answer.stdout.splitlines()[:2] == ["--- people.pg", "+++ people.pg"]
    assert "-  born:Date?\n+  born: Date?\n" in answer.stdout
    assert invoke("fmt", "--diff", "--check", "people.pg").exit_code == 1


def test_a_diff_shows_line_ends_too(folder: Path) -> None:
    (folder / "people.pg").write_bytes(SCHEMA.rstrip("\n").replace("\n", "\r\n", 1).encode())
    shown = process("fmt", "--diff", "people.pg", cwd=folder).stdout
    assert b"-node Person {\r\n+node Person {\n" in shown
    assert b"\\ No newline at end of file\n" in shown


def test_folders_are_searched_but_not_hidden_ones(folder: Path) -> None:
    for place in ("a/b", ".hidden"):
        (folder / place).mkdir(parents=True)
        (folder / place / "x.pg").write_text(UNTIDY, encoding="utf-8")
    os.mkfifo(folder / "a" / "pipe.pg")
    (folder / "a" / "notes.txt").write_text(UNTIDY, encoding="utf-8")
    answer = invoke("fmt", ".", "a", "a/b/x.pg")
    assert answer.stdout == f"formatted {Path('a/b/x.pg')}\n"
    assert (folder / ".hidden" / "x.pg").read_text(encoding="utf-8") == UNTIDY


def test_a_folder_without_sources(tmp_path: Path) -> None:
    answer = invoke("fmt", tmp_path)
    assert (answer.exit_code, answer.stderr) == (0, "no .pg or .gq files here\n")


def test_broken_files_are_left_and_the_others_are_not(folder: Path) -> None:
    (folder / "broken.pg").write_text(BROKEN, encoding="utf-8")
    (folder / "people.pg").write_text(UNTIDY, encoding="utf-8")
    answer = invoke("fmt")
    assert answer.exit_code == 1
    assert "broken.pg:2:8: error[S000]" in answer.stderr
    assert answer.stderr.endswith(
        "1 file formatted, 1 already formatted, 1 left alone because of errors\n"
    )
    assert (folder / "broken.pg").read_text(encoding="utf-8") == BROKEN
    assert (folder / "people.pg").read_text(encoding="utf-8") == SCHEMA


def test_queries_that_parse_need_no_schema(folder: Path) -> None:
    (folder / "people.gq").write_text(QUERY.replace("Person", "Nobody"), encoding="utf-8")
    assert invoke("fmt", "--check", "people.gq").exit_code == 0


def test_line_ends_and_marks_of_other_systems(folder: Path) -> None:
    text = "// who\r\nnode Person {\r\n  /* the\r\n  key */\r\n  name: String @key\r\n}\r\n"
    (folder / "people.pg").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert invoke("fmt", "people.pg").exit_code == 0
    expected = text.replace("\r\n", "\n").encode()
    assert (folder / "people.pg").read_bytes() == expected


def test_what_is_no_text_is_refused(folder: Path) -> None:
    (folder / "people.pg").write_bytes(b"node Person {\n  name: \xff }")
    answer = invoke("fmt", "people.pg")
    assert answer.exit_code == 1
    assert answer.stderr.startswith(
        "error[input_invalid]: people.pg: line 2 is not UTF-8 (byte 0xff at offset 22)"
    )
    assert (folder / "people.pg").read_bytes().endswith(b"\xff }")


def test_other_suffixes_are_refused(folder: Path) -> None:
    (folder / "notes.txt").write_text("hello", encoding="utf-8")
    answer = invoke("fmt", "notes.txt")
    assert answer.exit_code == 1
    assert "notes.txt is neither a schema (.pg) nor a query file (.gq)" in answer.stderr


def test_permissions_and_links_stay(folder: Path) -> None:
    target = folder / "people.pg"
    target.write_text(UNTIDY, encoding="utf-8")
    target.chmod(0o640)
    (folder / "link.pg").symlink_to(target)
    assert invoke("fmt", "link.pg").exit_code == 0
    assert (folder / "link.pg").is_symlink()
    assert target.read_text(encoding="utf-8") == SCHEMA
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_failed_write_leaves_the_old_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (folder / "people.pg").write_text(UNTIDY, encoding="utf-8")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Unavailable, match=r"cannot write people\.pg: No space left"):
        files.replace(Path("people.pg"), b"new")
    assert (folder / "people.pg").read_text(encoding="utf-8") == UNTIDY
    assert names(folder) == ["people.gq", "people.pg"]


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(folder: Path) -> None:
    with (folder / "people.pg").open("rb") as reader:
        files.replace(Path("people.pg"), b"new")
        assert reader.read() == SCHEMA.encode()
    assert (folder / "people.pg").read_bytes() == b"new"


def test_standard_input(folder: Path) -> None:
    answer = invoke("fmt", "--lang", "pg", "-", stdin=UNTIDY.encode())
    assert (answer.exit_code, answer.stdout, answer.stderr) == (0, SCHEMA, "")
    answer = invoke("fmt", "--lang", "pg", "--check", "-", stdin=UNTIDY.encode())
    assert (answer.exit_code, answer.stdout) == (1, "would change <stdin>\n")
    broken = process("fmt", "--lang", "pg", "-", cwd=folder, stdin=BROKEN.encode())
    assert (broken.returncode, broken.stdout) == (1, b"")
    assert broken.stderr.startswith(b"<stdin>:2:8: error[S000]")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "advice"),
    [
        (("-",), "--lang pg or --lang gq"),
        (("-", "people.pg", "--lang", "pg"), "cannot be mixed with paths"),
        (("people.pg", "--lang", "pg"), "files tell by their suffix"),
    ],
)
def test_misuse(arguments: tuple[str, ...], advice: str) -> None:
    answer = invoke("fmt", *arguments)
    assert answer.exit_code == 2
    assert advice in " ".join(answer.stderr.split())
