"""The examples in README.md run one after the other, on a small TPC-DS data set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import splitlib

pytestmark = pytest.mark.spark
README = Path(__file__).parents[2] / "README.md"


def test_the_examples(spark, metastore, capsys):
    spark.sql("CREATE DATABASE tpcds")
    spark.sql(
        "CREATE TABLE tpcds.store_sales (ss_store_sk INT, ss_quantity INT) "
        "PARTITIONED BY (ss_sold_date_sk INT) STORED AS PARQUET"
    )
    spark.sql("INSERT INTO tpcds.store_sales SELECT id % 3, id, 2451540 + id % 20 FROM range(100)")
    spark.sql(
        "CREATE TABLE tpcds.date_dim USING parquet AS "
        "SELECT CAST(2451540 + id AS INT) AS d_date_sk, 2000 AS d_year, "
        "CAST(id / 7 AS INT) AS d_week_seq, "
        "if(id % 5 = 0, 'Y', 'N') AS d_following_holiday FROM range(40)"
    )
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 9
    names = {"spark": spark}
    loaded = []
    for block in blocks:
        exec(block.replace("thrift://127.0.0.1:9083", metastore.uri), names)
        loaded.append(names["sales"])
    first, _, second, third, fourth, *_ = loaded
    assert sorted({row.ss_sold_date_sk for row in first.collect()}) == [
        2451540, 2451545, 2451550, 2451555,
    ]  # fmt: skip
    assert sorted({row.ss_sold_date_sk for row in second.collect()}) == [2451550, 2451555]
    assert "ss_store_sk: no partition key" in str(splitlib.explain(second))
    assert {r.ss_sold_date_sk for r in third.collect()} <= {
        r.d_date_sk for r in names["some"].collect()
    }
    assert names["wanted"].is_exact
    assert sorted(fourth.collect()) == sorted(first.collect())
    assert names["target"] == names["wanted"].sql.replace("`ss_sold", "`t`.`ss_sold")
    assert "partitions 4 of 20" in str(splitlib.explain(names["weekly"]))
    assert names["coordinator"].finished
    assert {row.ss_sold_date_sk for row in names["some_sales"].collect()} == {2451545}
    assert "reads 4 of 20 partitions" in str(names["audit"])
    assert "k=2451546" in capsys.readouterr().out
