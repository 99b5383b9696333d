"""Count the files that a MERGE reads with plain Spark, with literal keys, and with splitlib."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import SparkSession

import splitlib
from benchmarks.tpcds.settings import changed
from tests.interop.sources.conftest import created
from tests.interop.sources.files_read import files_read


def test_files_of_a_merge(spark: SparkSession, format_: str) -> None:
    days = ", ".join(str(day * 50) for day in range(20))
    rows = "SELECT CAST(id AS INT) AS day, id AS k, 0 AS v FROM RANGE(1000)"
    source = created(
        spark,
        format_,
        "SELECT CAST(id * 50 AS INT) AS day, id * 50 AS k, 1 AS v FROM RANGE(20)",
        "k",
    )
    merge = (
        f"MERGE INTO {{}} t USING {source} s ON t.day = s.day AND t.k = s.k{{}} "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    found = {}
    for name, pasted in (("plain", ""), ("by hand", f" AND t.day IN ({days})"), ("splitlib", "")):
        table = created(spark, format_, f"SELECT /*+ REPARTITION(2, day) */ * FROM ({rows})")
        run = splitlib.sql if name == "splitlib" else SparkSession.sql
        with files_read(spark, format_, table) as files:
            run(spark, merge.format(table, pasted))
        found[name] = files[0]
        assert spark.table(table).where("v = 1").count() == 20
        assert spark.table(table).count() == 1000
    print(f"{format_}: {found}")
    assert found["splitlib"] <= found["by hand"] <= found["plain"]
    assert found["splitlib"] <= 40


def test_ranges_of_strings(spark: SparkSession, format_: str) -> None:
    """Ranges of strings prune files. Delta and Iceberg compare strings by bytes, as Spark does."""
    texts = (
        "CONCAT(ELT(CAST(id % 4 AS INT) + 1, 'a', '\ufb01', '\U0001f600', 'z'), LPAD(id, 2, '0'))"
    )
    rows = f"SELECT /*+ REPARTITION(1) */ {texts} AS day, id AS v FROM RANGE(40)"
    source = created(spark, format_, f"SELECT day, -v AS v FROM ({rows}) WHERE day > 'm'")
    merge = "MERGE INTO {} t USING {} s ON t.day = s.day WHEN MATCHED THEN UPDATE SET v = s.v"
    tables = [created(spark, format_, rows) for _ in range(2)]
    with changed(spark, {"spark.splitlib.conditionLiterals": "4"}):
        planned = splitlib.sql(spark, merge.format(tables[0], source))
    spark.sql(merge.format(tables[1], source))
    ours, plain = (Counter(spark.table(table).collect()) for table in tables)
    assert ours == plain
    assert sum(row.v < 0 for row in ours) == 30
    (scan,) = splitlib.explain(planned).scans
    assert scan.condition is not None
    assert scan.condition.count(">= '") == 2
