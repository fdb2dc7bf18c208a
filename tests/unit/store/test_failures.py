"""What Lance and the operating system say, and what it proves."""

import pytest

from omnigraph.core.storage_errors import public
from omnigraph.errors import Code, Corrupt, Gone, Unavailable
from omnigraph.store.failures import FailureKind, StorageFailure, lance_errors
from omnigraph.store.io.storage_calls import StorageCall, storage_call


class PanicException(BaseException):
    """As native code raises it; its own class cannot be imported."""


def failed(error: BaseException, call: StorageCall) -> StorageFailure:
    def fail() -> None:
        raise error

    with pytest.raises(StorageFailure) as caught:
        storage_call(call, "nodes/1", fail)
    return caught.value


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (StorageCall.TABLE_SCAN, FailureKind.CORRUPT),
        (StorageCall.TABLE_INDEX, FailureKind.CORRUPT),
        (StorageCall.TABLE_COMMIT, FailureKind.UNKNOWN),
    ],
)
def test_a_panic_is_a_failure(call: StorageCall, kind: FailureKind) -> None:
    assert failed(PanicException("called `Option::unwrap()` on a `None` value"), call).kind is kind


def test_a_panic_over_a_full_disk() -> None:
    panic = PanicException("unwrap: No space left on device (os error 28)")
    assert failed(panic, StorageCall.TABLE_INDEX).kind is FailureKind.UNAVAILABLE


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), GeneratorExit()])
def test_what_is_for_the_interpreter_passes(error: BaseException) -> None:
    with pytest.raises(type(error)), lance_errors("table.scan", "nodes/1"):
        raise error


@pytest.mark.parametrize(
    "text",
    [
        "No space left on device (os error 28)",
        "Read-only file system (os error 30)",
        "Permission denied (os error 13)",
        "Operation not permitted (os error 1)",
        "Disk quota exceeded (os error 122)",
    ],
)
def test_storage_that_does_not_let_us(text: str) -> None:
    error = OSError(f"LanceError(IO): Generic LocalFileSystem error: {text}")
    assert failed(error, StorageCall.TABLE_WRITE).kind is FailureKind.UNAVAILABLE


DAMAGE = (
    "External error: Encountered corrupt file binary mini-block: value offset decreases",
    "External error: LanceError(IO): failed to decode Protobuf message: invalid wire type value",
    "External error: Invalid user input: Invalid direct PageLayout encoding envelope: no",
    "External error: Invalid user input: Global buffer 0 range 1..9 is outside file of size 3",
)


@pytest.mark.parametrize("text", DAMAGE)
def test_damage_is_no_fault_of_the_caller(text: str) -> None:
    assert failed(ValueError(text), StorageCall.TABLE_SCAN).kind is FailureKind.CORRUPT
    assert failed(ValueError(text), StorageCall.TABLE_COMMIT).kind is FailureKind.UNKNOWN


@pytest.mark.parametrize("text", DAMAGE)
def test_damage_is_told_without_the_words_of_the_engine(text: str) -> None:
    told = failed(ValueError(text), StorageCall.TABLE_SCAN).text
    assert told in ("it cannot be decoded", "it is cut short")


def test_opening_has_no_arguments_that_could_be_wrong() -> None:
    error = ValueError("LanceError(Schema): Field 'x' (id=4) references parent id -129")
    assert failed(error, StorageCall.TABLE_OPEN).kind is FailureKind.CORRUPT
    assert failed(error, StorageCall.TABLE_WRITE).kind is FailureKind.INVALID


def test_damage_is_told_with_its_place_and_what_to_do() -> None:
    error = public(StorageFailure(FailureKind.CORRUPT, "table.scan", "nodes/1/data/x", "no"))
    assert isinstance(error, Corrupt)
    assert error.code is Code.CORRUPT
    assert error.details["path"] == "nodes/1/data/x"
    assert "nodes/1/data/x" in str(error)
    assert "backup" in str(error)


def test_a_missing_file_is_gone_not_to_be_waited_for() -> None:
    error = public(StorageFailure(FailureKind.NOT_FOUND, "table.scan", "nodes/1", "Not found: x"))
    assert isinstance(error, Gone)
    assert error.details["path"] == "nodes/1"
    other = public(StorageFailure(FailureKind.UNAVAILABLE, "table.scan", "nodes/1", "full"))
    assert isinstance(other, Unavailable)
