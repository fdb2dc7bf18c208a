"""Small inputs, read in one piece for a transaction: rows become entities, nothing is written."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.dataplane import tuning
from omnigraph.dataplane.decode.dispatch import decode
from omnigraph.dataplane.decode.model import DecodeSpec, DecodeStats
from omnigraph.dataplane.load.entities import Entities, absences, identified, with_defaults
from omnigraph.dataplane.source.model import SmallFiles
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.source.split import split
from omnigraph.errors import Code, LimitExceeded
from omnigraph.lang.catalog.model import Catalog
from omnigraph.rules.violation import Violations


@dataclass(frozen=True, slots=True, eq=False)
class SmallLoad:
    """The entities of a small input.

    Attributes:
        entities: Rows of one type each, in the order of the input, with defaults unless `partial`.
        sources: The rows as they were read, before they got ids: what the digest covers.
        partial: Known entities keep what the rows do not name.
    """

    entities: tuple[Entities, ...]
    sources: tuple[pa.Table, ...]
    partial: bool


def read_small(
    source: object,
    catalog: Catalog,
    load_id: str,
    *,
    partial: bool,
    format: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SmallLoad:
    """Read an input of at most `transaction_rows_max` rows.

    Args:
        source: Files, frames or rows, as for a load.
        catalog: The schema.
        load_id: Makes the ids of entities that have no key.
        partial: Tell which properties the rows do not name.
        format: The format of files whose names do not tell.
        storage_options: How to reach object storage.

    Raises:
        ConstraintViolated: Rows are no entities of the schema; it lists all of them.
        LimitExceeded: There are more rows.
        InvalidInput: It cannot be told what the source is, or only Spark can read it.
    """
    out, stats = Violations(), DecodeStats()
    spec = DecodeSpec(catalog=catalog, absences=absences(catalog, partial=partial))
    entities: list[Entities] = []
    sources: list[pa.Table] = []
    with (
        resolve(source, catalog, format=format, storage_options=storage_options) as found,
        tempfile.TemporaryDirectory(prefix="omnigraph-") as spool,
    ):
        for part in split(found.inputs, bytes_per_split=1 << 40, spool_to=spool):
            assert not isinstance(part, SmallFiles), "files are not grouped here"
            for decoded in decode(part, spec, out, stats):
                lines, name = decoded.lines, part.name

                def origin(row: int, lines: object = lines, name: str = name) -> tuple[str, int]:
                    return name, int(lines[row])  # type: ignore[index]

                made = identified(load_id, part.number, decoded, out, origin)
                entities.append(made if partial else with_defaults(made))
                sources.append(decoded.rows)
            most = tuning.active.transaction_rows_max
            if stats.rows > most:
                text = (
                    f"a transaction loads at most {most} rows at once; use `graph.load` for "
                    "more, on a branch if it belongs to other changes"
                )
                raise LimitExceeded(Code.LIMIT_EXCEEDED, text, limit=most)
    out.raise_if_any()
    return SmallLoad(tuple(entities), tuple(sources), partial)
