"""Distances of vectors by their definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from omnigraph.types import Metric


def distance(metric: Metric, left: Sequence[float], right: Sequence[float]) -> float | None:
    """The distance of two vectors; None when one has no direction and the metric needs it."""
    product = math.fsum(a * b for a, b in zip(left, right, strict=True))
    match metric:
        case Metric.L2:
            return math.fsum((a - b) ** 2 for a, b in zip(left, right, strict=True))
        case Metric.DOT:
            return 1 - product
        case Metric.COSINE:
            lengths = math.hypot(*left) * math.hypot(*right)
            return None if lengths == 0 else 1 - product / lengths
