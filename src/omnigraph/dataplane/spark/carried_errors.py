"""Errors of ours in the texts of Spark.

What a data source raises reaches the user as an exception of Spark, of which only the text is ours.
So the text says everything, and once more in a form that `spark_error` reads back.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from omnigraph.core.storage_errors import public
from omnigraph.dataplane.spark.failures import format_error, out_of_memory, task_error
from omnigraph.errors import Code, ConstraintViolated, GraphError, Internal
from omnigraph.store.failures import StorageFailure

_MARK: Final = "omnigraph-error:"
_PACKED: Final = re.compile(re.escape(f"[{_MARK}") + r"([A-Za-z0-9+/=\s]+)\]")
_CELL_CHARS_MAX: Final = 60
_OTHERS_OF_WRITE: Final = (
    ".option('violations_file', path) writes all of them, .option('violations_max', number) shows "
    "more"
)


def spark_error(error: BaseException) -> GraphError | None:
    """The error of OmniGraph that an exception of Spark carries; None if it carries none.

    Example:
        ```python
        bad = frame.selectExpr("name", "-1 AS age").unionByName(frame)
        try:
            bad.write.format("omnigraph").options(**place).mode("append").save()
        except Exception as error:
            found = og.spark_error(error)
            assert isinstance(found, og.errors.ConstraintViolated)
            assert len(found.violations) > 1
        ```
    """
    if isinstance(error, GraphError):
        return error
    text = str(error)
    found = _PACKED.search(text)
    if found is None:
        return task_error(text) or format_error(text)
    try:
        packed = base64.b64decode("".join(found[1].split()))
        payload = json.loads(zlib.decompress(packed))
    except (ValueError, zlib.error):
        return None
    return GraphError.from_json(payload) if isinstance(payload, dict) else None


@contextmanager
def carried_errors(
    violations_file: str | None = None, *, others: str = _OTHERS_OF_WRITE
) -> Iterator[None]:
    """Raise errors of a block with texts that carry all their details.

    Args:
        violations_file: The file that has all violations.
        others: How to get those that the error does not list, if there is no such file.
    """
    try:
        yield
    except (GraphError, StorageFailure, MemoryError) as error:
        known = as_error(error)
        text = _text(known, violations_file, others)
        raise GraphError.from_json({**known.to_json(), "message": text}) from error


def as_error(error: BaseException) -> GraphError:
    """The error of ours that another one stands for."""
    if isinstance(error, GraphError):
        return error
    if isinstance(error, StorageFailure):
        return public(error)
    if isinstance(error, MemoryError):
        return out_of_memory(str(error) or "MemoryError")
    return Internal(Code.INTERNAL, f"{type(error).__name__}: {error}")


def _text(error: GraphError, violations_file: str | None, others: str) -> str:
    text = str(error)
    if isinstance(error, ConstraintViolated):
        text = _table(error, violations_file, others)
    packed = zlib.compress(json.dumps(error.to_json()).encode(), 9)
    return f"{text}\n[{_MARK}{base64.b64encode(packed).decode()}]"


def _table(error: ConstraintViolated, violations_file: str | None, others: str) -> str:
    """All violations that are known, one per line, and where the others are."""
    shown = error.violations
    total = error.details.get("total")
    count = total if isinstance(total, int) else len(shown)
    rows = [("row", "rule", "entity", "what"), *map(_cells, shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    noun = "violation" if count == 1 else "violations"
    head = f"{count:,} {noun}; nothing was written"
    if violations_file is not None:
        head += f"; all of them are in {violations_file}"
    elif count > len(shown):
        lines.append(f"… and {count - len(shown):,} more: {others}")
    return "\n".join([head, *lines])


def _cells(violation: Mapping[str, object]) -> tuple[str, str, str, str]:
    line, kind, identity = violation.get("line"), violation.get("type"), violation.get("id")
    entity = " ".join(str(part) for part in (kind, identity) if part is not None)
    return (
        "" if line is None else str(line),
        str(violation.get("rule") or ""),
        entity if len(entity) <= _CELL_CHARS_MAX else f"{entity[: _CELL_CHARS_MAX - 1]}…",
        str(violation.get("message") or ""),
    )
