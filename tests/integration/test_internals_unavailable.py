"""If Spark's internals are not the expected ones, splitlib uses only Spark's public API.

The rows are still right. For these tests, splitlib expects a method that Spark does not have.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import splitlib
from splitlib.errors import ConfigError, NonDeterministicDimension
from splitlib.spark.jvm import active_session, probe
from splitlib.spark.jvm.known_internals import Member, known_classes, known_members
from splitlib.spark.jvm.probe import internals_unavailable

pytestmark = pytest.mark.spark
INDEX = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
KEYS = pa.schema([("d", pa.int32())])


@pytest.fixture
def asked_anew() -> Iterator[None]:
    """Clear the cached results of the check of Spark's internals, before and after the test."""
    probe.answers.clear()
    yield
    probe.answers.clear()


@pytest.fixture
def hidden(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a method that does not exist to the expected internals of Spark."""
    missing = Member(INDEX, "listFilesOtherwise", "()V", False)
    monkeypatch.setattr(probe, "known_members", lambda *names: [*known_members(*names), missing])


@pytest.fixture
def touched(hidden: None) -> Iterator[set[str]]:
    """Record which functions of ``splitlib.spark.jvm`` are called.

    Functions that check the internals are left out.
    """
    layer = str(Path(probe.__file__).parent)
    looks = (probe.__file__, active_session.__file__)
    found: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        # An import runs the bodies of modules and classes. Their code is not a function.
        is_function = bool(code.co_flags & inspect.CO_OPTIMIZED)
        in_layer = code.co_filename.startswith(layer) and code.co_filename not in looks
        if event == "call" and is_function and in_layer:
            found.add(code.co_qualname)

    threading.setprofile(note)
    sys.setprofile(note)
    yield found
    sys.setprofile(None)
    threading.setprofile(None)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a directory of five partitions with two rows each."""
    root = tmp_path_factory.mktemp("days")
    for day in range(5):
        rows = pa.table({"a": [day, day * 10]})
        ds.write_dataset(rows, root / f"d={day}", format="parquet")
    return root


def test_every_supported_spark_passes(spark: SparkSession, asked_anew: None) -> None:
    assert internals_unavailable(spark) is None
    assert internals_unavailable(spark, "paths") == "files are read by path"


def test_a_session_is_probed_once(
    spark: SparkSession, asked_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert internals_unavailable(spark) is None
    monkeypatch.setattr(probe, "known_members", lambda *_: [Member(INDEX, "gone", "()V", False)])
    assert internals_unavailable(spark) is None


def test_what_is_missing_is_named(
    spark: SparkSession, asked_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = [Member(INDEX, "listFiles", "()V", False)]
    gone = [Member(INDEX, "new", "(Ljava/lang/String;)V", False)]
    for missing in (other, gone):
        with monkeypatch.context() as patched:
            patched.setattr(probe, "known_members", lambda *_, missing=missing: missing)
            probe.answers.clear()
            assert "InMemoryFileIndex" in str(internals_unavailable(spark))
    with monkeypatch.context() as patched:
        gone_class = "org.vendor.Gone"
        patched.setattr(probe, "known_classes", lambda one: [*known_classes(one), gone_class])
        probe.answers.clear()
        assert "org.vendor.Gone" in str(internals_unavailable(spark))


def test_an_index_that_lists_something_else(
    spark: SparkSession, asked_anew: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(*arguments: object) -> None:
        raise RuntimeError("Spark would read 0 files (0 distinct) instead of 1")

    monkeypatch.setattr(probe, "pinned_index", other)
    assert "Spark would read 0 files" in str(internals_unavailable(spark))


def test_rows_are_right(spark: SparkSession, days: Path, hidden: None, touched: set[str]) -> None:
    reason = internals_unavailable(spark)
    assert reason is not None
    assert "listFilesOtherwise" in reason
    touched.clear()
    reader = splitlib.read(spark).table(str(days), connector="files", partition_schema=KEYS)
    dimension = spark.createDataFrame([(2,), (3,)], "k int").where("k > 0")
    loaded = reader.filtered_by(dimension, {"d": "k"}).load()
    assert Counter(loaded.collect()) == Counter([(2, 2), (20, 2), (3, 3), (30, 3)])
    assert splitlib.explain(loaded).metrics.files_selected == 2
    many = spark.range(2, 3000).selectExpr("id AS a")
    assert Counter(reader.filtered_by(many, "a").where("a < 4").load().collect()) == Counter(
        [(2, 2), (3, 3)]
    )
    static = reader.where("d > 3").where((F.col("a") > 4) | F.col("a").isNull()).load()
    assert static.collect() == [(40, 4)]
    assert splitlib.explain(static).metrics.files_selected == 1
    joined = spark.read.parquet(str(days)).join(dimension, F.col("d") == F.col("k"))
    assert splitlib.optimize(joined) is joined
    assert reason in str(splitlib.explain(joined))
    joined.createOrReplaceTempView("joined_days")
    found = splitlib.sql(spark, "SELECT a FROM joined_days WHERE a < 10")
    assert Counter(found.collect()) == Counter([(2,), (3,)])
    spark.catalog.dropTempView("joined_days")
    assert touched == set()


def test_what_needs_them_says_so(spark: SparkSession, days: Path, hidden: None) -> None:
    reader = splitlib.read(spark).table(str(days), connector="files", partition_schema=KEYS)
    with pytest.raises(ConfigError, match="listFilesOtherwise"):
        reader.config(spark_scan="pinned").load()


def test_a_dimension_is_judged_by_its_text(spark: SparkSession, days: Path, hidden: None) -> None:
    reader = splitlib.read(spark).table(str(days), connector="files", partition_schema=KEYS)
    called = F.udf(lambda k: k, "int")
    for dimension, why in (
        (spark.range(9).select((F.rand() * 5).cast("int").alias("d")), r"rand\(\)"),
        (spark.range(9).limit(3).select(F.col("id").cast("int").alias("d")), "Limit"),
        (spark.range(9).dropDuplicates([]).selectExpr("CAST(id AS INT) AS d"), "dropDuplicates"),
        (spark.range(9).select(called(F.col("id").cast("int")).alias("d")), "Python"),
    ):
        with pytest.raises(NonDeterministicDimension, match=why):
            reader.filtered_by(dimension, "d").load()
