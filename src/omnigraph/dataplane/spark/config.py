"""The choice of Spark: by the caller, the environment and the defaults."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from omnigraph.dataplane.spark.java import find_java
from omnigraph.errors import Code, GraphError, InvalidInput
from omnigraph.runtime.environment import home_folder

# A plain `local[*]` never tries a task twice; the second number says how often it may fail.
LOCAL: Final = "local[*,3]"
# One Connect server per user and machine, which outlives the process: the next one starts at once.
SERVED: Final = "connect"
MASTER_VARIABLE: Final = "OMNIGRAPH_SPARK_MASTER"
ARCHIVE_VARIABLE: Final = "OMNIGRAPH_SPARK_ARCHIVE"
INSTALL: Final = 'pip install "omnigraph[spark]"'
_OFF: Final = frozenset({"off", "0", "false", "no"})
_NEEDED: Final = ("pyspark", "pandas", "pyarrow")
_NEEDED_BY_CONNECT: Final = ("grpc", "grpc_status", "google.rpc", "zstandard")


class MasterKind(StrEnum):
    """The kinds of masters."""

    LOCAL = "local"
    LOCAL_CLUSTER = "local-cluster"
    CLUSTER = "cluster"
    CONNECT = "connect"
    SERVED = "served"


_PLACES: Final = (
    (re.compile(r"local(\[(\*|\d+)(,\d+)?\])?"), MasterKind.LOCAL),
    (re.compile(r"local-cluster\[\d+,\d+,\d+\]"), MasterKind.LOCAL_CLUSTER),
    (re.compile(r"spark://[^\s/]+|yarn|k8s://\S+"), MasterKind.CLUSTER),
    (re.compile(r"sc://\S+"), MasterKind.CONNECT),
    (re.compile(re.escape(SERVED)), MasterKind.SERVED),
)

_ADDRESS: Final = re.compile(
    r"(?P<scheme>\w+:/*)(?:[^/]*@)?(?P<host>(?:\[[0-9a-fA-F:.]*\]|[\w.-]*)(?::\d+)?)"
)


def master_kind(master: str) -> MasterKind:
    """The kind of a master.

    Raises:
        InvalidInput: It is none of those that exist.
    """
    for pattern, place in _PLACES:
        if pattern.fullmatch(master.replace(" ", "")):
            return place
    raise InvalidInput(
        Code.SETTINGS_INVALID,
        f"{shown(master)!r} is no Spark master; there are local, local[4], {LOCAL}, "
        f"local-cluster[2,1,1024], spark://host:port, yarn, k8s://…, sc://host:port and {SERVED}",
        master=shown(master),
    )


def shown(master: str) -> str:
    """A master as messages may show it: with its host and port, and nothing that may be secret."""
    found = _ADDRESS.match(master)
    if found is None:
        return re.split("[;?#&@%=]", master, maxsplit=1)[0]
    return found["scheme"] + found["host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConfig:
    """The choice of a Spark.

    Attributes:
        home: The folder for what is kept between processes: archives, logs.
        master: Where to run; None for the session that is active, or else this machine.
        session: A session to use as it is.
        conf: Settings of Spark, laid over those that we choose.
        archive: True if a class-data archive may be made and used.
        variables: The environment that it was made from; it says where Java and Spark are.
    """

    home: Path
    master: str | None = field(default=None, repr=False)
    session: Any = None
    conf: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    archive: bool = True
    variables: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def is_named(self) -> bool:
        """True if the caller or the environment says which Spark to use."""
        return self.session is not None or self.master is not None


def configured(
    spark: object = None,
    conf: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> SparkConfig:
    """The choice of the caller, completed by the environment.

    Args:
        spark: A master, a session, or None.
        conf: Settings of Spark.
        variables: The environment; by default that of the process, for every call of the public
            surface that takes a `spark`.

    Raises:
        InvalidInput: `spark` is neither, or no such master exists.
    """
    known = os.environ if variables is None else variables
    common: dict[str, Any] = {
        "home": home_folder(known),
        "variables": known,
        "conf": MappingProxyType(dict(conf or {})),
        "archive": known.get(ARCHIVE_VARIABLE, "auto").lower() not in {"off", "0", "false", "no"},
    }
    if spark is None:
        spark = known.get(MASTER_VARIABLE) or None
    if spark is None or isinstance(spark, str):
        master = spark.strip() if spark else None
        if master is not None:
            master_kind(master)
        return SparkConfig(master=master, **common)
    if not is_session(spark):
        raise InvalidInput(
            Code.INPUT_INVALID,
            f"spark must be a master or a SparkSession, not {type(spark).__name__}",
        )
    return SparkConfig(session=spark, **common)


def cluster_of(config: SparkConfig) -> str | None:
    """The cluster that was chosen, as messages may show it; None for this machine."""
    master = config.master
    if master is None and config.session is not None:
        # Of a session of Connect it is the master that its server has.
        with suppress(Exception):
            master = config.session.conf.get("spark.master", None)
    if master is None:
        return None
    clusters = {MasterKind.CLUSTER, MasterKind.LOCAL_CLUSTER, MasterKind.CONNECT}
    found = next((place for pattern, place in _PLACES if pattern.fullmatch(master)), None)
    return shown(master) if found in clusters else None


def is_session(value: object) -> bool:
    """True for a session of Spark, classic or Connect. Imports nothing."""
    return any(
        kind.__module__.startswith("pyspark.sql") and kind.__name__ == "SparkSession"
        for kind in type(value).__mro__
    )


def is_connect(session: object) -> bool:
    """True for a session of Spark Connect."""
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(session).__mro__)


def require(config: SparkConfig) -> None:
    """Fail with what to install if this Spark cannot be started here.

    Raises:
        InvalidInput: A package or Java is missing.
    """
    place = MasterKind.LOCAL if config.master is None else master_kind(config.master)
    remote = place in {MasterKind.CONNECT, MasterKind.SERVED}
    for name in _NEEDED + (_NEEDED_BY_CONNECT if remote else ()):
        if not _is_installed(name):
            raise InvalidInput(
                Code.ENGINE_UNAVAILABLE,
                f'Spark needs the package of {name}: {INSTALL}, or use engine="inprocess"',
                module=name,
            )
    # A session that is given runs already, and one of Connect has its Java elsewhere.
    if config.session is None and place is not MasterKind.CONNECT:
        find_java(config.variables)


def unavailable(config: SparkConfig) -> str | None:
    """The reason why this Spark cannot be started here, or None."""
    try:
        require(config)
    except GraphError as error:
        return str(error)
    return None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
