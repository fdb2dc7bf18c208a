"""Packages that only some commands need, and that an installation may lack."""

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import Code, InvalidInput


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Import what an extra of this package brings; fail with what to install if it is not there.

    Raises:
        InvalidInput: A package of the extra is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or "?"
        if missing.startswith("omnigraph"):
            raise
        text = f"{what} needs the package {missing}: pip install 'omnigraph[{name}]'"
        raise InvalidInput(Code.ENGINE_UNAVAILABLE, text, module=missing) from error
