"""Exports by workers: what the driver does not see was not exported."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from omnigraph.core.repository import Repository
from omnigraph.dataplane.export import shared_folder
from omnigraph.dataplane.export.checksums import BLOCK_BYTES, Checksummed, differing_block
from omnigraph.dataplane.export.parts import MANIFEST
from omnigraph.dataplane.export.shared_folder import blocks_to_read
from omnigraph.dataplane.export.target import open_file
from omnigraph.errors import Code, InvalidInput, Unavailable
from tests.unit.dataplane.export import test_exporter
from tests.unit.dataplane.export.test_exporter import export

Item = TypeVar("Item")
Result = TypeVar("Result")
repo = test_exporter.repo


@dataclass
class Elsewhere:
    """Runs tasks as a worker on another machine would: some of them find other folders there.

    Attributes:
        target: A folder of the driver.
        there: What the worker has under that name.
        stages: In which stages it is another folder.
        damage: What becomes of each file that was written.
    """

    target: Path
    there: Path
    stages: frozenset[str] = frozenset()
    damage: Callable[[Path], object] | None = None
    ran: list[str] = field(default_factory=list)
    is_remote: bool = True
    parallelism: int = 2

    def run(
        self, stage: str, task: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[int, Result]]:
        self.ran.append(stage)
        for number, item in enumerate(items):
            sent: Any = pickle.loads(pickle.dumps(item))
            yield number, task(self._moved(sent) if stage in self.stages else sent)
            if stage == "write" and self.damage is not None:
                self.damage(Path(sent.uri))

    def _moved(self, item: Any) -> Any:
        texts = {each.name: getattr(item, each.name) for each in fields(item)}
        moved = {
            name: text.replace(str(self.target), str(self.there))
            for name, text in texts.items()
            if isinstance(text, str) and text.startswith(str(self.target))
        }
        return replace(item, **moved)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_target_that_workers_do_not_share_is_refused_before_the_work(
    repo: Repository, tmp_path: Path
) -> None:
    target, there = tmp_path / "out", tmp_path / "there"
    export(repo, target, parts=True)
    before = files(target)
    runner = Elsewhere(target, there, frozenset({"probe", "write"}))
    with pytest.raises(InvalidInput, match="is not shared") as caught:
        export(repo, target, parts=True, runner=runner, overwrite=True)
    assert caught.value.code is Code.TARGET_NOT_SHARED
    assert runner.ran == ["probe"]
    # The earlier export is still there, and nothing else anywhere.
    assert files(target) == before
    assert files(there) == []


def test_a_target_that_workers_see_and_cannot_write_to_is_refused(
    repo: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, there = tmp_path / "out", tmp_path / "there"
    runner = Elsewhere(target, there)
    real = shared_folder.probe

    def one_way(asked: shared_folder.FolderProbe) -> shared_folder.Probed:
        return real(replace(asked, left=asked.left.replace(str(target), str(there))))

    monkeypatch.setattr(shared_folder, "probe", one_way)
    with pytest.raises(InvalidInput, match="does not arrive") as caught:
        export(repo, target, parts=True, runner=runner)
    assert caught.value.code is Code.TARGET_NOT_SHARED
    assert files(target) == []


def test_files_that_do_not_arrive_make_no_export(repo: Repository, tmp_path: Path) -> None:
    target, there = tmp_path / "out", tmp_path / "there"
    # Only some of the workers answered the question, and these did share the folder.
    runner = Elsewhere(target, there, frozenset({"write"}))
    with pytest.raises(InvalidInput, match=r"File-00000\.ndjson was written by a worker") as caught:
        export(repo, target, parts=True, runner=runner)
    assert caught.value.code is Code.TARGET_NOT_SHARED
    assert files(target) == []
    assert MANIFEST not in files(there)


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [longer, flipped])
@pytest.mark.parametrize("format", ["ndjson", "arrow", "parquet"])
def test_files_that_are_other_ones_make_no_export(
    repo: Repository, tmp_path: Path, damage: Callable[[Path], object], format: str
) -> None:
    target = tmp_path / "out"
    runner = Elsewhere(target, target, damage=damage)
    with pytest.raises(Unavailable, match="is not what was written"):
        export(repo, target, parts=True, runner=runner, format=format)
    assert files(target) == []


def test_an_export_by_workers_is_the_same_and_leaves_nothing_else(
    repo: Repository, tmp_path: Path
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    export(repo, here, parts=True)
    export(repo, there, parts=True, runner=Elsewhere(there, there))
    assert {path.name: path.read_bytes() for path in here.iterdir()} == {
        path.name: path.read_bytes() for path in there.iterdir()
    }


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_checksums_of_blocks(tmp_path: Path, extra: int) -> None:
    path = str(tmp_path / "file")
    data = bytes(range(256)) * (BLOCK_BYTES // 128) + b"x" * extra
    data = data[: 2 * BLOCK_BYTES + extra]
    with open_file(path, {}) as output:
        sums = Checksummed(output)
        for start in range(0, len(data), 999_999):
            sums.write(data[start : start + 999_999])
        assert sums.tell() == len(data)
    blocks = range(len(sums.checksums))
    assert len(blocks) == (2 if extra <= 0 else 3)
    assert differing_block(path, {}, len(data), sums.checksums, blocks) is None
    with open(path, "r+b") as file:
        file.seek(BLOCK_BYTES + 5)
        file.write(b"?")
    assert differing_block(path, {}, len(data), sums.checksums, blocks) == 1


def test_of_large_exports_the_ends_of_files_are_read_back() -> None:
    assert [blocks_to_read(count, is_whole=True) for count in (0, 3)] == [[], [0, 1, 2]]
    found = [blocks_to_read(count, is_whole=False) for count in (0, 1, 2, 5)]
    assert found == [[], [0], [0, 1], [0, 4]]
