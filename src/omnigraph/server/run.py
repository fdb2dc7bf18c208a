"""Running a server: one process, or several behind one socket."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn

from omnigraph.policy.door import ALLOW_ALL, Policy
from omnigraph.server.app import make_app
from omnigraph.server.config import ServerConfig
from omnigraph.server.jobs import Jobs
from omnigraph.server.protocol import GuardedProtocol
from omnigraph.server.state import Server

ADDRESS_LINE: Final = "OMNIGRAPH_LISTEN_ADDR"
_BACKLOG: Final = 1024


def serve(
    config: ServerConfig,
    *,
    workers: int = 1,
    policy: Policy = ALLOW_ALL,
    told: Callable[[str], None] = print,
) -> None:
    """Serve until a signal comes.

    Args:
        config: What to serve.
        workers: How many processes.
        policy: Decides on every access.
        told: Is called with the address, once requests are taken.
    """
    listening = _listen(config)
    host, port = listening.getsockname()[:2]
    told(f"{ADDRESS_LINE}={host}:{port}")
    if workers == 1:
        _run(config, listening, policy, 1, is_first=True)
        return
    context = multiprocessing.get_context("fork")
    children = [
        context.Process(target=_run, args=(config, listening, policy, workers, number == 0))
        for number in range(workers)
    ]
    for child in children:
        child.start()

    def stop(number: int, frame: FrameType | None) -> None:
        for child in children:
            child.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    for child in children:
        child.join()


def _listen(config: ServerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((config.host, config.port))
    listening.listen(_BACKLOG)
    listening.set_inheritable(True)
    return listening


def _run(
    config: ServerConfig,
    listening: socket.socket,
    policy: Policy,
    workers: int,
    is_first: bool,
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    server = Server(config, policy=policy, workers=workers)
    if config.jobs is not None:
        jobs = Jobs(server, config.jobs)
        server.jobs = jobs
        if is_first:
            jobs.resume()
    settings = uvicorn.Config(
        make_app(server),
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=config.budgets.shutdown_seconds,
        backlog=_BACKLOG,
    )
    _Gentle(settings).run(sockets=[listening])


class _Gentle(uvicorn.Server):
    """A server for which a signal is a way to end well, not a failure."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, and forget the signal that asked for it."""
        await super().shutdown(sockets)
        self._captured_signals.clear()
