"""Attempts that wait for a worker that is gone: told from threads of the JVM and from processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omnigraph.dataplane.spark import lost_workers, tuning
from omnigraph.dataplane.spark.lost_workers import LostWorkers

JVM = 10
JAVA = "/usr/bin/java\0-cp\0jars"
FORKS = "python\0-m\0pyspark.daemon\0pyspark.worker"
READS = "org.apache.spark.api.python.BasePythonRunner$ReaderInputStream.read(PythonRunner.scala)"
ALONE = {JVM: (1, "S", JAVA), 11: (JVM, "S", FORKS)}


class Call:
    """A call in a thread of the JVM."""

    def __init__(self, text: str) -> None:
        self.text = text

    def toString(self) -> str:
        return self.text


class Thread:
    """A thread of the JVM."""

    def __init__(self, name: str) -> None:
        self.name = name

    def getName(self) -> str:
        return self.name


def context(threads: dict[str, str], ended: list[int]) -> Any:
    """As much of a context of Spark as is asked for."""
    traces = {Thread(name): [Call("Object.wait"), Call(at)] for name, at in threads.items()}
    told = SimpleNamespace(keySet=lambda: list(traces), get=traces.__getitem__)
    lang = SimpleNamespace(
        Thread=SimpleNamespace(getAllStackTraces=lambda: told),
        ProcessHandle=SimpleNamespace(current=lambda: SimpleNamespace(pid=lambda: JVM)),
    )
    scala = SimpleNamespace(killTaskAttempt=lambda number, *_: ended.append(number))
    return SimpleNamespace(
        _jvm=SimpleNamespace(java=SimpleNamespace(lang=lang)),
        _jsc=SimpleNamespace(sc=lambda: scala),
    )


def task(number: int) -> str:
    return f"Executor task launch worker for task 0.0 in stage 1.0 (TID {number})"


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(lost_workers, "_PROCESSES", tmp_path)
    monkeypatch.setattr(tuning.active, "polls_per_worker_check", 1)

    def run(found: dict[int, tuple[int, str, str]]) -> None:
        for pid, (parent, state, command) in found.items():
            (tmp_path / str(pid)).mkdir()
            (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {state} {parent} 0 0")
            (tmp_path / str(pid) / "cmdline").write_text(command)

    return run


def test_an_attempt_that_waits_without_any_worker_is_ended_at_the_second_look(
    processes: Any,
) -> None:
    processes(ALONE | {12: (11, "Z", "")})
    ended: list[int] = []
    lost = LostWorkers(context({task(7): READS, task(8): "Arrow.read", "main": READS}, ended))
    lost.pass_by()
    assert ended == []
    lost.pass_by()
    assert ended == [7]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({12: (11, "R", FORKS)}, id="a worker of the daemon"),
        pytest.param({12: (JVM, "S", "python\0-m\0pyspark.worker")}, id="a worker of its own"),
        pytest.param({12: (1, "S", FORKS)}, id="a worker whose daemon was killed"),
    ],
)
def test_while_there_may_be_a_worker_nothing_is_ended(
    processes: Any, more: dict[int, tuple[int, str, str]]
) -> None:
    processes(ALONE | more)
    ended: list[int] = []
    lost = LostWorkers(context({task(7): READS}, ended))
    for _ in range(3):
        lost.pass_by()
    assert ended == []


def test_workers_of_another_jvm_do_not_count(processes: Any) -> None:
    processes(ALONE | {20: (1, "S", JAVA), 21: (20, "S", FORKS), 22: (21, "S", FORKS)})
    ended: list[int] = []
    lost = LostWorkers(context({task(7): READS}, ended))
    lost.pass_by()
    lost.pass_by()
    assert ended == [7]
