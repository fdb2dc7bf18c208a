"""Sessions of Spark Connect: at a server that is named, or at one of our own that stays.

Run as a module with `--stop`, this stops the one that stays.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import socket
import sys
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from omnigraph.dataplane.spark import archive as archives
from omnigraph.dataplane.spark import tuning
from omnigraph.dataplane.spark.config import LOCAL, MasterKind, SparkConfig, shown
from omnigraph.dataplane.spark.failures import start_error
from omnigraph.dataplane.spark.settings import default_variable, settings_for
from omnigraph.errors import Code, InvalidInput, Unavailable
from omnigraph.runtime.environment import home_folder

_PORT: Final = 15002


def connected(config: SparkConfig, master: str, place: MasterKind) -> tuple[Any, Path | None]:
    """A session at a server, and where the server logs, if it is ours.

    Raises:
        InvalidInput: This PySpark keeps no server, or the address is none.
        Unavailable: No server answers.
    """
    log: Path | None = None
    if place is MasterKind.SERVED:
        folder = server_folder(config.home)
        channel, log = _served(config, folder), folder / "logs"
    else:
        channel = _channel(master)
        _knock(shown(master))
    try:
        from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415

        # Not by the builder: that would make Connect the only Spark of the whole process.
        session = SparkSession(connection=channel)
        _with_short_retries(session)
        # After the client has registered what it does at exit, so that this is done before.
        atexit.register(disconnect, session)
        session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        for key, value in config.conf.items() if place is MasterKind.CONNECT else ():
            session.conf.set(key, value)
    except Exception as error:
        raise start_error(error, shown(master), log) from error
    return session, log


def disconnect(session: Any) -> None:
    """End a session; its server goes on. Without waiting long for one that does not answer."""

    def leave() -> None:
        with suppress(Exception):
            session.stop()

    leaving = threading.Thread(target=leave, name="omnigraph-spark-leave", daemon=True)
    leaving.start()
    leaving.join(tuning.active.close_timeout_s)
    if leaving.is_alive():
        # Its own handlers would go on trying, and keep the process from ending.
        with suppress(Exception):
            session.client.close()


def _with_short_retries(session: Any) -> None:
    """Give a server that is gone up after a minute, not after ten."""
    with suppress(ImportError, AttributeError):
        from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

        session.client.set_retry_policies(
            [DefaultPolicy(max_retries=tuning.active.connect_retries_max)]
        )


def server_folder(home: Path) -> Path:
    """The folder of the server for this Python and Spark: its address, log and process number."""
    made_of = (sys.executable, importlib.metadata.version("pyspark"))
    digest = blake2b("\0".join(made_of).encode(), digest_size=4).hexdigest()
    return home / "connect" / digest


def stop_server(home: Path) -> bool:
    """Stop the Connect server of this machine; return whether there was one."""
    from pyspark.sql.connect.local_server import Discovery, LocalConnectServer  # noqa: PLC0415

    folder = server_folder(home)
    if not folder.exists():
        return False
    with Discovery(str(folder / "server.json")) as discovery:
        return bool(LocalConnectServer(discovery).stop())


def _served(config: SparkConfig, folder: Path) -> Any:
    """The address of the server that stays, started if it does not run."""
    try:
        from pyspark.sql.connect.local_server import (  # noqa: PLC0415
            Discovery,
            LocalConnectServer,
            ServerLauncher,
        )
    except ImportError as error:
        raise InvalidInput(
            Code.ENGINE_UNAVAILABLE,
            "a Connect server that stays needs PySpark 4.3 or newer; name a master such as "
            f"{LOCAL} instead",
        ) from error
    archive = archives.archive_of(config)
    ready = archive if config.archive and archive.exists() else None
    settings = settings_for(MasterKind.SERVED, LOCAL, archive=ready, chosen=config.conf)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with (
            default_variable("PYSPARK_PYTHON", sys.executable),
            Discovery(str(folder / "server.json")) as found,
        ):
            # Not by `reuse_or_start`: that leaves the token in the environment, where the client
            # would take it for every other server, too.
            server = LocalConnectServer(found)
            if not server.is_reusable():
                ServerLauncher(LOCAL, settings, found).launch()
                server = LocalConnectServer(found)
            channel = _channel(server.url)
            channel.set(channel.PARAM_TOKEN, server.token)
            return channel
    except Exception as error:
        raise start_error(error, "connect", folder / "logs") from error


def _channel(url: str) -> Any:
    """Makes channels to a server, for the session and those made from it."""
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415

    with suppress(ValueError):
        channel = DefaultChannelBuilder(url)
        # Parameters without a slash before them would be part of the host.
        if ";" not in channel.host:
            return channel
    # Not in the words of the client: they may show a token.
    raise InvalidInput(
        Code.SETTINGS_INVALID,
        f"{shown(url)} is no address of Spark Connect, or its parameters are none; an address is "
        "sc://host:port/;name=value;name=value, where a = in a value is %3D",
        master=shown(url),
    )


def _knock(url: str) -> None:
    """Fail at once if no server answers; the client itself would try for minutes."""
    parts = urlsplit(url)
    address = (parts.hostname or "localhost", parts.port or _PORT)
    try:
        with socket.create_connection(address, timeout=tuning.active.connect_timeout_s):
            return
    except OSError as error:
        raise Unavailable(
            Code.UNAVAILABLE,
            f"no Spark Connect server answers at {address[0]}:{address[1]}: {error}",
            master=url,
        ) from error


if __name__ == "__main__":
    if sys.argv[1:] != ["--stop"]:
        sys.exit("usage: python -m omnigraph.dataplane.spark.connect --stop")
    if stop_server(home_folder(os.environ)):
        print("The Spark Connect server was stopped.")
    else:
        print("No Spark Connect server runs.")
