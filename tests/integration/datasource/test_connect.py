"""The data source works over Spark Connect if the server has splitlib and its connectors."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

OVER_CONNECT = """
    import base64
    import splitlib

    spark.dataSource.register(splitlib.SplitlibDataSource)
    root, copy = sys.argv[1:]
    options = {"connector": "files", "partition_schema": "d date, s string"}
    loaded = spark.read.format("splitlib").options(**options).load(root)
    native = splitlib.read(spark).table(root, **options).load()
    assert loaded.schema == native.schema
    rows = sorted(map(str, native.collect()))
    assert len(rows) == 12
    assert sorted(map(str, loaded.collect())) == rows

    keys = splitlib.DynamicFilteringData.from_values({"s": ["01"]})
    options["filter"] = base64.b64encode(keys.to_bytes()).decode()
    pruned = spark.read.format("splitlib").options(**options).load(root)
    assert {row.s for row in pruned.collect()} == {"01"}

    stream = spark.readStream.format("splitlib").options(**options).load(root)
    writer = stream.writeStream.format("parquet").option("checkpointLocation", copy + "/log")
    writer.trigger(availableNow=True).start(copy + "/rows").awaitTermination()
    copied = spark.read.parquet(copy + "/rows")
    assert sorted(map(str, copied.collect())) == sorted(map(str, pruned.collect()))

    spark.conf.set("spark.splitlib.catalog.lake.connector", "files")
    try:
        splitlib.sql(spark, "SELECT count(*) FROM lake.a.b")
    except splitlib.UnsupportedTable as error:
        assert "Over Spark Connect" in str(error)
    else:
        raise AssertionError("its rows could not be read later")
"""


def test_over_spark_connect(tmp_path, over_connect):
    root = tmp_path / "events"
    for day in (1, 2):
        for shop in ("01", "1", "a b"):
            directory = root / f"d=2020-01-0{day}" / f"s={shop}"
            directory.mkdir(parents=True)
            rows = pa.table({"a": [day, day * 10], "t": [shop, None]})
            pq.write_table(rows, directory / "rows.parquet")
    over_connect(OVER_CONNECT, root, tmp_path / "copy")
