"""Small tables on which the queries in ``tests/unit/planner/shapes`` can run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from tests.support.abilities import without_collations
from tests.unit.planner.shapes import tables

DATABASE = "shapes"
FACTS = {
    "sales": """SELECT id, CAST(id % 4 AS INT), id % 6, CAST(id % 9 AS INT) FROM range(72)
        UNION ALL VALUES (900L, 1, 2L, NULL), (901L, 1, 2L, 20200102)""",
    "returns": """SELECT id * 2, CAST(id % 4 AS INT), id % 6, CAST(id % 7 AS INT) FROM range(42)""",
    "visits": """SELECT id, date_add(DATE'2020-01-01', CAST(id % 6 AS INT)), concat('k', id % 2)
        FROM range(24) UNION ALL SELECT 90, DATE'2021-03-03', 'k1'""",
    "logs": "SELECT id, CAST(id % 8 AS INT) FROM range(24)",
    "amounts": "SELECT id, CAST(id % 6 + id % 2 * 0.5 AS DECIMAL(6, 2)) FROM range(18)",
    "events": """SELECT id, TIMESTAMP'2020-01-01' + make_dt_interval(CAST(id % 6 AS INT),
        CAST(id % 2 AS INT)) FROM range(18)""",
    "clicks": "SELECT id, id % 8 FROM range(24)",
    "ticks": "SELECT id, CAST(id % 8 AS TINYINT) FROM range(24)",
    "ratios": "SELECT id, CAST(id % 6 AS FLOAT) / 4 FROM range(18)",
    # Casts to a number and to a date must both succeed, because in ANSI mode a failing cast raises
    # an error.
    "labels": "SELECT id, element_at(array('2020', '0003', '0001', '2021'), int(id % 4 + 1)) "
    "FROM range(16)",
    "flags": "SELECT id, IF(id % 3 = 2, NULL, id % 3 = 0) FROM range(12)",
}
"""Query for the rows of each partitioned table. The tables have 3 to 12 partitions."""
_NAMES = "SELECT int(id), concat('n', id) FROM range(12)"
_DIMENSIONS = {
    "days": """SELECT int(id), concat('n', id), int(id % 5), date_add(DATE'2020-01-01', int(id)),
        concat('k', id % 3), named_struct('a', int(id), 'b', int(id % 5)) FROM range(15)
        UNION ALL SELECT NULL, 'nowhere', 99, NULL, NULL, NULL""",
    "weeks": "SELECT int(id), id * 10, IF(id < 3, 2020, 3) FROM range(5)",
    "years": "VALUES (2020, 'y'), (2021, 'y'), (3, 'z')",
    "stores": """SELECT int(id), element_at(array('EU', 'TN', 'GA'), int(id % 3 + 1)), int(id + 1)
        FROM range(6)""",
    "items": """SELECT id, element_at(array('b', 'b2', 'c'), int(id % 3 + 1)), id * 1.5
        FROM range(8)""",
    "kinds": """SELECT id, int(id % 3), smallint(id), tinyint(id % 4), id + 0.5 * (id % 2),
        CAST(id AS DOUBLE) / 4, CAST(id AS FLOAT) / 4,
        element_at(array('2020', '0003'), int(id % 2 + 1)),
        element_at(array('2020', '0003'), int(id % 2 + 1)), date_add(DATE'2020-01-01', int(id)),
        TIMESTAMP'2020-01-01' + make_dt_interval(int(id)),
        TIMESTAMP_NTZ'2020-01-01' + make_dt_interval(int(id)), id % 4 = 1 FROM range(8)""",
    "legacy": _NAMES,
    "huge": _NAMES,
    "unknown": _NAMES,
    "middling": _NAMES,
}


@contextmanager
def shape_tables(spark: SparkSession) -> Iterator[None]:
    """Create the tables in a separate database, which is the current one during the block.

    Afterwards the database is empty but not dropped, because DROP DATABASE fails in this
    metastore.
    """
    settings = {
        "spark.splitlib.plannerSmallFactPartitions": "0",
        "spark.sql.session.timeZone": "UTC",
    }
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    spark.sql(f"USE {DATABASE}")
    try:
        with changed(spark, settings):
            for statement in tables():
                spark.sql(without_collations(statement))
            for table, rows in (FACTS | _DIMENSIONS).items():
                spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM ({rows})")
            yield
    finally:
        spark.sql(f"USE {before}")
        for made in spark.catalog.listTables(DATABASE):
            if made.isTemporary:  # Other tests may need these views.
                continue
            kind = "VIEW" if made.tableType == "VIEW" else "TABLE"
            spark.sql(f"DROP {kind} {DATABASE}.{made.name}")
