"""Getting hold of a session of Spark: given, active, or started and kept for the next use."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omnigraph.dataplane.spark import archive as archives
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.config import (
    LOCAL,
    MasterKind,
    SparkConfig,
    is_connect,
    master_kind,
    require,
    shown,
)
from omnigraph.dataplane.spark.failures import start_error
from omnigraph.dataplane.spark.settings import settings_for
from omnigraph.errors import Code, GraphError, InvalidInput, Unavailable


@dataclass(slots=True, eq=False)
class _KeptSession:
    """A session that we started, and how many hold it."""

    session: Any
    place: MasterKind
    master: str
    log: Path | None
    ships: bool
    archive: Path | None = None
    users: int = 0
    pid: int = field(default_factory=os.getpid)


class HeldSession:
    """The right to use a session until it is released. A context manager.

    Attributes:
        session: The session of Spark.
        master: Where it runs, as far as that is known.
        is_connect: True if it is one of Spark Connect.
        is_owned: True if we started it.
        ships: True if workers have to be sent our code.
        cache: The folder for what is kept between processes.
        log: Where the JVM writes, if we know.
    """

    def __init__(
        self, session: Any, master: str, cache: Path, kept: _KeptSession | None = None
    ) -> None:
        """Hold a session; `kept` if it is one of ours."""
        self.session = session
        self.master = master
        self.is_connect = is_connect(session)
        self.is_owned = kept is not None
        self.cache = cache
        self.log = None if kept is None else kept.log
        self.ships = _ships(session, master) if kept is None else kept.ships
        self._kept = kept

    def release(self) -> None:
        """Stop using it. The session goes on, for the next one that needs it."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        with _lock:
            kept.users -= 1
        if kept.archive is not None and not kept.archive.exists():
            archives.make_aside(kept.archive)
            kept.archive = None

    def forget(self) -> None:
        """Forget the session, because its server is gone: the next caller gets another one."""
        kept = self._kept
        with _lock:
            if kept is not None and _sessions.get(kept.master) is kept:
                del _sessions[kept.master]

    def __enter__(self) -> HeldSession:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


# One start at a time; and, for moments only, one reader or writer of what is kept.
_starting: Final = threading.Lock()
_lock: Final = threading.RLock()
_sessions: Final[dict[str, _KeptSession]] = {}


def acquire(config: SparkConfig) -> HeldSession:
    """Get hold of a session.

    In this order: the one that is given; the one of the named master, started if need be; without
    a name the one that is active in this process, or else a new one on this machine.

    Raises:
        InvalidInput: Java or a package is missing, or there is no such master.
        Unavailable: Spark did not start, or does not answer.
    """
    cache = config.home / "cache"
    found = config.session or _running_for(config.master)
    if found is not None:
        ours = _taken(found)
        _make_active(found)
        return HeldSession(found, _master_of(found) if ours is None else ours.master, cache, ours)
    require(config)
    kept = _in_the_background(config)
    _make_active(kept.session)
    return HeldSession(kept.session, kept.master, cache, kept)


def _make_active(session: Any) -> None:
    """Make a session the active one of this thread, if the thread has none.

    Spark looks formats of Python up in the active session, whatever session a frame belongs to,
    and a session is active only on the thread that started it.
    """
    if is_connect(session):
        return
    # The next use of the session reports that the JVM is gone.
    with suppress(Exception):
        known = session._get_j_spark_session_class(session._jvm)
        if not known.getActiveSession().isDefined():
            known.setActiveSession(session._jsparkSession)


def is_running() -> bool:
    """True if there is a session in this process."""
    return bool(_alive()) or active_session() is not None


def active_session() -> Any:
    """The session of this process that is in use, ours or not; None without one.

    Never imports Spark: with a session, that is done.
    """
    classic = sys.modules.get("pyspark.sql.session")
    if classic is not None:
        context = sys.modules["pyspark"].SparkContext._active_spark_context
        if context is not None and context._jsc is not None:
            found = classic.SparkSession._instantiatedSession
            if found is not None:
                return found
    remote = sys.modules.get("pyspark.sql.connect.session")
    if remote is not None:
        found = remote.SparkSession.getActiveSession() or remote.SparkSession._get_default_session()
        if found is not None:
            return found
    return next((kept.session for kept in _alive()), None)


def stop_all() -> None:
    """End every session that we started, and the JVM with them."""
    with _lock:
        kept = [_sessions.pop(master) for master in list(_sessions)]
    for each in kept:
        if each.pid == os.getpid():
            _end(each)
    if "omnigraph.dataplane.spark.launch" in sys.modules:
        from omnigraph.dataplane.spark import launch  # noqa: PLC0415

        launch.shut_down()


def _running_for(master: str | None) -> Any:
    """A session that runs already and fits, ours or not."""
    active = active_session()
    if active is None or any(kept.session is active and not _answers(kept) for kept in _alive()):
        return None
    if master is None:
        return active
    return active if not is_connect(active) and _master_of(active) == master else None


def _alive() -> list[_KeptSession]:
    with _lock:
        # The child of a fork has the sessions of its parent in memory, and none of its own.
        return [kept for kept in _sessions.values() if kept.pid == os.getpid()]


def _taken(session: Any) -> _KeptSession | None:
    with _lock:
        for kept in _alive():
            if kept.session is session:
                kept.users += 1
                return kept
    return None


def _kept_or_started(config: SparkConfig) -> _KeptSession:
    master = config.master or LOCAL
    with _starting:
        with _lock:
            kept = _sessions.get(master)
        if kept is None or kept.pid != os.getpid() or not _answers(kept):
            with _lock:
                _sessions.pop(master, None)
            kept = _started(config, master)
        with _lock:
            _sessions[master] = kept
            kept.users += 1
        return kept


def _answers(kept: _KeptSession) -> bool:
    if is_connect(kept.session):
        return not kept.session.is_stopped
    from omnigraph.dataplane.spark import launch  # noqa: PLC0415

    return launch.is_alive(kept.session)


def _started(config: SparkConfig, master: str) -> _KeptSession:
    place = master_kind(master)
    if place is MasterKind.CONNECT or place is MasterKind.SERVED:
        from omnigraph.dataplane.spark import connect  # noqa: PLC0415

        found, log = connect.connected(config, master, place)
        # A server of ours has the Python that runs here.
        kept = _KeptSession(found, place, master, log, ships=place is MasterKind.CONNECT)
        _make_known(kept, config)
        return kept
    from omnigraph.dataplane.spark import launch  # noqa: PLC0415

    if place is MasterKind.CLUSTER:
        _knock(master)
    _make_room(master)
    log = launch.log_file(config.home)
    archive = archives.archive_of(config)
    ready = archive if config.archive and archive.exists() else None
    settings = settings_for(place, master, archive=ready, chosen=config.conf)
    try:
        session = launch.start(settings, log)
    except Exception as error:
        raise start_error(error, master, log) from error
    wanted = archive if config.archive and ready is None else None
    kept = _KeptSession(session, place, master, log, _ships(session, master), wanted)
    _make_known(kept, config)
    return kept


def _make_known(kept: _KeptSession, config: SparkConfig) -> None:
    """Register the format `omnigraph` with a new session, if Spark cannot find it by itself."""
    if not kept.ships:
        return
    from omnigraph.dataplane.spark.registration import make_known  # noqa: PLC0415

    try:
        make_known(kept.session, config.home / "cache", ships=True)
    except Exception as error:
        _end(kept)
        raise start_error(error, shown(kept.master), kept.log) from error


def _make_room(master: str) -> None:
    """Close a context of ours that is not in use: Spark has one context per process."""
    from omnigraph.dataplane.spark import launch  # noqa: PLC0415

    with _lock:
        over = [
            master
            for master, kept in _sessions.items()
            if not is_connect(kept.session) and (kept.users == 0 or not _answers(kept))
        ]
        ended = [_sessions.pop(master) for master in over]
    for kept in ended:
        _end(kept)
    if (running := launch.running()) is not None:
        raise InvalidInput(
            Code.ENGINE_UNAVAILABLE,
            f"this process runs Spark at {running.master}, and Spark allows one at a time; pass "
            f"that session, or stop it before you name {master}",
            master=master,
            running=running.master,
        )


def _end(kept: _KeptSession) -> None:
    if is_connect(kept.session):
        from omnigraph.dataplane.spark import connect  # noqa: PLC0415

        connect.disconnect(kept.session)
    else:
        from omnigraph.dataplane.spark import launch  # noqa: PLC0415

        launch.stop(kept.session)


def _knock(master: str) -> None:
    """Fail at once if no master answers; Spark itself would try for a minute."""
    if not master.startswith("spark://"):
        return
    problems: list[str] = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection(
                (host.strip("[]"), int(port)), timeout=tuning.active.connect_timeout_s
            ):
                return
        except (OSError, ValueError) as error:
            problems.append(f"{address}: {error}")
    raise Unavailable(
        Code.UNAVAILABLE, f"no Spark master answers at {'; '.join(problems)}", master=master
    )


def _master_of(session: Any) -> str:
    try:
        return str(session.conf.get("spark.master", "")) if not is_connect(session) else "sc://"
    except Exception as error:
        raise start_error(error, "the given session", None) from error


def _ships(session: Any, master: str) -> bool:
    """True if our code must be sent to workers: not on this machine if they run this Python."""
    if is_connect(session) or not (master == "local" or master.startswith("local[")):
        return True
    found = shutil.which(session.sparkContext.pythonExec)
    return found is None or _is_other_python(Path(found))


def _is_other_python(path: Path) -> bool:
    """True for another Python than the one that runs here, which may have several names."""
    here = Path(sys.executable)
    return path.parent != here.parent or path.resolve() != here.resolve()


def _in_the_background(config: SparkConfig) -> _KeptSession:
    """Start a session on a thread of its own, for the reason that `launch.start` gives.

    An interrupt does not stop it; the session is then there for the next one that needs it.
    """
    outcome: list[_KeptSession | BaseException] = []
    abandoned = False

    def run() -> None:
        try:
            kept = _kept_or_started(config)
        except BaseException as error:  # noqa: BLE001 - raised where the caller waits
            outcome.append(error)
            return
        with _lock:
            outcome.append(kept)
            if abandoned:
                kept.users -= 1

    thread = threading.Thread(target=run, name="omnigraph-spark-start", daemon=True)
    try:
        thread.start()
        thread.join()
    except BaseException:
        with _lock:
            abandoned = True
            if outcome and isinstance(outcome[0], _KeptSession):
                outcome[0].users -= 1
        raise
    found = outcome[0]
    if isinstance(found, _KeptSession):
        return found
    if isinstance(found, GraphError) or not isinstance(found, Exception):
        raise found
    raise start_error(found, config.master or LOCAL, None) from found
