"""Creating tables: the first version, strictly and durably."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import checked_path
from omnigraph.store.io.storage_calls import StorageCall, storage_call
from omnigraph.store.model import Pin
from omnigraph.store.versions.files import Files
from omnigraph.store.versions.gateway import Gateway, annotated
from omnigraph.store.versions.strict_commit import ExactVersion, Placer
from omnigraph.store.versions.torn_versions import TornVersions


@dataclass(frozen=True, slots=True, eq=False)
class NewTable:
    """A table that is to be created.

    Attributes:
        schema: Its columns.
        primary_key: The column by which `Tables.merge_rows` identifies rows.
        metadata: Kept with the schema.
        rows: Its first content, in the same version.
        row_ids: Whether rows keep an identity and the versions that wrote them. Every version
            has to list these, a few bytes for each change that rows are left of.
    """

    schema: pa.Schema
    primary_key: str | None = None
    metadata: Mapping[str, str] | None = None
    rows: pa.Table | None = None
    row_ids: bool = True


class TableCreator:
    """Creates the tables of one root."""

    def __init__(
        self,
        gateway: Gateway,
        files: Files,
        placer: Placer,
        torn: TornVersions,
        exists: Callable[[str], bool],
        uuid_of: Callable[[Pin], str | None],
    ) -> None:
        self._gateway = gateway
        self._files = files
        self._placer = placer
        self._torn = torn
        self._exists = exists
        self._uuid_of = uuid_of

    def create(self, path: str, new: NewTable) -> int:
        """Create a table; EXISTS if there is one. Of racing callers exactly one wins."""
        place = checked_path(StorageCall.TABLE_CREATE.value, path)
        full = annotated(new.schema, new.primary_key, new.metadata)
        content = full.empty_table() if new.rows is None else new.rows.select(full.names).cast(full)
        if self._exists(place):
            raise _exists(place, "it is there")
        # What a power cut left of an earlier attempt is only in the way.
        self._torn.set_aside(place, None)
        first = storage_call(
            StorageCall.TABLE_WRITE,
            place,
            lambda: self._gateway.write_new(place, content, row_ids=new.row_ids),
        )
        first.operation.fragments = self._files.checksums.add_to_names(
            place, first.operation.fragments
        )
        data = self._files.of_fragments(place, first.operation.fragments)
        self._files.sync(place, data)
        uuid = str(first.uuid)
        note, version = self._files.of_commit(place, version=1, read_version=0, uuid=uuid)
        exact = ExactVersion(self._placer, place, 1)
        try:
            storage_call(
                StorageCall.TABLE_CREATE,
                place,
                lambda: self._gateway.create(place, first, exact, row_ids=new.row_ids),
            )
        except StorageFailure as failure:
            self._settle(failure, place, uuid)
        if not exact.placed:
            # It is there, but perhaps it was cut off before it was durable.
            self._files.sync(place, version)
        self._files.discard(note)
        return 1

    def create_empty(self, schemas: Mapping[str, pa.Schema]) -> None:
        """Create several tables without rows at paths of their own; durable on return.

        They are synced together at the end, which is why it takes a fraction of what ``create``
        takes. Until then a power cut may leave any part of them: nothing may refer to them yet, and
        the next attempt removes what is there.

        Args:
            schemas: The columns of each, by its path.
        """
        notes: list[str] = []
        versions: list[str] = []
        for path, schema in schemas.items():
            place = checked_path(StorageCall.TABLE_CREATE.value, path)
            first = self._gateway.empty(schema)
            create = partial(self._gateway.create, place, first, None, row_ids=True)
            uuid = str(first.uuid)
            try:
                storage_call(StorageCall.TABLE_CREATE, place, create)
            except StorageFailure as failure:
                self._settle(failure, place, uuid)
            note, version = self._files.of_commit(place, version=1, read_version=0, uuid=uuid)
            notes += note
            versions += version
        self._files.sync(", ".join(schemas), versions)
        self._files.discard(notes)

    def _settle(self, failure: StorageFailure, place: str, uuid: str) -> None:
        try:
            found = self._uuid_of(Pin(place, 1))
        except StorageFailure as lookup:
            if lookup.kind is not FailureKind.NOT_FOUND:
                raise failure from lookup
            raise failure from None
        if found != uuid:
            text = f"it was created by commit {found}"
            raise _exists(place, text) from failure


def _exists(place: str, text: str) -> StorageFailure:
    return StorageFailure(FailureKind.EXISTS, StorageCall.TABLE_CREATE.value, place, text)
