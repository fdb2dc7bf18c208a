"""Reading sources the way a load does: resolve, split, decode, lines added up."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.dataplane.decode.dispatch import decode
from omnigraph.dataplane.decode.model import Decoded, DecodeSpec, DecodeStats
from omnigraph.dataplane.source.model import FileSplit, SmallFiles, Split
from omnigraph.dataplane.source.resolve import resolve
from omnigraph.dataplane.source.split import split
from omnigraph.lang import compile_schema
from omnigraph.rules.violation import Violation, Violations

CATALOG = compile_schema("""
enum Colour { blue, red }

node Cell {
  name: String @key
  flag: Bool?
  small: I32?
  large: I64?
  count: U32?
  huge: U64?
  single: F32?
  double: F64?
  day: Date?
  moment: DateTime?
  colour: Colour?
  vector: Vector(3)?
  data: Blob?
  words: [String]?
  integers: [I64]?
  floats: [F32]?
  days: [Date]?
}
node Number { number: I64 @key }
node Note { text: String? }
edge Link: Cell -> Cell { weight: F64? }
edge Next: Number -> Note { day: Date? }
edge Note: Cell -> Note
""")


@dataclass
class Read:
    """What came out of a source."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    lines: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    claimed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    absent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    violations: list[Violation] = field(default_factory=list)
    splits: tuple[Split, ...] = ()
    stats: DecodeStats = field(default_factory=DecodeStats)

    @property
    def found(self) -> list[tuple[str, int | None, str]]:
        """Rule, line and property of each violation."""
        return [(v.rule.value, v.line, ",".join(v.properties)) for v in self.violations]

    def values(self, name: str, of: str = "Cell") -> list[Any]:
        return [row[name] for row in self.rows[of]]


def read(
    source: object,
    folder: Path,
    *,
    bytes_per_split: int = 64 << 20,
    is_remote: bool = False,
    absences: Mapping[str, frozenset[str]] | None = None,
    line_bytes_max: int = 32 << 20,
    **options: Any,
) -> Read:
    """Read a source in splits of this size."""
    spec = DecodeSpec(catalog=CATALOG, absences=absences or {}, line_bytes_max=line_bytes_max)
    with resolve(source, CATALOG, **options) as inputs:
        parts = split(
            inputs.inputs,
            bytes_per_split=bytes_per_split,
            spool_to=str(folder / "spool"),
            is_remote=is_remote,
        )
        return decode_all(parts, spec)


def decode_all(found: tuple[Split | SmallFiles, ...], spec: DecodeSpec | None = None) -> Read:
    """Decode splits and add their lines up, as the driver of a load does."""
    parts = tuple(part for part in found if not isinstance(part, SmallFiles))
    assert len(parts) == len(found)
    result = Read(splits=parts)
    before: dict[str, int] = defaultdict(int)
    for number, part in enumerate(parts):
        assert part.number == number
        out, stats = Violations(), DecodeStats()
        name = part.input.uri if isinstance(part, FileSplit) else part.name
        offset = before[name] if part.first_row is None else part.first_row - 1
        for decoded in decode(part, spec or DecodeSpec(catalog=CATALOG), out, stats):
            _take(result, decoded, offset)
        before[name] = offset + stats.lines
        result.stats.lines += stats.lines
        result.stats.rows += stats.rows
        result.stats.bytes += stats.bytes
        result.violations += [_moved(item, offset) for item in out.items]
    result.violations.sort(key=lambda item: item.rank)
    return result


def _take(result: Read, decoded: Decoded, offset: int) -> None:
    name = decoded.entity.name
    assert isinstance(decoded.rows, pa.Table)
    decoded.rows.validate(full=True)
    assert decoded.rows.num_rows == len(decoded.lines)
    result.rows[name] += decoded.rows.to_pylist()
    result.lines[name] += [int(line) + offset for line in decoded.lines]
    result.claimed[name] += decoded.claimed
    for column, mask in decoded.absent.items():
        assert mask.true_count == len(decoded.lines)
        result.absent[name].add(column)


def _moved(item: Violation, offset: int) -> Violation:
    return item if item.line is None else replace(item, line=item.line + offset)
