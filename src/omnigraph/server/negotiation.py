"""Negotiation: the weights of `Accept` and `Accept-Encoding`."""

from __future__ import annotations

from collections.abc import Sequence


def preferred(header: str, offered: Sequence[str]) -> str | None:
    """The one of several names that a header prefers.

    Args:
        header: Names or ranges such as `text/*` and `*`, each perhaps with a weight `;q=0.5`.
        offered: The names to choose from, the first one being the best of equal weight.

    Returns:
        None if the header takes none of them.
    """
    weights = dict(_weighed(part) for part in header.lower().split(",") if part.strip())
    found = {name: _weight_of(name, weights) for name in offered}
    best = max(offered, key=lambda name: found[name])
    return best if found[best] > 0 else None


def _weighed(part: str) -> tuple[str, float]:
    name, *terms = (each.strip() for each in part.split(";"))
    weight = next((term[2:] for term in terms if term.startswith("q=")), "1")
    try:
        return name, float(weight)
    except ValueError:
        return name, 0.0


def _weight_of(name: str, weights: dict[str, float]) -> float:
    ranges = (name, f"{name.partition('/')[0]}/*", "*/*", "*")
    return next((weights[each] for each in ranges if each in weights), 0.0)
