"""The accepted schema of a graph: immutable files named by their digest, and readable copies.

Which schema is in force is part of the branch's head, so it changes in the same write as the data.
The catalog itself lies in a file named by its digest, written before it is referred to and never
changed. `_schema.pg` and its companions are copies for people and older tools.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from omnigraph.core.layout import SCHEMA_IR, SCHEMA_STATE, SCHEMA_TEXT, schema_path
from omnigraph.core.storage_errors import damaged
from omnigraph.lang.catalog import canonical
from omnigraph.lang.catalog.model import Catalog
from omnigraph.runtime import telemetry
from omnigraph.store.failures import FailureKind, StorageFailure
from omnigraph.store.io.objects import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedSchema:
    """A catalog, the text it was compiled from, and the digest that names it."""

    catalog: Catalog
    text: str

    @property
    def digest(self) -> str:
        """The digest of the canonical catalog."""
        return canonical.digest(self.catalog)


class SchemaFiles:
    """The schema files of one graph."""

    __slots__ = ("_cache", "_objects")

    def __init__(self, objects: ObjectStore) -> None:
        """Keep them in this store."""
        self._objects = objects
        self._cache: dict[str, AcceptedSchema] = {}

    def keep(self, schema: AcceptedSchema) -> str:
        """Store a schema under its digest; what is stored already keeps the text that it has."""
        plain = {"catalog": canonical.dumps(schema.catalog), "text": schema.text}
        data = json.dumps(plain, sort_keys=True).encode()
        try:
            self._objects.put_new(schema_path(schema.digest), data)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.EXISTS:
                raise
        else:
            self._cache[schema.digest] = schema
        return schema.digest

    def remember(self, schema: AcceptedSchema) -> None:
        """Know a schema that is stored elsewhere."""
        self._cache[schema.digest] = schema

    def load(self, digest: str) -> AcceptedSchema:
        """The schema of a digest."""
        known = self._cache.get(digest)
        if known is not None:
            return known
        place = schema_path(digest)
        try:
            plain = json.loads(self._objects.get(place))
            schema = AcceptedSchema(
                catalog=canonical.loads(plain["catalog"]), text=str(plain["text"])
            )
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            raise damaged(place, "the schema is missing") from failure
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(place, f"the schema cannot be read: {error}") from error
        if schema.digest != digest:
            raise damaged(place, "the schema is not the one that its name says")
        self._cache[digest] = schema
        return schema

    def keep_copies(self, digest: str) -> None:
        """Bring the readable copies up to date, if it can be done: what counts is the manifest."""
        try:
            self.write_copies(self.load(digest))
        except StorageFailure:
            telemetry.count("schema.copies_left")

    def drift(self, schema: AcceptedSchema) -> tuple[str, ...]:
        """Each readable copy that does not say what this schema says, and why."""
        return tuple(
            f"{name} {reason}"
            for name, wanted in _copies(schema).items()
            if (reason := self._difference(name, wanted)) is not None
        )

    def _difference(self, name: str, wanted: bytes) -> str | None:
        try:
            found = self._objects.get(name)
        except StorageFailure as failure:
            if failure.kind is not FailureKind.NOT_FOUND:
                raise
            return "is missing"
        return None if found == wanted else "is not the schema that is in force"

    def write_copies(self, schema: AcceptedSchema) -> None:
        """Bring the readable copies up to date."""
        for name, content in _copies(schema).items():
            self._objects.put(name, content)


def _copies(schema: AcceptedSchema) -> dict[str, bytes]:
    """The readable copies of a schema, by name."""
    text = schema.text.encode()
    ir = canonical.dumps(schema.catalog).encode()
    state = {
        "format": 1,
        "digest": schema.digest,
        "shape_digest": canonical.shape_digest(schema.catalog),
        "source_sha256": hashlib.sha256(text).hexdigest(),
        "ir_sha256": hashlib.sha256(ir).hexdigest(),
    }
    return {
        SCHEMA_TEXT: text,
        SCHEMA_IR: ir,
        SCHEMA_STATE: json.dumps(state, indent=1, sort_keys=True).encode(),
    }
