"""The decision how rows are found by keys, and that both ways find the same rows."""

from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.store.root import Root
from omnigraph.store.table import LIST_KEYS_MAX
from omnigraph.store.tables import Btree, IndexSpec, Pin, Table, open_tables

# So many rows that an index is worth two lists of keys, and no more.
ROWS = (LIST_KEYS_MAX + 100) * 500
IDS = [f"k{number}" for number in range(ROWS)]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, Table]:
    """A table without an index, and the same one with it."""
    folder: Path = tmp_path_factory.mktemp("keys")
    store = open_tables(Root.parse(str(folder)), durable=False)
    rows = pa.table({"id": IDS})
    plain = Pin("t", store.create("t", rows.schema, rows=rows))
    staged = store.stage_indexes(store.open(plain), [IndexSpec("id", Btree(), "id_")], uuid="u")
    assert staged is not None
    return store.open(plain), store.open(Pin("t", store.land(staged)))


@pytest.mark.parametrize(
    ("keys", "plain", "indexed"),
    [
        (1, True, True),
        (LIST_KEYS_MAX, True, True),
        (LIST_KEYS_MAX + 1, False, True),
        (LIST_KEYS_MAX + 100, False, True),
        (LIST_KEYS_MAX + 101, False, False),
    ],
)
def test_lists_or_a_scan(
    tables: tuple[Table, Table], keys: int, plain: bool, indexed: bool
) -> None:
    assert [table.prefers_lists("id", keys) for table in tables] == [plain, indexed]
    wanted = IDS[:: ROWS // keys][:keys]
    for table in tables:
        found = table.locate([*wanted, "nobody"]).column("id").to_pylist()
        assert sorted(found) == sorted(wanted)
