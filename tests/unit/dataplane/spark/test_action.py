"""Waiting for a job that runs aside: results, errors, progress, cancelling."""

import threading
from typing import Any

import pytest

from omnigraph.dataplane.spark.action import Action, JobFailed


class FakeSession:
    """As much of a classic session as an action uses."""

    def __init__(self) -> None:
        self.groups: list[str] = []
        self.cancelled = threading.Event()
        self.done = 0

    @property
    def sparkContext(self) -> "FakeSession":
        return self

    def setJobGroup(self, group: str, title: str, interruptOnCancel: bool) -> None:
        self.groups.append(group)

    def cancelJobGroup(self, group: str) -> None:
        assert group == self.groups[-1]
        self.cancelled.set()

    def statusTracker(self) -> "FakeSession":
        return self

    def getJobIdsForGroup(self, group: str) -> list[int]:
        return [1]

    def getJobInfo(self, job: int) -> Any:
        return type("Job", (), {"stageIds": [1]})()

    def getStageInfo(self, stage: int) -> Any:
        self.done += 1
        return type("Stage", (), {"numCompletedTasks": min(self.done, 3), "numTasks": 3})()


def test_the_result_of_the_work_comes_back_from_another_thread() -> None:
    session = FakeSession()
    here = threading.current_thread()
    action = Action(session, False, "x", lambda: threading.current_thread() is here)
    assert action.result() is False
    assert len(session.groups) == 1


def test_an_error_of_the_work_is_the_cause() -> None:
    def work() -> None:
        raise ValueError("x")

    with pytest.raises(JobFailed) as caught:
        Action(FakeSession(), False, "x", work).result()
    assert isinstance(caught.value.__cause__, ValueError)


def test_progress_is_told_to_the_callers_thread() -> None:
    told: list[tuple[int, int]] = []
    enough = threading.Event()
    here = threading.current_thread()

    def on_progress(done: int, tasks: int) -> None:
        assert threading.current_thread() is here
        told.append((done, tasks))
        if done == tasks:
            enough.set()

    Action(FakeSession(), False, "x", enough.wait, on_progress).result()
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_error_of_the_listener_cancels_the_job_and_is_raised_as_it_is() -> None:
    session = FakeSession()

    def refuse(done: int, tasks: int) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        Action(session, False, "x", session.cancelled.wait, refuse).result()
    assert session.cancelled.is_set()
