"""Group `wide`: many types, many statements, many properties; cost follows their number."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import omnigraph as og
from bench.measure import Case

TYPES = 84
FEW, MANY = 300, 3_000
PROPERTIES = 1_000
_kept = ExitStack()  # folders live as long as the process


def cases() -> tuple[list[Case], list[str]]:
    """The cases of this group, and remarks about them."""
    few, many = _updating(FEW), _updating(MANY)
    reading = _entity()
    made = [
        Case(name=f"init, {TYPES} types", call=_making()),
        Case(name=f"mutation of {FEW} updates", call=few),
        Case(
            name=f"mutation of {MANY:,} updates",
            call=many,
            target_us=5e6,
            against=f"mutation of {FEW} updates",
            ratio_max=1.2 * MANY / FEW,
        ),
        Case(
            name=f"entity of {PROPERTIES:,} properties, warm",
            call=reading,
            calls=5,
            target_us=10e3,
        ),
    ]
    return made, [f"{TYPES} types are {TYPES} tables, made and synced"]


def _folder() -> Path:
    return Path(_kept.enter_context(tempfile.TemporaryDirectory(prefix="omnigraph-bench-")))


def _making() -> Callable[[], object]:
    half = TYPES // 2
    nodes = [f"node N{n} {{ name: String @key  a: I32?  b: String? }}" for n in range(half)]
    edges = [f"edge E{n}: N{n} -> N{(n + 1) % half} {{ w: I32? }}" for n in range(half)]
    schema = "\n".join([*nodes, *edges])
    return lambda: og.init(_folder() / "g", schema).close()


def _updating(count: int) -> Callable[[], object]:
    graph = og.init(_folder() / "g", "node P { name: String @key  a: I32?  b: String? }")
    graph.load({"P": [{"name": f"n{n}", "a": n} for n in range(2 * MANY)]})
    statements = (f'update P set {{ a: {n} }} where name = "n{n}"' for n in range(count))
    text = "query q() {\n" + "\n".join(statements) + "\n}"
    return lambda: graph.mutate(text)


def _entity() -> Callable[[], object]:
    columns = "\n".join(f"p{n}: {'String' if n % 2 else 'I32'}?" for n in range(PROPERTIES))
    graph = og.init(_folder() / "g", f"node P {{ name: String @key\n{columns} }}")
    values = {f"p{n}": str(n) if n % 2 else n for n in range(PROPERTIES)}
    graph.load({"P": [{"name": f"n{n}", **values} for n in range(10)]})
    text = 'query q() { match { $n: P { name: "n1" } } return { $n } }'
    return lambda: graph.query(text).to_pylist()
