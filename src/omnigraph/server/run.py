"""Running a server: one process, or several behind one socket."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from omnigraph.dataplane.run.memory import give_memory_back
from omnigraph.dataplane.tuning import active as bulk
from omnigraph.errors import Code, Unavailable
from omnigraph.policy.authorization import ALLOW_ALL, Policy
from omnigraph.server.app import make_app
from omnigraph.server.config import ServerConfig
from omnigraph.server.jobs import Jobs
from omnigraph.server.protocol import GuardedProtocol
from omnigraph.server.state import Server
from omnigraph.server.workers import Workers
from omnigraph.store.tuning import active as tables

ADDRESS_LINE: Final = "OMNIGRAPH_LISTEN_ADDR"
_WAITING_CONNECTIONS_MAX: Final = 1024
_STDERR: Final = 2


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
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    listening = _listen(config)
    host, port = listening.getsockname()[:2]
    told(f"{ADDRESS_LINE}={host}:{port}")
    if workers == 1:
        _run(config, listening, policy, 1, 0, None)
        return
    Workers(functools.partial(_run, config, listening, policy, workers), workers).run()


def _write(line: bytes) -> None:
    """Write a line about a request: by `logging`, that takes a tenth of a small read."""
    try:
        os.write(_STDERR, line)
    except OSError:  # nobody reads it any more, and requests have to go on
        return


def _listen(config: ServerConfig) -> socket.socket:
    """The socket of the server.

    Raises:
        Unavailable: The address is taken, is none of this machine, or needs other rights.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((config.host, config.port))
    except OSError as error:
        listening.close()
        text = f"cannot listen on {config.host}:{config.port}: {error.strerror or error}"
        raise Unavailable(Code.UNAVAILABLE, text) from error
    listening.listen(_WAITING_CONNECTIONS_MAX)
    listening.set_inheritable(True)
    return listening


def _run(
    config: ServerConfig,
    listening: socket.socket,
    policy: Policy,
    workers: int,
    number: int,
    alive: int | None,
) -> None:
    """Serve in this process; `alive` is a pipe that ends when the process that began it does."""
    give_memory_back()
    _bound_bulk_memory()
    server = Server(config, policy=policy, workers=workers, worker=number, log=_write)
    if config.jobs is not None:
        jobs = Jobs(server, config.jobs)
        server.jobs = jobs
        jobs.resume()
    # What is there now stays: the collector need not look at all of it again while requests wait.
    gc.freeze()
    settings = uvicorn.Config(
        make_app(server),
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=config.budgets.shutdown_seconds,
        backlog=_WAITING_CONNECTIONS_MAX,
    )
    _GracefulServer(settings, alive).run(sockets=[listening])


def _bound_bulk_memory() -> None:
    """Bound the memory of loads and exports: several of them run beside many requests."""
    bulk.split_bytes = 16 << 20
    bulk.staged_memory_bytes = 4 << 20
    bulk.batch_rows = 4_096
    bulk.batch_bytes = 4 << 20
    bulk.batch_text_bytes = 2 << 20
    bulk.fragments_ahead = 2
    tables.metadata_cache_bytes = 48 << 20


class _GracefulServer(uvicorn.Server):
    """A server that a signal ends without an error."""

    def __init__(self, config: uvicorn.Config, alive: int | None) -> None:
        """End when a signal comes, or when the pipe of the first process ends."""
        super().__init__(config)
        self._alive = alive

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and watch the first process."""
        await super().startup(sockets)
        if self._alive is not None:
            asyncio.get_running_loop().add_reader(self._alive, self._orphaned)

    def _orphaned(self) -> None:
        self.should_exit = True
        if self._alive is not None:
            asyncio.get_running_loop().remove_reader(self._alive)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, and forget the signal that asked for it."""
        await super().shutdown(sockets)
        self._captured_signals.clear()
