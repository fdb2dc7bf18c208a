"""Settings: plain values that a caller, a file or the environment may choose.

This module only judges values; `runtime.environment` takes them from variables. Things that a test
swaps, such as clocks and stores, are components and do not belong here. A setting appears together
with the code that keeps to it, and each one is a bound or a trade-off, never a switch between two
behaviours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from omnigraph.errors import Code, InvalidInput, JsonValue

__all__ = ["Settings"]

_BOUNDS: Final = "bounds"


def _bounded(default: int, least: int, most: int) -> Any:
    return field(default=default, metadata={_BOUNDS: (least, most)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked when they are made.

    Attributes:
        source_bytes_max: The longest schema or query text that is read, in bytes of UTF-8. Keeps
            a mistyped path to a data file from being fed to the compiler, which reads 16 MiB at
            most.
        diagnostics_max: How many findings a printed report lists, over all of its files. The
            count of the rest is still reported.
        cache_bytes_max: How much memory an open graph keeps for columns, adjacency and word
            indexes between queries. What is in use by a running query counts only afterwards.
        frame_rows_max: How many rows a query may hold at once while it matches its pattern.
        query_bytes_max: How much memory the rows of a query, a column that it reads or its result
            may take, each of them. It is an estimate; a query may take a few times as much.
        write_retries: How often a write starts over on a newer state when others come first.
        optimize_retries: How often `optimize` does, which may mean to write long tables again.
        load_concurrency: How many tasks of a load, an export or an optimisation run at once in
            this process; 0 for one per processor.
        spark_bytes_min: From how much input on `engine="auto"` starts Spark on this machine.
        spark_running_bytes_min: The same if a session runs already, or a master of this machine is
            named. A master of a cluster is taken for any size.
    """

    source_bytes_max: int = _bounded(4 << 20, 1, 16 << 20)
    diagnostics_max: int = _bounded(100, 1, 100_000)
    cache_bytes_max: int = _bounded(4 << 30, 0, 1 << 50)
    frame_rows_max: int = _bounded(100_000_000, 1, 2_000_000_000)
    query_bytes_max: int = _bounded(4 << 30, 1 << 10, 1 << 50)
    write_retries: int = _bounded(100, 0, 1_000_000)
    optimize_retries: int = _bounded(3, 0, 1_000_000)
    load_concurrency: int = _bounded(0, 0, 1024)
    spark_bytes_min: int = _bounded(4 << 30, 0, 1 << 60)
    spark_running_bytes_min: int = _bounded(256 << 20, 0, 1 << 60)

    def __post_init__(self) -> None:
        problems = [
            problem
            for item in fields(self)
            if (problem := _problem(item.name, getattr(self, item.name), item.metadata[_BOUNDS]))
        ]
        if problems:
            raise _invalid(problems, origin=None)

    @classmethod
    def from_mapping(
        cls, values: Mapping[str, object], *, origin: str, base: Self | None = None
    ) -> Self:
        """Lay values over ``base`` (or the defaults); numbers may come as text.

        Args:
            values: The chosen values by name. Unknown names are errors.
            origin: Where they were found, for the message: a file, a variable, a flag.
            base: What they are laid over.

        Raises:
            InvalidInput: Naming every problem, not only the first.
        """
        bounds = {item.name: item.metadata[_BOUNDS] for item in fields(cls)}
        problems: list[dict[str, JsonValue]] = []
        chosen: dict[str, Any] = {}
        for name, raw in values.items():
            if name not in bounds:
                problems.append(_unknown(name, list(bounds)))
                continue
            value = _number(raw)
            if problem := _problem(name, value, bounds[name]):
                problems.append(problem)
            chosen[name] = value
        if problems:
            raise _invalid(problems, origin=origin)
        return replace(base if base is not None else cls(), **chosen)


def _number(raw: object) -> object:
    if isinstance(raw, str) and raw.strip().isascii() and raw.strip().isdigit():
        return int(raw)
    return raw


def _problem(name: str, value: object, bounds: tuple[int, int]) -> dict[str, JsonValue] | None:
    least, most = bounds
    # A bool is an int to Python, but never meant as a bound.
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return None
    return {
        "setting": name,
        "message": f"{name} must be a whole number from {least} to {most}, not {value!r}",
    }


def _unknown(name: str, known: list[str]) -> dict[str, JsonValue]:
    # Only a mistake needs it, and every start of a process would wait for it.
    import difflib  # noqa: PLC0415

    close = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(known)}"
    return {
        "setting": name,
        "message": f"there is no setting {name!r}{hint}",
        "suggestion": close[0] if close else None,
    }


def _invalid(problems: list[dict[str, JsonValue]], *, origin: str | None) -> InvalidInput:
    text = "; ".join(str(problem["message"]) for problem in problems)
    where = f"{origin}: " if origin else ""
    return InvalidInput(Code.SETTINGS_INVALID, where + text, origin=origin, problems=problems)
