"""Gates: threads wait for each other in one order, and nothing is kept when nobody waits."""

import threading
from concurrent.futures import ThreadPoolExecutor

from omnigraph.core import gates


def test_writers_of_overlapping_tables_never_wait_for_each_other_in_a_circle() -> None:
    keys = ["a", "b", "c"]
    done = []
    inside: set[str] = set()
    lock = threading.Lock()

    def work(number: int) -> None:
        mine = keys[number % 3 :] + keys[: number % 3]
        for _ in range(50):
            with gates.writing("root", "main", mine[:2]), gates.publishing("root", "main"):
                with lock:
                    assert not inside & set(mine[:2])
                    inside.update(mine[:2])
                with lock:
                    inside.difference_update(mine[:2])
        done.append(number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert len(done) == 6
    assert gates._registry == {}


def test_a_gate_can_be_passed_again_by_who_holds_it() -> None:
    """Recovery settles an intent while the writer that found it holds the same gates."""
    with gates.writing("root", "main", ["a"]), gates.writing("root", "main", ["a", "b"]):
        assert len(gates._registry) == 2
    with gates.branching("root"), gates.publishing("root", "main"), gates.branching("root"):
        assert len(gates._registry) == 2
    assert gates._registry == {}


def test_graphs_and_branches_do_not_share_gates() -> None:
    passed = threading.Event()

    def other() -> None:
        with (
            gates.writing("root", "dev", ["a"]),
            gates.writing("root2", "main", ["a"]),
            gates.publishing("root", "dev"),
        ):
            passed.set()

    with gates.writing("root", "main", ["a"]), gates.publishing("root", "main"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert passed.is_set()
