"""Gates: threads wait for each other in one order, and nothing is kept when nobody waits."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.core.locks import writer_queue
from omnigraph.errors import Cancelled
from omnigraph.runtime.cancellation import CancelToken, limited
from omnigraph.runtime.clock import SystemClock


def test_writers_of_overlapping_tables_never_wait_for_each_other_in_a_circle() -> None:
    keys = ["a", "b", "c"]
    done = []
    inside: set[str] = set()
    lock = threading.Lock()

    def work(number: int) -> None:
        mine = keys[number % 3 :] + keys[: number % 3]
        for _ in range(50):
            with (
                writer_queue.writing("root", "main", mine[:2]),
                writer_queue.publishing("root", "main"),
            ):
                with lock:
                    assert not inside & set(mine[:2])
                    inside.update(mine[:2])
                with lock:
                    inside.difference_update(mine[:2])
        done.append(number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(done) == 6
    assert writer_queue._registry == {}


def test_a_gate_can_be_passed_again_by_who_holds_it() -> None:
    """Recovery settles an intent while the writer that found it holds the same gates."""
    with (
        writer_queue.writing("root", "main", ["a"]),
        writer_queue.writing("root", "main", ["a", "b"]),
    ):
        assert len(writer_queue._registry) == 2
    with (
        writer_queue.branching("root"),
        writer_queue.publishing("root", "main"),
        writer_queue.branching("root"),
    ):
        assert len(writer_queue._registry) == 2
    assert writer_queue._registry == {}


def test_graphs_and_branches_do_not_share_gates() -> None:
    passed = threading.Event()

    def other() -> None:
        with (
            writer_queue.writing("root", "dev", ["a"]),
            writer_queue.writing("root2", "main", ["a"]),
            writer_queue.publishing("root", "dev"),
        ):
            passed.set()

    with writer_queue.writing("root", "main", ["a"]), writer_queue.publishing("root", "main"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert passed.is_set()


def waiting(name: tuple[str, ...], count: int) -> None:
    """Wait until so many hold a gate or wait for it."""
    while (gate := writer_queue._registry.get(name)) is None or gate.users < count:
        threading.Event().wait(0.001)


def test_those_who_wait_get_through_in_the_order_of_arrival() -> None:
    name, order = ("root", "head", "main"), list[int]()

    def enter(number: int) -> None:
        with writer_queue.publishing("root", "main"):
            order.append(number)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(6)]
    with writer_queue.publishing("root", "main"):
        for number, thread in enumerate(threads):
            thread.start()
            waiting(name, number + 2)
    # Whoever let go and wants it again has to queue up, too.
    with writer_queue.publishing("root", "main"):
        order.append(6)
    for thread in threads:
        thread.join()
    assert order == list(range(7))
    assert writer_queue._registry == {}


def test_who_gives_up_waiting_leaves_the_queue() -> None:
    name, token, seen = ("root", "again", "main"), CancelToken(), list[str]()

    def give_up() -> None:
        with (
            pytest.raises(Cancelled),
            limited(SystemClock(), None, token),
            writer_queue.starting_over("root", "main"),
        ):
            seen.append("got in")

    def wait() -> None:
        with writer_queue.starting_over("root", "main"):
            seen.append("waited")

    impatient, patient = threading.Thread(target=give_up), threading.Thread(target=wait)
    with writer_queue.starting_over("root", "main"):
        impatient.start()
        waiting(name, 2)
        patient.start()
        waiting(name, 3)
        token.cancel()
        impatient.join()
    patient.join()
    assert seen == ["waited"]
    assert writer_queue._registry == {}
