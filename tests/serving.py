"""Real servers on a loopback port: in a thread of this process, or processes of their own."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from omnigraph.policy.authorization import ALLOW_ALL, Policy
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


@dataclass(frozen=True, slots=True)
class Launched:
    """A server that runs by the command line."""

    process: subprocess.Popen[str]
    host: str
    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://{self.host}:{self.port}"

    @property
    def workers(self) -> set[int]:
        """The processes that it has begun."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return set(map(int, path.read_text().split()))

    def kill(self) -> None:
        """End it at once, without a word, and its processes with it."""
        for pid in (self.process.pid, *self.workers):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def launched(*arguments: str, log: Path) -> Iterator[Launched]:
    """Run `omnigraph serve` until the block ends; its messages go to a file."""
    command = [sys.executable, "-m", "omnigraph.cli.main", "serve", *arguments]
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*command, "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    with process.stdout:
        host, _, port = process.stdout.readline().strip().rpartition(":")
    try:
        yield Launched(process, host.removeprefix("OMNIGRAPH_LISTEN_ADDR="), int(port))
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


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
    config: ServerConfig,
    *,
    policy: Policy = ALLOW_ALL,
    clock: Clock | None = None,
    idle_seconds: int = 5,
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
        timeout_keep_alive=idle_seconds,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
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
