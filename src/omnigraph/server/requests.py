"""Bodies and query strings of requests. Unknown fields are refused; values are checked here."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

Limit = Annotated[int, msgspec.Meta(ge=1, le=8192)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=86_400)]
Granularity = Literal["property", "row"]
ListedViolations = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Mode = Literal["append", "merge", "overwrite"]
Operation = Literal["insert", "update", "delete"]


class Input(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of a request whose fields are known.

    Attributes:
        older_names: Names that fields had before, and that are still understood.
    """

    older_names: ClassVar[dict[str, str]] = {}


_OLDER_NAMES = {"query_source": "query", "query_name": "name"}


class QueryInput(Input):
    """A reading query."""

    older_names = _OLDER_NAMES

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    timeout: Seconds | None = None
    column_types: bool = False


class ReadInput(Input):
    """A reading query as clients asked before there was `/query`."""

    query_source: str
    query_name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None


class ChangeInput(Input):
    """A changing query."""

    older_names = _OLDER_NAMES

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None
    branch: str | None = None
    message: str | None = None
    timeout: Seconds | None = None
    retries: Annotated[int, msgspec.Meta(ge=0)] | None = None


class InvokeInput(Input):
    """A call of a stored query."""

    params: dict[str, Any] | None = None
    branch: str | None = None
    snapshot: str | None = None
    expect_mutation: bool | None = None
    message: str | None = None
    column_types: bool = False


class LoadInput(Input):
    """A load whose data stands in the body, as NDJSON in a text, or is named by its address."""

    data: str | None = None
    uri: str | None = None
    format: str | None = None
    type: str | None = None
    branch: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    mode: Mode = "merge"
    replace: bool = False
    cascade: bool = False
    message: str | None = None
    violations_max: ListedViolations = 1000


class LoadTerms(Input):
    """The query string of a streamed load."""

    branch: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    mode: Mode = "merge"
    type: str | None = None
    replace: bool = False
    cascade: bool = False
    message: str | None = None
    violations_max: ListedViolations = 1000


class ExportInput(Input):
    """An export as the original asks for it."""

    branch: str | None = None
    type_names: list[str] | None = None
    snapshot: str | None = None


class ExportTerms(Input):
    """The query string of an export."""

    branch: str | None = None
    at: str | None = None
    types: list[str] | None = None
    compression: Literal["none", "gzip", "zstd"] | None = None


class NewBranchInput(Input):
    """A branch to be made."""

    name: str
    from_: str = msgspec.field(default="main", name="from")
    at: str | None = None


class DeleteBranchTerms(Input):
    """The head that a branch has to have, to be deleted."""

    if_head: str | None = None


class ResolutionsInput(Input):
    """A file of resolutions, by its name and its text."""

    text: str
    name: str = "resolutions"


class MergeInput(Input):
    """A merge."""

    source: str
    target: str = "main"
    delete_branch: bool = False
    dry_run: bool = False
    resolve: Literal["ours", "theirs"] | ResolutionsInput | None = None
    granularity: Granularity = "property"
    message: str | None = None


class ResetInput(Input):
    """A reset of a branch to an older state."""

    branch: str
    to: str
    if_head: str | None = None
    dry_run: bool = False
    message: str | None = None


class RevertInput(Input):
    """A commit that is taken back."""

    commit: str
    branch: str | None = None
    dry_run: bool = False
    resolve: Literal["ours", "theirs"] | ResolutionsInput | None = None
    message: str | None = None


class ProtectInput(Input):
    """A branch that is to be protected, or not any more."""

    branch: str
    protected: bool = True
    message: str | None = None


class RenameInput(Input):
    """A branch, and the name that it gets."""

    branch: str
    to: str
    message: str | None = None


class TagInput(Input):
    """A tag to be made."""

    name: str
    at: str = "main"
    message: str | None = None
    force: bool = False


class SchemaInput(Input):
    """A wanted schema."""

    schema_source: str
    branch: str | None = None
    allow_data_loss: bool = False
    message: str | None = None


class BranchTerms(Input):
    """A branch, by the query string."""

    branch: str | None = None
    at: str | None = None


class SnapshotTerms(BranchTerms):
    """A state, by the query string."""

    version: Annotated[int, msgspec.Meta(ge=1)] | None = None


class CommitsTerms(Input):
    """A page of commits."""

    branch: str | None = None
    actor: str | None = None
    idempotency_key: str | None = None
    limit: Limit | None = None
    cursor: str | None = None


class LogTerms(Input):
    """The branches whose commits are drawn."""

    branch: str | None = None
    branches: list[str] | None = None
    limit: Limit = 20


class ChangesTerms(Input):
    """A page of changes of one commit, or of two states."""

    page_token: str | None = None
    limit: Limit = 1000
    kind: list[Literal["node", "edge"]] | None = None
    type: list[str] | None = None
    op: list[Operation] | None = None


class DiffTerms(ChangesTerms):
    """A page of a diff of two states."""

    from_: str = msgspec.field(default="main", name="from")
    to: str | None = None
    after_type: str | None = None
    after_id: str | None = None


class FeedTerms(ChangesTerms):
    """A page of the change feed."""

    branch: str | None = None
    cursor: str | None = None
    start: str | None = None


class BaselineInput(Input):
    """A baseline of the change feed."""

    branch: str | None = None
    kind: list[Literal["node", "edge"]] | None = None
    type: list[str] | None = None
    op: list[Operation] | None = None


class BlobTerms(Input):
    """A blob of one entity."""

    entity: Literal["node", "edge"]
    type: str
    id: str
    property: str
    branch: str | None = None
    snapshot: str | None = None


class BlameTerms(Input):
    """The entity whose history is asked for."""

    type: str
    id: str
    branch: str | None = None
    at: str | None = None
    limit: Limit | None = None


class MaintenanceInput(Input):
    """A branch whose tables are to be maintained."""

    branch: str | None = None
    message: str | None = None


class CleanupInput(Input):
    """The states that a clean-up keeps."""

    keep: int | None = None
    older_than: str | None = None
    dry_run: bool = False
    set_aside: bool = False


class VerifyInput(Input):
    """The depth of a verification."""

    depth: Literal["metadata", "files", "rows"] = "metadata"


class RepairInput(Input):
    """A repair, with the permission to go on where rows were changed."""

    dry_run: bool = False
    force: bool = False


class EmbedInput(Input):
    """The vectors that are to be computed."""

    missing: bool = True
    types: list[str] | None = None
    branch: str | None = None
    batch: Annotated[int, msgspec.Meta(ge=1)] | None = None
    message: str | None = None


class StatementInput(Input):
    """A statement of a transaction: a query that reads, one that changes, or rows by type."""

    query: str | None = None
    mutate: str | None = None
    name: str | None = None
    params: dict[str, Any] | None = None
    rows: dict[str, list[dict[str, Any]]] | None = None
    mode: Literal["append", "merge"] = "append"


class TransactionInput(Input):
    """Statements that see one another, and become one commit."""

    statements: Annotated[list[StatementInput], msgspec.Meta(max_length=1000)]
    branch: str | None = None
    base: str | None = None
    if_commit: str | None = None
    message: str | None = None
    commit: bool = True
    timeout: Seconds | None = None


class JobInput(Input):
    """Work that outlives its request."""

    kind: Literal["export", "merge", "optimize", "indices", "cleanup", "verify", "embed"]
    branch: str | None = None
    at: str | None = None
    types: list[str] | None = None
    format: Literal["ndjson", "arrow", "parquet"] = "ndjson"
    source: str | None = None
    resolve: Literal["ours", "theirs"] | ResolutionsInput | None = None
    granularity: Granularity = "property"
    delete_branch: bool = False
    message: str | None = None
    depth: Literal["metadata", "files", "rows"] = "metadata"
    keep: int | None = None
    older_than: str | None = None


class NothingInput(Input):
    """A request without any field."""
