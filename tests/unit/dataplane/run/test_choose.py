"""The table of choices: what is asked for, how much there is, which Spark there is."""

import pytest

from omnigraph.dataplane import tuning
from omnigraph.dataplane.run.choose import SparkLimits, choose, shown
from omnigraph.dataplane.spark.config import cluster_of, configured
from omnigraph.errors import Code, InvalidInput
from omnigraph.types import Engine, EngineChoice

AUTO: EngineChoice = "auto"
INPROCESS: Engine = "inprocess"
SPARK: Engine = "spark"
COLD_BYTES, WARM_BYTES = tuning.active.spark_cold_bytes, tuning.active.spark_warm_bytes
MIB, GIB = 1 << 20, 1 << 30
MISSING = "Spark needs Java"


def chosen(
    engine: EngineChoice = AUTO,
    size: int | None = 0,
    *,
    frames: bool = False,
    named: bool = False,
    running: bool = False,
    missing: str | None = None,
) -> tuple[Engine, str]:
    return choose(
        engine,
        bytes_total=size,
        has_frames=frames,
        spark_named=named,
        spark_running=running,
        spark_available=lambda: missing,
    )


@pytest.mark.parametrize(
    ("size", "named", "running", "expected", "reason"),
    [
        (0, False, False, INPROCESS, "0 B of input is less than 4.0 GiB"),
        (COLD_BYTES - (64 << 20), False, False, INPROCESS, "3.9 GiB of input is less than 4.0 GiB"),
        (COLD_BYTES, False, False, SPARK, "4.0 GiB of input is at least 4.0 GiB"),
        (WARM_BYTES - 1, True, False, INPROCESS, "255 MiB of input is less than 256 MiB"),
        (WARM_BYTES, False, False, INPROCESS, "256 MiB of input is less than 4.0 GiB"),
        (WARM_BYTES, True, False, SPARK, "256 MiB of input is at least 256 MiB"),
        (WARM_BYTES, False, True, SPARK, "256 MiB of input is at least 256 MiB"),
        (None, True, True, INPROCESS, "the size of the input is not known"),
    ],
)
def test_auto_goes_by_size(
    size: int | None, named: bool, running: bool, expected: Engine, reason: str
) -> None:
    assert chosen(size=size, named=named, running=running) == (expected, reason)


def test_a_cluster_that_was_named_is_taken_for_any_size() -> None:
    def asked(size: int | None, missing: str | None = None) -> tuple[Engine, str]:
        return choose(
            AUTO,
            bytes_total=size,
            has_frames=False,
            spark_named=True,
            spark_running=False,
            spark_available=lambda: missing,
            cluster="spark://host:7077",
        )

    for size in (None, 0, MIB, 100 * GIB):
        assert asked(size) == (SPARK, "the cluster spark://host:7077 was named")
    assert asked(0, MISSING)[0] is INPROCESS
    assert MISSING in asked(0, MISSING)[1]


def test_the_limits_can_be_set() -> None:
    for running, expected in ((False, INPROCESS), (True, SPARK)):
        found, reason = choose(
            AUTO,
            bytes_total=10 * MIB,
            has_frames=False,
            spark_named=False,
            spark_running=running,
            spark_available=lambda: None,
            limits=SparkLimits(cold_bytes=20 * MIB, warm_bytes=5 * MIB),
        )
        assert found is expected
        assert reason.endswith("5.0 MiB" if running else "20 MiB")


@pytest.mark.parametrize(
    ("master", "cluster"),
    [
        (None, None),
        ("local[4]", None),
        ("connect", None),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://user:secret@host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
        ("sc://host:15002/;token=secret", "sc://host:15002"),
    ],
)
def test_which_masters_are_clusters(master: str | None, cluster: str | None) -> None:
    assert cluster_of(configured(master, variables={})) == cluster


def test_auto_without_spark_says_so() -> None:
    engine, reason = chosen(size=8 * GIB, missing=MISSING)
    assert engine is INPROCESS
    assert reason == "8.0 GiB of input would be for Spark, but Spark needs Java"


def test_spark_is_not_looked_for_when_nobody_needs_it() -> None:
    def never() -> str | None:
        raise AssertionError

    for engine in (AUTO, INPROCESS):
        found, _ = choose(
            engine,
            bytes_total=MIB,
            has_frames=False,
            spark_named=False,
            spark_running=False,
            spark_available=never,
        )
        assert found is INPROCESS


@pytest.mark.parametrize("engine", [INPROCESS, SPARK])
def test_what_is_asked_for_is_given(engine: Engine) -> None:
    for size in (None, 0, 100 * GIB):
        assert chosen(engine, size) == (engine, "asked for")


def test_spark_that_is_missing_is_an_error_when_asked_for() -> None:
    for frames in (False, True):
        with pytest.raises(InvalidInput, match=MISSING) as caught:
            chosen(SPARK if not frames else AUTO, frames=frames, missing=MISSING)
        assert caught.value.code is Code.ENGINE_UNAVAILABLE


def test_frames_are_for_spark() -> None:
    assert chosen(AUTO, None, frames=True) == (SPARK, "a source is a Spark DataFrame")
    assert chosen(SPARK, None, frames=True) == (SPARK, "asked for")
    with pytest.raises(InvalidInput, match="DataFrame is read by Spark"):
        chosen(INPROCESS, None, frames=True)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1024, "1.0 KiB"),
        (15 * MIB, "15 MiB"),
        (3 * GIB // 2, "1.5 GiB"),
        (5 << 40, "5.0 TiB"),
    ],
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert shown(size) == text
