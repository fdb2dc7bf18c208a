"""Machines inside of this one: hosts with a network address of their own, joined by a bridge.

    with machines(2) as (outside, hosts):
        subprocess.run([*hosts[0].inside, "hostname", "-I"])

Each is a network namespace. What listens on loopback here cannot be reached from there; `forwarded`
opens a door for one port.
"""

from __future__ import annotations

import os
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

_CHUNK = 1 << 16
_NETWORKS = 250


@dataclass(frozen=True)
class Host:
    """A machine inside of this one.

    Attributes:
        address: Under which the others reach it.
        inside: What to put before a command that should run there.
    """

    address: str
    inside: tuple[str, ...]


def can_have_machines() -> bool:
    """May this process make networks? Containers often forbid it."""
    name = _name("try")
    try:
        made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
    except FileNotFoundError:
        return False
    if made.returncode == 0:
        _ip("netns", "del", name)
    return made.returncode == 0


@contextmanager
def machines(count: int) -> Iterator[tuple[str, tuple[Host, ...]]]:
    """Yield the address of this machine in their network, and so many hosts."""
    network = f"10.213.{os.getpid() % _NETWORKS + 1}"
    bridge, outside = _name("br"), f"{network}.1"
    with ExitStack() as stack:
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{outside}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        hosts = []
        for number in range(count):
            name, near, far = (_name(f"{kind}{number}") for kind in ("h", "n", "f"))
            address = f"{network}.{number + 2}"
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            _ip("link", "add", near, "type", "veth", "peer", "name", far)
            _ip("link", "set", far, "netns", name)
            _ip("link", "set", near, "master", bridge)
            _ip("link", "set", near, "up")
            inside = ("ip", "netns", "exec", name)
            for arguments in (
                ("addr", "add", f"{address}/24", "dev", far),
                ("link", "set", far, "up"),
                ("link", "set", "lo", "up"),
            ):
                subprocess.run([*inside, "ip", *arguments], check=True, capture_output=True)
            hosts.append(Host(address, inside))
        yield outside, tuple(hosts)


class _Door(socketserver.ThreadingTCPServer):
    """Hands every connection on to a port of loopback."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: str, port: int) -> None:
        self.port = port
        super().__init__((address, 0), _Passage)


class _Passage(socketserver.BaseRequestHandler):
    """One connection, in both directions until both ends are done."""

    server: _Door

    def handle(self) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.port)) as far:
            back = threading.Thread(target=_copy, args=(far, self.request), daemon=True)
            back.start()
            _copy(self.request, far)
            back.join()


@contextmanager
def forwarded(address: str, port: int) -> Iterator[int]:
    """Yield a port at an address that leads to a port of loopback."""
    with _Door(address, port) as authorizer:
        threading.Thread(target=authorizer.serve_forever, daemon=True).start()
        try:
            yield authorizer.server_address[1]
        finally:
            authorizer.shutdown()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(_CHUNK):
            sink.sendall(content)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _name(kind: str) -> str:
    """A name of this process; those of interfaces have 15 characters at most."""
    return f"og{os.getpid()}{kind}"
