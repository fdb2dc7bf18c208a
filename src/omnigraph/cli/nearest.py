"""The known name that a mistaken one is most like."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like another; None if none is like it."""
    # Few calls are mistaken, and the others should not wait for it.
    import difflib

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None
