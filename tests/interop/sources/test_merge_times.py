"""A MERGE that compares dates or hours of a timestamp reads only the matching files."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.interop.sources.conftest import created
from tests.interop.sources.files_read import files_read

# One row every 30 minutes from 2024-10-30 to 2024-11-08 in UTC. In New York, clocks are set back on
# 3 November, which has 25 hours.
TIMES = "timestamp_seconds(1730246400 + id * 1800)"
ROWS = (
    f"SELECT id, IF(id = 400, NULL, {TIMES}) AS ts, "
    f"IF(id = 400, NULL, CAST({TIMES} AS TIMESTAMP_NTZ)) AS wall, 0 AS v FROM RANGE(432)"
)
# Two rows of 3 November, one of 5 November, and a null.
SOURCE = (
    "SELECT ts, date(ts) AS day, date_trunc('HOUR', ts) AS hour, v FROM VALUES "
    "(TIMESTAMP'2024-11-03 01:20:00 America/New_York', 1), "
    "(TIMESTAMP'2024-11-03 23:10:00 America/New_York', 2), "
    "(TIMESTAMP'2024-11-05 12:00:00 America/New_York', 3), (NULL, 4) AS s(ts, v)"
)
# For each condition, its number of matching local hours.
ON = {
    "date(t.ts) = date(s.ts) AND s.v <> 2": 25 + 24,
    "CAST(t.ts AS DATE) = s.day AND s.v = 3": 24,
    "to_date(t.wall) = s.day AND s.v = 3": 24,
    "date_trunc('DAY', t.ts) = s.day AND s.v = 1": 25,
    "date_trunc('hour', t.ts) = s.hour AND s.v > 1": 2,
    "date(t.ts) <=> s.day AND s.v > 2": 24,
    "date(t.ts) >= s.day AND date(t.ts) <= date_add(s.day, 1) AND s.v = 3": 48,
}


@pytest.mark.parametrize("transform", ["days", "hours"])
@pytest.mark.parametrize("on", ON)
def test_files_of_a_merge(spark: SparkSession, transform: str, on: str) -> None:
    column = "wall" if "wall" in on else "ts"
    merge = (
        f"MERGE INTO {{}} t USING ({SOURCE}) s ON {on} WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (ts, v) VALUES (s.ts, -s.v)"
    )
    tables = [created(spark, "iceberg", ROWS, f"{transform}({column})") for _ in range(2)]
    spark.sql(merge.format(tables[0]))
    with files_read(spark, "iceberg", tables[1]) as files:
        planned = splitlib.sql(spark, merge.format(tables[1]))
    plain, ours = (Counter(spark.table(table).collect()) for table in tables)
    assert ours == plain, splitlib.explain(planned)
    (scan,) = (s for s in splitlib.explain(planned).scans if s.table.endswith(tables[1]))
    assert scan.condition is not None, scan
    hours = ON[on] + ("<=>" in on)  # the null has a file of its own
    # A local day in New York begins at 4:00 or 5:00 UTC, so it is in two days of UTC.
    assert files[0] <= 2 * (hours if transform == "hours" else -(-hours // 24) + 1 + hours // 30)


def test_conditions_that_prune_nothing(spark: SparkSession) -> None:
    """Keys of another type than the truncated column do not become a range."""
    table = created(spark, "iceberg", ROWS, "days(ts)")
    for on in ("date(t.ts) = s.ts", "date_format(t.ts, 'yyyy-MM-dd') = CAST(s.day AS STRING)"):
        merge = f"MERGE INTO {table} t USING ({SOURCE}) s ON {on} WHEN MATCHED THEN DELETE"
        assert "added condition" not in str(splitlib.explain(splitlib.sql(spark, merge))), on


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin"])
def test_delta(spark: SparkSession, zone: str) -> None:
    """Delta skips files by statistics. It fails on a lower bound in zones east of Greenwich."""
    rows = f"SELECT /*+ REPARTITION_BY_RANGE(9, ts) */ * FROM ({ROWS})"
    merge = (
        f"MERGE INTO {{}} t USING ({SOURCE}) s ON date(t.ts) = s.day AND s.v = 3 "
        "WHEN MATCHED THEN UPDATE SET v = s.v"
    )
    with changed(spark, {"spark.sql.session.timeZone": zone}):
        tables = [created(spark, "delta", rows, "") for _ in range(2)]
        read = []
        for table, with_splitlib in zip(tables, (False, True), strict=True):
            with files_read(spark, "delta", table) as files:
                (splitlib.sql if with_splitlib else SparkSession.sql)(spark, merge.format(table))
            read += files
        plain, ours = (Counter(spark.table(table).collect()) for table in tables)
    assert ours == plain
    assert sum(row.v == 3 for row in ours) == 48
    if zone == "America/New_York":
        assert read[1] < read[0]
