"""The choice of the engine, by size: a small input is done before Spark has started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from omnigraph.dataplane import tuning
from omnigraph.errors import Code, InvalidInput
from omnigraph.types import Engine, EngineChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkLimits:
    """The sizes of input, in bytes, from which Spark of this machine is used.

    Attributes:
        cold_bytes: If it has to be started.
        warm_bytes: If a session runs, or a master was named.
    """

    cold_bytes: int = tuning.active.spark_cold_bytes
    warm_bytes: int = tuning.active.spark_warm_bytes


def choose(
    engine: EngineChoice,
    *,
    bytes_total: int | None,
    has_frames: bool,
    spark_named: bool,
    spark_running: bool,
    spark_available: Callable[[], str | None],
    cluster: str | None = None,
    limits: SparkLimits | None = None,
) -> tuple[Engine, str]:
    """Returns the engine that an operation runs on, and the reason.

    Args:
        engine: What was asked for.
        bytes_total: How much there is to do; None when it is not known.
        has_frames: True if Spark DataFrames are among the sources.
        spark_named: True if a master was named or a session given.
        spark_running: True if there is a session in this process.
        spark_available: Says why there is no Spark here, or None. Asked only if it matters.
        cluster: The master that was named, if it is one of other machines: naming it chooses
            them, whatever the size.
        limits: From how much input on Spark of this machine is taken.

    Raises:
        InvalidInput: What was asked for cannot be had.
    """
    if engine == "inprocess":
        if has_frames:
            raise InvalidInput(
                Code.INPUT_INVALID,
                "a Spark DataFrame is read by Spark; engine must be auto or spark",
            )
        return "inprocess", "asked for"
    if engine == "spark" or has_frames:
        if (missing := spark_available()) is not None:
            raise InvalidInput(Code.ENGINE_UNAVAILABLE, missing)
        asked = engine == "spark"
        return "spark", "asked for" if asked else "a source is a Spark DataFrame"
    if cluster is not None:
        if (missing := spark_available()) is not None:
            return "inprocess", f"the cluster {cluster} was named, but {missing}"
        return "spark", f"the cluster {cluster} was named"
    known = limits or SparkLimits()
    limit = known.warm_bytes if spark_named or spark_running else known.cold_bytes
    return _by_size(bytes_total, limit, spark_available)


def _by_size(
    bytes_total: int | None, limit: int, spark_available: Callable[[], str | None]
) -> tuple[Engine, str]:
    if bytes_total is None:
        return "inprocess", "the size of the input is not known"
    size = f"{shown(bytes_total)} of input"
    if bytes_total < limit:
        return "inprocess", f"{size} is less than {shown(limit)}"
    if (missing := spark_available()) is not None:
        return "inprocess", f"{size} would be for Spark, but {missing}"
    return "spark", f"{size} is at least {shown(limit)}"


def shown(size: int) -> str:
    """A number of bytes, for people."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            # Cut, not rounded: what is less than a limit must not read as the limit.
            return f"{int(value)} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
