"""The error tree, and the codes that travel with it.

A class stands for what the caller does next; a finer distinction is a ``Code``. Classes, codes,
effects and the keys of ``details`` are API, the text is not. This module imports nothing of ours.

    GraphError
    ├── InvalidInput         correct the request
    ├── Unauthenticated      say who you are
    ├── Forbidden            ask for the right
    ├── NotFound             stop, or create it
    ├── Gone                 take a new baseline
    ├── Conflict             start over from a fresh base, or resolve by hand
    ├── PreconditionFailed   read again, then decide
    ├── LimitExceeded        ask for less
    ├── Cancelled            nothing; you asked for it
    ├── Busy                 wait
    ├── ConstraintViolated   correct the data
    ├── RecoveryRequired     settle the named operation
    ├── Unavailable          back off, try again
    ├── Corrupt              call a human
    └── Internal             report a bug
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

__all__ = [
    "CLASS_OF",
    "Busy",
    "Cancelled",
    "Code",
    "Conflict",
    "ConstraintViolated",
    "Corrupt",
    "Effect",
    "Forbidden",
    "Gone",
    "GraphError",
    "Internal",
    "InvalidInput",
    "JsonValue",
    "LimitExceeded",
    "NotFound",
    "PreconditionFailed",
    "RecoveryRequired",
    "Unauthenticated",
    "Unavailable",
]

# Read-only containers: covariant, so a caller may hand over a list of string dicts as it is.
JsonValue: TypeAlias = (
    "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
)


class Effect(StrEnum):
    """The effect of a failed operation on what is stored, as far as it is known."""

    NONE = "none"
    UNKNOWN = "unknown"


class Code(StrEnum):
    """Every reason to fail. Append only: a published code keeps its spelling and its class."""

    INPUT_INVALID = "input_invalid"
    SYNTAX = "syntax"
    SCHEMA_INVALID = "schema_invalid"
    QUERY_INVALID = "query_invalid"
    PARAMS_INVALID = "params_invalid"
    SETTINGS_INVALID = "settings_invalid"
    NAME_INVALID = "name_invalid"
    MIGRATION_UNSUPPORTED = "migration_unsupported"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    FILE_NOT_FOUND = "file_not_found"
    GONE = "gone"
    CONFLICT = "conflict"
    PRECONDITION_FAILED = "precondition_failed"
    LIMIT_EXCEEDED = "limit_exceeded"
    BUSY = "busy"
    CONSTRAINT_VIOLATED = "constraint_violated"
    RECOVERY_REQUIRED = "recovery_required"
    UNAVAILABLE = "unavailable"
    CORRUPT = "corrupt"
    INTERNAL = "internal"
    FORMAT_UNSUPPORTED = "format_unsupported"
    INTENT_UNREADABLE = "intent_unreadable"
    HEAD_CONTENTION = "head_contention"
    EXPECTED_VERSION_MISMATCH = "expected_version_mismatch"
    BRANCH_REPLACED = "branch_replaced"
    BRANCH_EXISTS = "branch_exists"
    BRANCH_IN_USE = "branch_in_use"
    WRITER_ACTIVE = "writer_active"
    GRAPH_EXISTS = "graph_exists"
    INIT_IN_PROGRESS = "init_in_progress"
    OUTCOME_UNKNOWN = "outcome_unknown"
    READ_ONLY = "read_only"
    ENGINE_UNAVAILABLE = "engine_unavailable"
    GRAPH_MOVED = "graph_moved"
    CLOSED = "closed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    FOLDER_NOT_EMPTY = "folder_not_empty"
    TARGET_NOT_SHARED = "target_not_shared"
    MERGE_CONFLICT = "merge_conflict"
    STORAGE_DENIED = "storage_denied"
    PATH_NOT_SHARED = "path_not_shared"
    OUT_OF_MEMORY = "out_of_memory"
    TAG_EXISTS = "tag_exists"
    BRANCH_PROTECTED = "branch_protected"
    TRANSACTION_INVALID = "transaction_invalid"
    COPY_UNFINISHED = "copy_unfinished"
    SCHEMA_CHANGED = "schema_changed"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"


class GraphError(Exception):
    """Root of the tree; never raised itself.

    Attributes:
        code: The reason. Decides the class, see ``CLASS_OF``.
        effect: Whether storage may have moved. Each class has a default, which the keyword
            ``effect`` overrides.
        details: Plain values that belong to the code, ready for JSON.
    """

    effect: Effect = Effect.NONE

    # `code` and `text` are the positional arguments that BaseException pickles; the rest sits in
    # the instance dictionary, which it pickles too. That is all the support copying needs.
    def __init__(self, code: Code, text: str, /, **details: JsonValue) -> None:
        super().__init__(code, text)
        if not isinstance(self, CLASS_OF[code]):
            # A remote caller rebuilds the class from the code, so the pair must agree.
            raise TypeError(f"{code!r} belongs to {CLASS_OF[code].__name__}, not {type(self)}")
        self.code = code
        # Not a named argument, or no caller could spread a dictionary of details type-safely.
        if (effect := details.pop("effect", None)) is not None:
            self.effect = Effect(str(effect))
        self.details: dict[str, JsonValue] = details

    def __str__(self) -> str:
        return str(self.args[1])

    def to_json(self) -> dict[str, JsonValue]:
        """Describe the error in plain values; ``from_json`` is the way back."""
        return {
            "kind": CLASS_OF[self.code].__name__,
            "code": self.code.value,
            "message": str(self),
            "effect": self.effect.value,
            "details": self.details,
        }

    @staticmethod
    def from_json(payload: Mapping[str, Any]) -> "GraphError":
        """Rebuild an error of this or another version.

        A code from a newer release falls back to the default code of its kind and is kept in
        ``details["unknown_code"]``. What cannot be read at all becomes ``Internal`` with an
        unknown effect, because nothing about it is certain.
        """
        try:
            text, details = str(payload["message"]), dict(payload["details"])
            effect, raw = Effect(payload["effect"]), str(payload["code"])
            kind = payload.get("kind")
        except (KeyError, TypeError, ValueError, AttributeError):
            return Internal(Code.INTERNAL, "unreadable error payload", effect=Effect.UNKNOWN)
        if raw in _VALUES:
            error = CLASS_OF[Code(raw)](Code(raw), text, effect=effect)
        else:
            family = next((c for c in _CODES if c.__name__ == kind), Internal)
            error = family.default(text, effect=effect)
            details["unknown_code"] = raw
        # Assigned, not passed: a foreign key may be any text, even one that names an argument.
        error.details = details
        return error

    @classmethod
    def default(cls, text: str, *, effect: Effect | None = None) -> Self:
        """Make an error of this class with the class's own code."""
        own = next(codes[0] for family, codes in _CODES.items() if issubclass(cls, family))
        return cls(own, text, effect=effect)

    def _records(self, key: str) -> list[dict[str, JsonValue]]:
        found = self.details.get(key)
        if not isinstance(found, Sequence):
            return []
        return [dict(record) for record in found if isinstance(record, Mapping)]


class InvalidInput(GraphError):
    """The request is wrong as written: syntax, types, names, parameters, settings."""

    @property
    def diagnostics(self) -> list[dict[str, JsonValue]]:
        """The findings of the compiler, each with its code, message and place."""
        return self._records("diagnostics")


class Unauthenticated(GraphError):
    """The caller is not known."""


class Forbidden(GraphError):
    """The caller is known and may not do this."""


class NotFound(GraphError):
    """The named thing does not exist."""


class Gone(GraphError):
    """The named thing existed; its history has been reclaimed."""


class Conflict(GraphError):
    """Another write came first, or two branches disagree."""

    @property
    def conflicts(self) -> list[dict[str, JsonValue]]:
        """Each point of disagreement."""
        return self._records("conflicts")


class PreconditionFailed(GraphError):
    """The state that the caller made the request depend on is no longer there."""


class LimitExceeded(GraphError):
    """A bound was hit; ``details`` names it."""


class Cancelled(GraphError):
    """Another thread cancelled the call, by the token that it was given."""


class Busy(GraphError):
    """Too much is going on right now."""


class ConstraintViolated(GraphError):
    """The data breaks rules of the schema."""

    @property
    def violations(self) -> list[dict[str, JsonValue]]:
        """Each broken rule, with the entity and the place it came from."""
        return self._records("violations")


class RecoveryRequired(GraphError):
    """A write stopped half-way; its outcome is settled by recovery."""

    effect = Effect.UNKNOWN


class Unavailable(GraphError):
    """Storage or a peer did not answer."""


class Corrupt(GraphError):
    """The stored data contradicts itself."""


class Internal(GraphError):
    """A promise of this package was broken by the package."""


# One row per class; its first code is the class's own. The inverse below decides everything else.
_CODES: Final[Mapping[type[GraphError], tuple[Code, ...]]] = MappingProxyType(
    {
        InvalidInput: (
            Code.INPUT_INVALID,
            Code.SYNTAX,
            Code.SCHEMA_INVALID,
            Code.QUERY_INVALID,
            Code.PARAMS_INVALID,
            Code.SETTINGS_INVALID,
            Code.NAME_INVALID,
            Code.MIGRATION_UNSUPPORTED,
            Code.ENGINE_UNAVAILABLE,
            Code.CLOSED,
            Code.FOLDER_NOT_EMPTY,
            Code.TARGET_NOT_SHARED,
            Code.PATH_NOT_SHARED,
            Code.TRANSACTION_INVALID,
        ),
        Unauthenticated: (Code.UNAUTHENTICATED,),
        Forbidden: (
            Code.FORBIDDEN,
            Code.READ_ONLY,
            Code.STORAGE_DENIED,
            Code.BRANCH_PROTECTED,
        ),
        NotFound: (Code.NOT_FOUND, Code.FILE_NOT_FOUND),
        Gone: (Code.GONE,),
        Conflict: (
            Code.CONFLICT,
            Code.HEAD_CONTENTION,
            Code.EXPECTED_VERSION_MISMATCH,
            Code.BRANCH_REPLACED,
            Code.BRANCH_EXISTS,
            Code.BRANCH_IN_USE,
            Code.WRITER_ACTIVE,
            Code.GRAPH_EXISTS,
            Code.INIT_IN_PROGRESS,
            Code.COPY_UNFINISHED,
            Code.IDEMPOTENCY_KEY_REUSED,
            Code.MERGE_CONFLICT,
            Code.SCHEMA_CHANGED,
            Code.TAG_EXISTS,
        ),
        PreconditionFailed: (Code.PRECONDITION_FAILED,),
        LimitExceeded: (Code.LIMIT_EXCEEDED, Code.TIMEOUT, Code.OUT_OF_MEMORY),
        Cancelled: (Code.CANCELLED,),
        Busy: (Code.BUSY,),
        ConstraintViolated: (Code.CONSTRAINT_VIOLATED,),
        RecoveryRequired: (Code.RECOVERY_REQUIRED, Code.OUTCOME_UNKNOWN),
        Unavailable: (Code.UNAVAILABLE,),
        Corrupt: (
            Code.CORRUPT,
            Code.FORMAT_UNSUPPORTED,
            Code.INTENT_UNREADABLE,
            Code.GRAPH_MOVED,
        ),
        Internal: (Code.INTERNAL,),
    }
)
CLASS_OF: Final[Mapping[Code, type[GraphError]]] = MappingProxyType(
    {code: cls for cls, codes in _CODES.items() for code in codes}
)
_VALUES: Final = frozenset(code.value for code in Code)
