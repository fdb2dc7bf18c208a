"""The one failure that leaves this layer, and the translation of foreign errors into it.

Only here is an error of Lance or obstore inspected, by evidence: its type first, then its text.
Without evidence the outcome is unknown, and the caller must treat it so. Guard tests pin the texts,
because a new release may word them differently.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from omnigraph.errors import GraphError
from omnigraph.runtime.failpoints import InjectedFault

__all__ = [
    "FailureKind",
    "StorageFailure",
    "damage_behind",
    "is_panic",
    "lance_errors",
    "object_errors",
]


class FailureKind(StrEnum):
    """The kinds of failed storage calls, by what is known about their effect."""

    NOT_FOUND = "not_found"
    EXISTS = "exists"
    CONFLICT = "conflict"
    INVALID = "invalid"
    UNAVAILABLE = "unavailable"
    CORRUPT = "corrupt"
    UNKNOWN = "unknown"


# Calls that move a head or a fork: when they meet damage, it is not known how far they came. The
# names are those of ``StorageCall``, which stands above this module.
_MOVING: Final = frozenset(
    f"table.{name}"
    for name in ("create", "commit", "place", "merge", "stamp", "compact", "fork", "drop_fork")
)
# Calls in which nothing can be invalid but the files: they take no more than a version.
_OPENING: Final = frozenset(f"table.{name}" for name in ("open", "head", "transaction", "forks"))
# Arrow reports trouble of a stream that it reads as an invalid argument, with this in front.
_EXTERNAL: Final = "External error"
# Lance looks for signals while Arrow waits for a batch: then Ctrl-C comes back in this form.
_INTERRUPTED: Final = f"{_EXTERNAL}: KeyboardInterrupt"
_EFFECT_FREE: Final = frozenset(
    {FailureKind.NOT_FOUND, FailureKind.EXISTS, FailureKind.CONFLICT, FailureKind.INVALID}
)


class StorageFailure(Exception):
    """A storage call that failed. Internal: ``core`` turns it into a public error.

    Attributes:
        kind: What is known about the failure.
        verb: The call, such as ``table.commit``.
        place: The path it was about, relative to the root.
    """

    def __init__(self, kind: FailureKind, verb: str, place: str, text: str) -> None:
        # All four travel as positional arguments, so the exception pickles as it is.
        super().__init__(kind, verb, place, text)
        self.kind = kind
        self.verb = verb
        self.place = place
        self.text = text

    @property
    def is_denied(self) -> bool:
        """True if the storage refused the caller: wrong credentials, or no right."""
        return _is_denied(self.text)

    @property
    def effect_free(self) -> bool:
        """True if there is evidence that nothing moved."""
        return self.kind in _EFFECT_FREE

    def __str__(self) -> str:
        return f"{self.verb} of {self.place!r}: {self.kind.value}: {self.text}"


# What Lance says about a file whose content contradicts itself. Before all other phrases about
# reading: it also calls a damaged file an invalid input of the user.
_DAMAGE: Final = (
    "corrupt file",
    "failed to decode protobuf",
    "encoding envelope",
    "outside metadata region",
    "is outside file",
    "buffer offsets but",
    "is missing its encoding",
    "miniblock",
    "column metadata region",
    "manifest length does not match",
    "magic number",
    "does not appear to be a lance file",
    "invalid format",
    "file size is too small",
    "invalid range",
    "arrow file does not contain",
    # Columns are named after the schema of the graph, which the table was made for.
    "no field named",
)

_CUT: Final = ("file size is too small", "does not appear to be a lance file", "is outside file")

# Text of an error, in lower case, and what it proves. The first match counts, so the narrow
# phrases stand before the wide ones.
_TEXTS: Final[tuple[tuple[str, FailureKind], ...]] = (
    ("too many concurrent writers", FailureKind.CONFLICT),
    ("commit conflict", FailureKind.CONFLICT),
    ("incompatible transaction", FailureKind.CONFLICT),
    ("ref conflict", FailureKind.CONFLICT),
    # A fork whose folder another writer has begun to fill; Lance reports it in this odd way.
    ("clone operation should not enter", FailureKind.CONFLICT),
    ("dataset already exists", FailureKind.EXISTS),
    ("branch already exists", FailureKind.EXISTS),
    ("commit result", FailureKind.UNKNOWN),
    # Before the phrases about the network: this text names a path, and a path may say anything.
    ("was not found", FailureKind.NOT_FOUND),
    ("error sending request", FailureKind.UNAVAILABLE),
    ("connection refused", FailureKind.UNAVAILABLE),
    ("timed out", FailureKind.UNAVAILABLE),
    ("service unavailable", FailureKind.UNAVAILABLE),
    ("slowdown", FailureKind.UNAVAILABLE),
    ("no space left on device", FailureKind.UNAVAILABLE),
    ("quota exceeded", FailureKind.UNAVAILABLE),
    ("read-only file system", FailureKind.UNAVAILABLE),
    ("permission denied", FailureKind.UNAVAILABLE),
    ("operation not permitted", FailureKind.UNAVAILABLE),
    ("input/output error", FailureKind.UNAVAILABLE),
    ("too many open files", FailureKind.UNAVAILABLE),
    ("not found", FailureKind.NOT_FOUND),
    ("ref not found", FailureKind.NOT_FOUND),
    ("no such file", FailureKind.NOT_FOUND),
    ("nosuchkey", FailureKind.NOT_FOUND),
    ("invalid user input", FailureKind.INVALID),
    ("append with different schema", FailureKind.INVALID),
    ("schema mismatch", FailureKind.INVALID),
    ("schema error", FailureKind.INVALID),
    ("schema contains", FailureKind.INVALID),
    ("ambiguous merge", FailureKind.INVALID),
    ("found matching row", FailureKind.CONFLICT),
)


# How object storage says that it does not let the caller in, in lower case.
_DENIALS: Final = (
    "403 forbidden",
    "401 unauthorized",
    "lacked the necessary privileges",
    "lacked valid authentication credentials",
    "accessdenied",
    "invalidaccesskeyid",
    "signaturedoesnotmatch",
)


def _is_denied(text: str) -> bool:
    lower = text.lower()
    return any(phrase in lower for phrase in _DENIALS)


@contextmanager
def lance_errors(verb: str, place: str) -> Iterator[None]:
    """Translate what Lance raises. A lack of memory is none of it, and stays what it is."""
    try:
        yield
    except (StorageFailure, GraphError, MemoryError):
        raise
    except Exception as error:
        if str(error).startswith(_INTERRUPTED):
            raise KeyboardInterrupt from error
        raise _failure(_lance_kind(error, verb), verb, place, error) from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise _failure(_panic_kind(error, verb), verb, place, error) from error


def _failure(kind: FailureKind, verb: str, place: str, error: BaseException) -> StorageFailure:
    text = _damage(error) if kind is FailureKind.CORRUPT else _text(error)
    return StorageFailure(kind, verb, place, text)


def damage_behind(error: BaseException, verb: str) -> str | None:
    """Describe what is wrong with a file that Lance failed at; None if nothing is."""
    if isinstance(error, StorageFailure | GraphError | MemoryError):
        return None
    if isinstance(error, Exception):
        kind: FailureKind | None = _lance_kind(error, verb)
    else:
        kind = _panic_kind(error, verb) if is_panic(error) else None
    return _damage(error) if kind is FailureKind.CORRUPT else None


def _damage(error: BaseException) -> str:
    """The damage in plain words; those of the engine are in the error behind it."""
    text = str(error).lower()
    return "it is cut short" if any(phrase in text for phrase in _CUT) else "it cannot be decoded"


def is_panic(error: BaseException) -> bool:
    """True for a panic of a native library, which is no ``Exception``."""
    return type(error).__name__ == "PanicException"


def _panic_kind(error: BaseException, verb: str) -> FailureKind:
    if _by_text(error) is FailureKind.UNAVAILABLE:
        return FailureKind.UNAVAILABLE
    # Lance panics when a file says something that no writer would write.
    return FailureKind.UNKNOWN if verb in _MOVING else FailureKind.CORRUPT


def _lance_kind(error: Exception, verb: str) -> FailureKind:
    kind = _general_kind(error, verb)
    if kind is FailureKind.INVALID and verb in _OPENING:
        return FailureKind.CORRUPT
    return kind


def _general_kind(error: Exception, verb: str) -> FailureKind:
    if isinstance(error, InjectedFault):
        return FailureKind.UNAVAILABLE
    if type(error).__name__ == "CommitConflictError":
        return FailureKind.CONFLICT
    if isinstance(error, FileNotFoundError):
        return FailureKind.NOT_FOUND
    if _is_denied(str(error)):
        # Which of its requests was refused, a call of many does not say.
        return FailureKind.UNKNOWN if verb in _MOVING else FailureKind.UNAVAILABLE
    if isinstance(error, OSError | ValueError | RuntimeError):
        found = _by_text(error)
        if found is FailureKind.CORRUPT and verb in _MOVING:
            return FailureKind.UNKNOWN
        if found is None and isinstance(error, ValueError) and _EXTERNAL not in str(error):
            # Covers pyarrow's ArrowInvalid too: the arguments were refused, nothing was sent.
            return FailureKind.INVALID
        return found or FailureKind.UNKNOWN
    if isinstance(error, TypeError | KeyError | NotImplementedError):
        return FailureKind.INVALID
    return FailureKind.UNKNOWN


@contextmanager
def object_errors(verb: str, place: str) -> Iterator[None]:
    """Translate what obstore and the operating system raise."""
    try:
        yield
    except (StorageFailure, MemoryError):
        raise
    except Exception as error:
        raise StorageFailure(_object_kind(error), verb, place, _text(error)) from error


# By name: importing obstore is left to the module that talks to it.
_OBJECT_KINDS: Final = {
    "FileNotFoundError": FailureKind.NOT_FOUND,
    "NotFoundError": FailureKind.NOT_FOUND,
    "AlreadyExistsError": FailureKind.EXISTS,
    "FileExistsError": FailureKind.EXISTS,
    "PreconditionError": FailureKind.CONFLICT,
    "InvalidPathError": FailureKind.INVALID,
    "NotSupportedError": FailureKind.INVALID,
    "UnknownConfigurationKeyError": FailureKind.INVALID,
    "NotADirectoryError": FailureKind.INVALID,
    "IsADirectoryError": FailureKind.INVALID,
    "ValueError": FailureKind.INVALID,
    # Refused before anything is done, and the same request may pass later.
    "PermissionDeniedError": FailureKind.UNAVAILABLE,
    "PermissionError": FailureKind.UNAVAILABLE,
    "UnauthenticatedError": FailureKind.UNAVAILABLE,
}


def _object_kind(error: Exception) -> FailureKind:
    if isinstance(error, InjectedFault):
        return FailureKind.UNAVAILABLE
    if found := _OBJECT_KINDS.get(type(error).__name__):
        return found
    found = _by_text(error)
    # A text that mentions a missing thing is no proof here: obstore has a type for that.
    return found if found is FailureKind.UNAVAILABLE else FailureKind.UNKNOWN


def _by_text(error: BaseException) -> FailureKind | None:
    text = str(error).lower()
    if any(phrase in text for phrase in _DAMAGE):
        return FailureKind.CORRUPT
    return next((kind for phrase, kind in _TEXTS if phrase in text), None)


def _text(error: BaseException) -> str:
    # Lance appends the place in its own source; the first line says what happened.
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
