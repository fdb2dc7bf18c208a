"""Counts the walk of one call through the layers: functions, calls, layer switches, head reads.

`python tools/walk.py` prints the walk of a mutation and of a load, after one of each to warm up.
With `PYTHONPATH` it counts the walk of another version of the package.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import omnigraph as og

_SCHEMA = "node Person { name: String @key  age: I32? }"
_ADD = "query add($n: String) { insert Person { name: $n } }"
_UPDATE = "query set($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
_PACKAGE = Path(og.__file__).parent


def walk(call: Callable[[], object]) -> dict[str, int]:
    """Run a call and count what it passes through, in this thread."""
    steps: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # Comprehensions and the like are part of the function that they stand in.
        if event != "call" or not code.co_filename.startswith(str(_PACKAGE)) or "<" in code.co_name:
            return
        module = Path(code.co_filename).relative_to(_PACKAGE).with_suffix("")
        steps.append((str(module), code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    layers = [module.partition("/")[0] for module, _ in steps]
    core = [step for step in steps if step[0].startswith("core/")]
    return {
        "calls": len(steps),
        "functions": len(set(steps)),
        "modules": len({module for module, _ in steps}),
        "layer switches": sum(one != other for one, other in pairwise(layers)),
        "calls in core": len(core),
        "functions in core": len(set(core)),
        "head reads": sum(
            step == ("core/manifest/newest_states", "NewestStates.snapshot") for step in steps
        ),
    }


def main() -> None:
    """Print the walks."""
    with tempfile.TemporaryDirectory() as folder, og.init(Path(folder) / "g", _SCHEMA) as graph:
        found = {}
        for number in range(2):
            found["insert"] = walk(lambda n=number: graph.mutate(_ADD, {"n": f"a{n}"}))  # type: ignore[misc]
            found["update"] = walk(lambda n=number: graph.mutate(_UPDATE, {"n": "a0", "a": n}))  # type: ignore[misc]
            found["load"] = walk(lambda n=number: graph.load({"Person": [{"name": f"b{n}"}]}))  # type: ignore[misc]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
