"""The driver's part in `df.write`: rows that tasks have staged are judged by tasks of the session.

Spark calls the commit of a data source in a process of its own, which has no session. Through a
socket that only its user can open, that process asks the process of the driver to finish the load.
Where no process answers (Spark found the format without us, or Spark Connect runs on another
machine), it finishes the load itself.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnigraph.dataplane.spark.config import configured
from omnigraph.errors import Code, Effect, GraphError, Unavailable

if TYPE_CHECKING:
    # A session starts before Arrow is needed, and it needs to know where this process listens.
    from omnigraph.dataplane.load.plan import LoadPlan
    from omnigraph.dataplane.load.receipt import ReadReceipt
    from omnigraph.dataplane.load.request import LoadRequest
    from omnigraph.dataplane.run.runner import Runner
    from omnigraph.store.root import Root


@dataclass(frozen=True, slots=True)
class Address:
    """The socket of a driver, and which of its sessions is meant; none for its classic one."""

    socket: str
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedLoad:
    """Rows of a `df.write` that wait to be judged and committed. Picklable."""

    root: Root
    request: LoadRequest
    plan: LoadPlan
    receipts: Sequence[ReadReceipt]

    def finish(self, runner: Runner) -> None:
        """Judge the rows and publish them, or refuse them."""
        from omnigraph.core.repository import OpenMode, Repository, components  # noqa: PLC0415
        from omnigraph.dataplane.load.loader import Loader  # noqa: PLC0415
        from omnigraph.dataplane.progress import Monitor  # noqa: PLC0415

        repo = Repository.open(self.root, components(self.root), OpenMode.READ_WRITE)
        monitor = Monitor("load", "spark", "df.write", repo.clock)
        loader = Loader(repo)
        try:
            done = loader.finish(self.request, self.plan, list(self.receipts), runner, monitor)
        except BaseException as error:
            loader.end(self.plan, error)
            raise
        else:
            loader.end(self.plan, done)
        finally:
            repo.close()


def finished_by(address: Address | None, staged: StagedLoad) -> bool:
    """Have a driver finish a load; False if it cannot be reached, and nothing was done.

    Raises:
        GraphError: The driver refused the load, or went away while it worked.
    """
    if address is None:
        return False
    try:
        connection = Client(address.socket)
    except OSError:
        return False
    with connection:
        try:
            connection.send((address.session, staged))
            answer = connection.recv()
        except (OSError, EOFError) as error:
            text = "the driver went away while it finished the write; whether it did is not known"
            raise Unavailable(Code.UNAVAILABLE, text, effect=Effect.UNKNOWN) from error
    if isinstance(answer, GraphError):
        raise answer
    return bool(answer)


def address_of(session: Any = None) -> Address:
    """The address at which this process listens for the writes of a session."""
    service = _service()
    return Address(service.socket, "" if session is None else service.know(session))


class _LoadService:
    """Finishes loads for the processes that ask for it, one thread each."""

    def __init__(self) -> None:
        # A folder of mkdtemp is for its user alone.
        self._folder = Path(tempfile.mkdtemp(prefix="omnigraph-"))
        self._pid = os.getpid()
        self._is_closed = False
        self.socket = str(self._folder / "driver")
        atexit.register(self._close)
        self._sessions: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
        self._listener = Listener(self.socket)
        threading.Thread(target=self._listen, name="omnigraph-driver", daemon=True).start()

    def know(self, session: Any) -> str:
        """The name of a session."""
        name = f"{id(session):x}"
        self._sessions[name] = session
        return name

    def _listen(self) -> None:
        while not self._is_closed:
            with suppress(OSError, EOFError):
                connection = self._listener.accept()
                work = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                work.start()

    def _close(self) -> None:
        # The child of a fork has the service of its parent in memory, and must leave it alone.
        if os.getpid() != self._pid:
            return
        self._is_closed = True
        with suppress(OSError):
            self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self, connection: Connection[Any, Any]) -> None:
        with connection, suppress(OSError, EOFError):
            from omnigraph.dataplane.spark.carried_errors import as_error  # noqa: PLC0415

            name, staged = connection.recv()
            answer: object = True
            try:
                session = self._sessions.get(name) if name else None
                if name and session is None:
                    answer = False
                else:
                    _finish(staged, session)
            except BaseException as error:  # noqa: BLE001 - it is raised where the commit waits
                answer = as_error(error)
            connection.send(answer)


def _finish(staged: StagedLoad, session: Any) -> None:
    from omnigraph.dataplane.spark.runner import SparkRunner  # noqa: PLC0415
    from omnigraph.dataplane.spark.session import acquire, active_session  # noqa: PLC0415

    with acquire(configured(session or active_session())) as held:
        staged.finish(SparkRunner(held))


_lock: Final = threading.Lock()
_running: list[_LoadService] = []


def _service() -> _LoadService:
    with _lock:
        if not _running:
            _running.append(_LoadService())
        return _running[0]
