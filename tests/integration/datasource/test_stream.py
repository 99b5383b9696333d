"""A stream of the data source reads every row exactly once, even if its query is restarted."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceStreamReader

import splitlib
from splitlib.spark.datasource.source import SplitlibDataSource
from tests.integration.conftest import SHORT_LIVED_JAVA
from tests.support.hive_tables import encoded

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]
FILES, STOPS = 24, 12
# Spark before 4.2 does not limit the size of a batch, so one batch reads all files.
BATCHES = FILES if hasattr(DataSourceStreamReader, "getDefaultReadLimit") else 1
OPTIONS = {"connector": "files", "partition_schema": "k int", "maxBytesPerTrigger": "1"}


def write(root, k, *numbers):
    (root / f"k={k}").mkdir(parents=True, exist_ok=True)
    for n in numbers:
        rows = pa.table({"a": range(n * 10, n * 10 + 10)})
        pq.write_table(rows, root / f"k={k}" / f"{n:04}.parquet")


@pytest.fixture
def root(tmp_path):
    for k in range(4):
        write(tmp_path / "table", k, *range(k * FILES // 4, (k + 1) * FILES // 4))
    return tmp_path / "table"


@pytest.fixture
def stream(spark, root, tmp_path):
    """Return functions that start a query, which copies the table, and that check its progress."""
    spark.dataSource.register(splitlib.SplitlibDataSource)

    def start(**trigger):
        source = spark.readStream.format("splitlib").options(**OPTIONS).load(str(root))
        writer = source.writeStream.format("parquet").trigger(**trigger)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
            str(tmp_path / "copy")
        )

    def copied():
        return Counter(map(tuple, spark.read.parquet(str(tmp_path / "copy")).collect()))

    def committed():
        return len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))

    def wait_for(batches):
        deadline = time.monotonic() + 180
        while committed() < min(batches, BATCHES):
            assert time.monotonic() < deadline, "the query does not get on"
            time.sleep(0.02)

    return SimpleNamespace(start=start, copied=copied, committed=committed, wait_for=wait_for)


def everything(files=FILES):
    return Counter((a, a // 10 * 4 // FILES) for a in range(files * 10))


def test_stopped_at_random_points(stream):
    random.seed(7)
    for stop in range(STOPS):
        query = stream.start(processingTime="0 seconds")
        stream.wait_for(stop * BATCHES // STOPS)
        time.sleep(random.uniform(0, 0.5))
        query.stop()
    last = stream.start(availableNow=True)
    last.awaitTermination()
    assert stream.copied() == everything()
    again = stream.start(availableNow=True)
    again.awaitTermination()
    assert stream.copied() == everything()
    assert stream.committed() == BATCHES


KILLED = """
    import sys
    from pyspark.sql import SparkSession
    import splitlib

    root, checkpoint, copy, options = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.artifact.isolation.enabled", "false")
        .getOrCreate()
    )
    spark.dataSource.register(splitlib.SplitlibDataSource)
    source = spark.readStream.format("splitlib").options(**eval(options)).load(root)
    writer = source.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    writer.start(copy).awaitTermination()
"""


def test_killed(stream, root, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent(KILLED))
    arguments = [str(root), str(tmp_path / "checkpoint"), str(tmp_path / "copy"), repr(OPTIONS)]
    env = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    env |= {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
    env |= SHORT_LIVED_JAVA
    for kill in range(2):
        before = stream.committed()
        process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env=env,
            cwd=tmp_path,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stream.wait_for(before + 1)
        time.sleep(0.3 * kill)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    stream.start(availableNow=True).awaitTermination()
    assert stream.copied() == everything()


def test_a_table_that_has_changed_below_the_stream(stream, root):
    stream.start(availableNow=True).awaitTermination()
    # This file comes after all files that were read, so the next query can read it.
    write(root, 3, FILES)
    stream.start(availableNow=True).awaitTermination()
    grown = everything() + Counter((a, 3) for a in range(FILES * 10, FILES * 10 + 10))
    assert stream.copied() == grown
    # This file comes before files that were read, so the stream cannot continue.
    write(root, 0, 999)
    query = stream.start(availableNow=True)
    with pytest.raises(PySparkException, match="could be lost or repeated"):
        query.awaitTermination()
    assert stream.copied() == grown


@pytest.fixture
def reader(root):
    """Return a function that creates a stream reader in the way Spark does, without Spark."""

    def make(**options):
        source = SplitlibDataSource({k.lower(): v for k, v in {**OPTIONS, **options}.items()})
        return source.streamReader(source.schema())

    return lambda **options: make(path=str(root), **options)


def test_offsets_are_small_and_steps_cover_all(reader):
    offset = reader().initialOffset()
    ids = []
    while True:
        one = reader(maxBytesPerTrigger="3k")  # As after a restart, every batch has a new reader.
        limited = (offset, one.getDefaultReadLimit()) if BATCHES > 1 else ()
        end = one.latestOffset(*limited)
        assert len(json.dumps(end)) < 100
        if end == offset:
            break
        splits = [s for task in one.partitions(offset, end) for s in task.splits]
        assert splits
        assert not limited or sum(s.length for s in splits) <= 3 * 1024
        ids += [s.split_id for s in splits]
        offset = end
    assert len(ids) == len(set(ids)) == FILES


@pytest.mark.parametrize("change", ["rewritten", "removed", "filtered", "resized"])
def test_offsets_of_another_table_are_refused(reader, root, change):
    end = reader().latestOffset()
    options = {}
    victim = next((root / "k=0").glob("*.parquet"))
    if change == "rewritten":
        os.utime(victim, (1, 1))
    elif change == "removed":
        victim.unlink()
    elif change == "filtered":
        options["filter"] = encoded(splitlib.DynamicFilteringData.from_values({"k": [1, 2, 3]}))
    else:
        options["targetSplitBytes"] = "100"
    changed = reader(**options)
    with pytest.raises(splitlib.SourceError, match="could be lost or repeated"):
        changed.partitions(changed.initialOffset(), end)
