"""Real servers on a loopback port, each in a thread of this process."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from omnigraph.policy.door import ALLOW_ALL, Policy
from omnigraph.runtime.clock import Clock
from omnigraph.server.app import make_app
from omnigraph.server.config import ServerConfig
from omnigraph.server.jobs import Jobs
from omnigraph.server.protocol import GuardedProtocol
from omnigraph.server.state import Server


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    url: str
    host: str
    port: int
    server: Server


class _Quiet(uvicorn.Server):
    """A server whose thread leaves the signals of the process alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@contextmanager
def serving(
    config: ServerConfig, *, policy: Policy = ALLOW_ALL, clock: Clock | None = None
) -> Iterator[Served]:
    """Serve in a thread until the block ends."""
    server = Server(config, policy=policy, clock=clock)
    if config.jobs is not None:
        server.jobs = Jobs(server, Path(config.jobs))
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()[:2]
    settings = uvicorn.Config(
        make_app(server),
        http=GuardedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    running = _Quiet(settings)

    def run() -> None:
        with suppress(asyncio.CancelledError):
            running.run(sockets=[listening])

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert running.is_up.wait(60)
    try:
        yield Served(f"http://{host}:{port}", host, port, server)
    finally:
        running.should_exit = True
        thread.join(60)
        listening.close()
        server.close()
