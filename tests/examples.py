"""The number of generated examples: few in a daily run, many under the profile `deep`."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings

DEEP_TIMES = 20  # a nightly run tries so many times the examples of a daily one


def is_deep() -> bool:
    """Tells whether the tests run under the profile `deep`."""
    return settings.default is not None and settings.default.max_examples > 1_000


def examples(daily: int, **others: Any) -> settings:
    """Returns settings for a costly property: so many examples daily, and more at night."""
    others.setdefault("suppress_health_check", [HealthCheck.too_slow])
    return settings(max_examples=daily * DEEP_TIMES if is_deep() else daily, **others)
