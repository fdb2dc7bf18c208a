"""What must be there before anything is measured: the data, the peers, the filled engines.

Everything is kept and used again until what it was made from changes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.query.client import Client, EngineFailed
from bench.query.engines import ENGINES, OURS
from bench.query.generate import generate
from bench.query.places import ROOT, Place, home
from bench.query.questions import SCHEMA

REQUIREMENTS: Final = (ROOT / "requirements" / "bench.lock", ROOT / "requirements" / "bench.in")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A filled engine."""

    engine: str
    version: str
    seconds: float
    bytes_on_disk: int


def prepare(place: Place, engines: Sequence[str], say: Say) -> list[Loaded]:
    """Make ready what is missing; the engines that can be measured."""
    _own_folder()
    if not (place.data / "graph.json").exists():
        say("generating the graph")
    generate(place.data, _scale(place))
    peers = any(ENGINES[name].peer for name in engines)
    usable = list(engines)
    if peers and not _environment(say):
        usable = [name for name in engines if not ENGINES[name].peer]
    ready = []
    for name in usable:
        try:
            ready.append(_load(place, name, say))
        except EngineFailed as failure:
            say(f"left out: {failure}")
    return ready


def peers(say: Say) -> bool:
    """Make ready the environment of the peers; False if that cannot be done here."""
    _own_folder()
    return _environment(say)


def _scale(place: Place) -> float:
    return float(place.folder.name.removeprefix("scale-"))


def _own_folder() -> None:
    """Git and the tools that ask it must not see what lies here."""
    home().mkdir(parents=True, exist_ok=True)
    (home() / ".gitignore").write_text("*\n", encoding="ascii")


def _environment(say: Say) -> bool:
    """Build the environment of the peers; False if that cannot be done here."""
    folder = home() / "venv"
    wanted = next(path for path in REQUIREMENTS if path.exists())
    stamp = folder / "ready"
    digest = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="ascii") == digest:
        return True
    say(f"installing {wanted.relative_to(ROOT)}")
    venv.create(folder, with_pip=True, clear=True)
    hashes = ["--require-hashes"] if wanted.suffix == ".lock" else []
    python = str(folder / "bin" / "python")
    command = [python, "-m", "pip", "install", "-qq", *hashes, "-r", str(wanted)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        say(f"no peers, their installation failed:\n{done.stderr[-2_000:]}")
        return False
    stamp.write_text(digest, encoding="ascii")
    return True


def _load(place: Place, name: str, say: Say) -> Loaded:
    folder = place.engine(name)
    stamp = folder / "loaded.json"
    made_from = _made_from(place, name)
    if stamp.exists():
        known = json.loads(stamp.read_text(encoding="utf-8"))
        if known.pop("made_from") == made_from:
            return Loaded(**known)
    say(f"loading {name}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = perf_counter()
    with Client(name, folder) as client:
        version = client.load(place.data)
    loaded = Loaded(
        engine=name,
        version=version,
        seconds=round(perf_counter() - start, 1),
        bytes_on_disk=_size(folder),
    )
    told = {field: getattr(loaded, field) for field in Loaded.__slots__}
    stamp.write_text(json.dumps({**told, "made_from": made_from}), encoding="utf-8")
    return loaded


def _made_from(place: Place, name: str) -> str:
    parts = [
        (place.data / "graph.json").read_text(encoding="utf-8"),
        str(ENGINES[name].recipe),
        SCHEMA if name == OURS else (home() / "venv" / "ready").read_text(encoding="ascii"),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
