"""Build or refresh the development environment in ``.venv``.

Standard library only: it runs before anything is installed. Two callers at once are fine, one of
them builds and the other waits. An environment whose inputs did not change is left as it is.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
INTERPRETER = str(VENV / "bin" / "python")
STAMP = VENV / ".ready"
INPUTS = (ROOT / "requirements" / "dev.lock", ROOT / "pyproject.toml", Path(__file__))
OLDEST = (3, 11)


def fingerprint() -> str:
    """Name the state that the environment was built from."""
    digest = hashlib.sha256(sys.version.encode())
    for path in INPUTS:
        digest.update(path.read_bytes())
    # An editable install points at one folder; a copied environment must not pass for ours.
    digest.update(os.fsencode(ROOT))
    return digest.hexdigest()


def pip(*arguments: str) -> None:
    """Run the environment's own pip, quiet unless it fails."""
    command = [INTERPRETER, "-m", "pip", "install", "-qq", *arguments]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def build() -> None:
    """Create the environment if needed and install exactly what the lock names."""
    STAMP.unlink(missing_ok=True)
    if not is_ours():
        print("creating .venv", flush=True)
        venv.create(VENV, with_pip=True, clear=True)
    print("installing requirements/dev.lock", flush=True)
    pip("--require-hashes", "-r", "requirements/dev.lock")
    # The lock already holds the build back end, so nothing is fetched outside of the hashes.
    pip("--no-deps", "--no-build-isolation", "--editable", ".")


def is_ours() -> bool:
    """Tell whether ``.venv`` runs, and runs the interpreter that called us."""
    probe = [INTERPRETER, "-c", "import pip, sys; print(sys.version)"]
    try:
        answer = subprocess.run(probe, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return answer.stdout.strip() == sys.version


def main() -> int:
    """Bring ``.venv`` up to date under a lock that dies with the process."""
    if sys.version_info < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        print(f"Python {wanted} or newer is needed, this is {sys.version}", file=sys.stderr)
        return 1
    with (ROOT / ".venv.lock").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        wanted = fingerprint()
        if not (STAMP.exists() and STAMP.read_text() == wanted):
            try:
                build()
            except subprocess.CalledProcessError as failure:
                print(f"set-up failed: {failure}", file=sys.stderr)
                return 1
        # Written anew even when it matched: make compares times.
        STAMP.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
