"""The one mapping from the error tree to statuses and bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NotRequired, TypedDict

from omnigraph import errors
from omnigraph.errors import Code, GraphError
from omnigraph.rules.unique import TAKEN
from omnigraph.rules.violation import Rule

STATUS_OF: Final[Mapping[type[GraphError], int]] = {
    errors.InvalidInput: 400,
    errors.ConstraintViolated: 400,
    errors.Unauthenticated: 401,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.Gone: 410,
    errors.PreconditionFailed: 412,
    errors.LimitExceeded: 413,
    errors.Busy: 429,
    errors.Cancelled: 499,
    errors.Corrupt: 500,
    errors.Internal: 500,
    errors.RecoveryRequired: 503,
    errors.Unavailable: 503,
}
# The words of the original for a status; where it has none, clients look at the fields.
WORD_OF: Final[Mapping[int, str]] = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    429: "too_many_requests",
    500: "internal",
}
_TIMEOUT_STATUS: Final = 408
# The text for clients of failures that only the log of the server describes.
_HIDDEN: Final = "the server could not do this; its log has the reason under the request id"


class ErrorOutput(TypedDict):
    """A failed request."""

    error: str
    request_id: str
    code: NotRequired[str]
    graph_error: NotRequired[dict[str, Any]]
    merge_conflicts: NotRequired[list[dict[str, Any]]]
    violations: NotRequired[list[dict[str, Any]]]
    diagnostic: NotRequired[list[dict[str, Any]]]
    manifest_conflict: NotRequired[dict[str, Any]]
    published_dataset_version_conflict: NotRequired[dict[str, Any]]
    key_conflict: NotRequired[dict[str, Any]]
    precondition_failure: NotRequired[dict[str, Any]]
    resource_limit: NotRequired[dict[str, Any]]
    recovery_required: NotRequired[dict[str, Any]]
    change_feed_gap: NotRequired[dict[str, Any]]
    change_diff_refusal: NotRequired[dict[str, Any]]
    blob_range: NotRequired[dict[str, Any]]


class HttpFailure(Exception):
    """A failure of the protocol, not of a graph: a wrong method, path or media type."""

    def __init__(self, status: int, text: str, **fields: Any) -> None:
        """Answer with this status and text."""
        super().__init__(text)
        self.status = status
        self.fields = fields


def status_of(error: GraphError) -> int:
    """The status of an error."""
    if error.code is Code.TIMEOUT:
        return _TIMEOUT_STATUS
    if error.code is Code.CLOSED:
        return 503
    if _taken_key(error) is not None:
        return 409
    return next(status for kind, status in STATUS_OF.items() if isinstance(error, kind))


def body_of(error: GraphError, request_id: str) -> ErrorOutput:
    """The body of an error; nothing of the server's insides is in it."""
    status = status_of(error)
    hidden = status == 500 or error.code in (Code.CLOSED, Code.STORAGE_DENIED)
    text = _HIDDEN if hidden else str(error)
    found: ErrorOutput = {"error": text, "request_id": request_id}
    if (word := WORD_OF.get(status)) is not None:
        found["code"] = word
    tree = error.to_json()
    if hidden:
        tree = {**tree, "message": text, "details": {}}
    found["graph_error"] = dict(tree)
    if not hidden:
        _add_fields(found, error)
    return found


def _add_fields(found: ErrorOutput, error: GraphError) -> None:
    details = error.details
    match error:
        case errors.Conflict() if error.code is Code.MERGE_CONFLICT:
            found["merge_conflicts"] = [dict(item) for item in error.conflicts]
        case errors.Conflict() if error.code is Code.EXPECTED_VERSION_MISMATCH:
            first = error.conflicts[0] if error.conflicts else {}
            found["manifest_conflict"] = dict(first)
            kind, _, name = str(first.get("table_key", "")).partition(":")
            found["published_dataset_version_conflict"] = {
                "entity_kind": kind,
                "type_name": name,
                "expected_published_dataset_version": first.get("expected"),
                "actual_published_dataset_version": first.get("actual"),
            }
        case errors.ConstraintViolated():
            found["violations"] = [dict(item) for item in error.violations]
            if (taken := _taken_key(error)) is not None:
                found["key_conflict"] = taken
        case errors.InvalidInput() if error.diagnostics:
            found["diagnostic"] = [dict(item) for item in error.diagnostics]
        case errors.PreconditionFailed():
            sides = {name: details.get(name) for name in ("expected", "actual")}
            found["precondition_failure"] = sides
        case errors.LimitExceeded():
            resource = details.get("resource") or details.get("bound") or details.get("limit")
            most = details.get("most", details.get("limit"))
            actual = details.get("actual")
            found["resource_limit"] = {"resource": resource, "limit": most, "actual": actual}
        case errors.RecoveryRequired():
            found["recovery_required"] = {"operation_id": details.get("operation_id")}
        case errors.Gone():
            gap = {"first_unreadable_commit_id": details.get("commit")}
            found["change_feed_gap"] = {**gap, "branch": details.get("branch")}
        case _:
            pass


def _taken_key(error: GraphError) -> dict[str, Any] | None:
    """The first entity of a strict insert that exists already, if nothing else is wrong."""
    found = error.violations if isinstance(error, errors.ConstraintViolated) else []
    if not found or not all(
        each.get("rule") == Rule.KEY and str(each.get("message")).endswith(TAKEN) for each in found
    ):
        return None
    names = {"entity_kind": "kind", "type_name": "type", "entity_id": "id"}
    return {name: found[0].get(field) for name, field in names.items()}


def protocol_body(failure: HttpFailure, request_id: str) -> dict[str, Any]:
    """The body of a failure of the protocol."""
    found: dict[str, Any] = {"error": str(failure), "request_id": request_id}
    if (word := WORD_OF.get(failure.status)) is not None:
        found["code"] = word
    return {**found, **failure.fields}
