"""A real S3 server for tests: SeaweedFS on loopback, one for all workers of a test run.

The workers hold a shared lock on a file. A supervisor process owns the server and waits for the
exclusive lock: it gets it when the last worker is gone, however that one ended, and then stops the
server. Nothing is left behind, and nobody counts references.

Run as a script, this module is the supervisor.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from pathlib import Path

BUCKET = "omnigraph-test"
ACCESS_KEY, SECRET_KEY = "tester", "tester-secret"
_PORTS = ("master", "master_grpc", "volume", "volume_grpc", "filer", "filer_grpc", "s3", "s3_grpc")
_STARTS_MAX = 3
_POLLS_MAX = 1_200
_POLL_S = 0.05
_PR_SET_PDEATHSIG = 1


@contextmanager
def serving(folder: Path) -> Iterator[dict[str, str]]:
    """Use the server of a folder, starting it if nobody has; yield the options to reach it."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        users = stack.enter_context(open(folder / "users.lock", "a+b"))
        fcntl.flock(users, fcntl.LOCK_SH)
        with open(folder / "start.lock", "a+b") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            if not (folder / "address").exists():
                _launch(folder)
            endpoint = (folder / "address").read_text()
        yield {
            "aws_endpoint": endpoint,
            "aws_access_key_id": ACCESS_KEY,
            "aws_secret_access_key": SECRET_KEY,
            "aws_region": "us-east-1",
            "allow_http": "true",
        }


def _launch(folder: Path) -> None:
    with open(folder / "supervisor.log", "wb") as log:
        # Outlives this worker on purpose; it ends with the last one.
        supervisor = subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    for _ in range(_POLLS_MAX):
        if (folder / "address").exists():
            # It must not be reaped as a forgotten child when this handle is collected.
            supervisor.returncode = 0
            return
        if supervisor.poll() is not None:
            break
        threading.Event().wait(_POLL_S)
    supervisor.kill()
    supervisor.wait()
    raise RuntimeError((folder / "supervisor.log").read_text(errors="replace")[-4_000:])


def _supervise(folder: Path) -> None:
    server, endpoint = _start(folder)
    try:
        (folder / "address.new").write_text(endpoint)
        (folder / "address.new").rename(folder / "address")
        with open(folder / "users.lock", "a+b") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            (folder / "address").unlink()
    finally:
        server.kill()
        server.wait()


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    for attempt in range(_STARTS_MAX):
        ports = _free_ports()
        data = folder / f"data-{attempt}"
        # Of a server of an earlier run, which has ended.
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        server = subprocess.Popen(
            _command(data, ports),
            cwd=data,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one thread here
        )
        for _ in range(_POLLS_MAX // _STARTS_MAX):
            if server.poll() is not None:
                break
            if _ready(ports):
                return server, f"http://127.0.0.1:{ports['s3']}"
            threading.Event().wait(_POLL_S)
        server.kill()
        server.wait()
    raise RuntimeError("SeaweedFS did not start")


def _command(data: Path, ports: dict[str, int]) -> list[str]:
    identity = {
        "name": "tester",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (data / "s3.json").write_text(json.dumps({"identities": [identity]}))
    return [
        str(Path(sysconfig.get_path("scripts"), "weed")),
        "server",
        f"-dir={data}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={ports['master']}",
        f"-master.port.grpc={ports['master_grpc']}",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=256",
        f"-volume.port={ports['volume']}",
        f"-volume.port.grpc={ports['volume_grpc']}",
        "-volume.max=50",
        "-filer",
        f"-filer.port={ports['filer']}",
        f"-filer.port.grpc={ports['filer_grpc']}",
        "-s3",
        f"-s3.port={ports['s3']}",
        f"-s3.port.grpc={ports['s3_grpc']}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.config=s3.json",
    ]


def _ready(ports: dict[str, int]) -> bool:
    """Whether the bucket exists and takes objects; creating it is part of the question."""
    bucket = f"http://127.0.0.1:{ports['filer']}/buckets/{BUCKET}/"
    try:
        # A folder of the filer is a bucket, and an object goes through every part of the server.
        _send("POST", bucket, b"")
        _send("PUT", bucket + "probe", b"ready")
        with socket.create_connection(("127.0.0.1", ports["s3"]), timeout=1):
            return True
    except (OSError, urllib.error.URLError):
        return False


def _send(method: str, url: str, body: bytes) -> None:
    request = urllib.request.Request(url, data=body or None, method=method)
    try:
        with contextlib.closing(urllib.request.urlopen(request, timeout=5)) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        with error:
            if error.code != HTTPStatus.CONFLICT:  # it is there from the last attempt
                raise


def _free_ports() -> dict[str, int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in _PORTS]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in zip(_PORTS, sockets, strict=True)}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    _supervise(Path(sys.argv[1]))
