"""The format `omnigraph` in a session of Spark.

Spark finds the format by itself if OmniGraph is installed for the Python that it starts
beside its driver. Any other session is registered here, and its workers are sent the code.
"""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Any, Final

from omnigraph.dataplane.spark.config import configured, is_connect
from omnigraph.dataplane.spark.pruning import prune_columns
from omnigraph.dataplane.spark.shipping import ship

_lock: Final = threading.Lock()
_registered: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def register_spark(spark: object) -> None:
    """Make the format `omnigraph` known to a session of yours, and send it what workers need.

    Calling it twice is fine. Sessions that OmniGraph starts know the format already.

    Example:
        ```python
        og.register_spark(spark)
        frame = spark.read.format("omnigraph").options(path=graph.uri, type="Person").load()
        ```

    Args:
        spark: A `SparkSession`, classic or of Spark Connect.

    Raises:
        InvalidInput: It is no session.
        Unavailable: The session does not answer.
    """
    from omnigraph.dataplane.spark.session import acquire  # noqa: PLC0415 - they know each other

    config = configured(spark)
    with acquire(config) as held:
        make_known(held.session, held.cache, ships=held.ships)


def make_known(session: Any, cache: Path, *, ships: bool) -> None:
    """Make the format known to a session. Once per session."""
    if ships:
        ship(session, cache)
    with _lock:
        if session in _registered:
            return
        session.dataSource.register(_source_for(session))
        _registered.add(session)
    prune_columns(session)


def _source_for(session: Any) -> type[Any]:
    """The format for one session: its writes are judged by tasks of that session."""
    # Loads and exports need none of it.
    from omnigraph.dataplane.spark.datasource import DefaultSource  # noqa: PLC0415
    from omnigraph.dataplane.spark.driver import address_of  # noqa: PLC0415

    address = address_of(session if is_connect(session) else None)

    class SessionSource(DefaultSource):
        driver = (address.socket, address.session)

    return SessionSource
