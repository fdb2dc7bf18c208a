"""Lines of the log that are about no request."""

from __future__ import annotations

import json
import logging

logger = logging.getLogger("omnigraph.server")


def warn(**fields: str) -> None:
    """Write a line of JSON about what an operator has to mend."""
    logger.warning(json.dumps(fields, ensure_ascii=False))
