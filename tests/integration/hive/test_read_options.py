"""Options that Spark's readers get from a Hive table, and settings that Hive's own reader uses."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import splitlib
from tests.integration.hive.filtered_tables import HOW
from tests.support.abilities import describes_json

pytestmark = pytest.mark.spark

POSITIONAL = "'orc.force.positional.evolution' = 'true'"
OLD = pa.table({"d": pa.array([date(1500, 1, 1), date(2020, 1, 1)])})


@contextmanager
def setting(spark, name, value):
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def add_orc(tables, table, part, found):
    tables.spark.sql(f"ALTER TABLE {table} ADD PARTITION (k = {part})")
    orc.write_table(found, str(tables.directory(table) / f"k={part}" / "part.orc"))
    tables.spark.catalog.refreshTable(table)


def same_everywhere(tables, table, dimension=None, on=None):
    """Compare the rows of every way with Spark's, also those of Spark's public API."""
    count = tables.same(table, dimension, on or {})
    if describes_json(tables.spark):
        reader = splitlib.read(tables.spark).table(table).config(spark_scan="paths")
        if on:
            reader = reader.filtered_by(dimension, on)
        assert reader.load().count() == count
        if not on:
            assert Counter(reader.load().collect()) == Counter(tables.spark.table(table).collect())
    return count


@pytest.mark.parametrize(
    "definition",
    [
        f"(a INT, b STRING) PARTITIONED BY (k INT) STORED AS ORC TBLPROPERTIES ({POSITIONAL})",
        "(a INT, b STRING) PARTITIONED BY (k INT) "
        "ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.orc.OrcSerde' "
        f"WITH SERDEPROPERTIES ({POSITIONAL}) STORED AS "
        "INPUTFORMAT 'org.apache.hadoop.hive.ql.io.orc.OrcInputFormat' "
        "OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat'",
        f"(a INT, b STRING, k INT) USING orc OPTIONS ({POSITIONAL}) PARTITIONED BY (k)",
    ],
    ids=["table properties", "SerDe properties", "options"],
)
def test_columns_by_position(tables, definition):
    table = tables.create(definition)
    x, y = pa.array([5, 6], pa.int32()), pa.array(["r", "s"])
    add_orc(tables, table, 1, pa.table({"x": x, "y": y}))
    add_orc(tables, table, 2, pa.table({"b": pa.array([5], pa.int32()), "a": pa.array(["t"])}))
    assert same_everywhere(tables, table) == 3
    # Spark would look up the statistics of the second file by the wrong column.
    dimension = tables.spark.sql("SELECT CAST(id AS INT) AS a FROM range(5, 6)")
    for how in HOW:
        rows = tables.reader(table, how).filtered_by(dimension, "a").load()
        assert rows.join(dimension, "a").count() == 2
    opened = splitlib.load_table(table, connector="hive", uri=tables.metastore.uri)
    with pytest.raises(splitlib.UnsupportedTable, match=r"orc\.force\.positional"):
        opened.to_arrow_dataset().to_table()


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_calendars(tables, mode):
    table = tables.create("(d DATE) PARTITIONED BY (k INT) STORED AS PARQUET")
    tables.spark.sql(f"ALTER TABLE {table} SET SERDEPROPERTIES ('datetimeRebaseMode' = '{mode}')")
    tables.add_partition(table, ["1"], rows=OLD)
    opened = splitlib.load_table(table, connector="hive", uri=tables.metastore.uri)
    with pytest.raises(splitlib.UnsupportedTable, match="datetimeRebaseMode"):
        opened.to_arrow_dataset().to_table()
    if mode == "LEGACY":
        assert same_everywhere(tables, table) == 2
        dimension = tables.spark.table(table).selectExpr("d AS q")
        assert same_everywhere(tables, table, dimension, {"d": "q"}) == 2
        return
    for how in HOW:
        with pytest.raises(Exception, match="INCONSISTENT_BEHAVIOR_CROSS_VERSION"):
            tables.reader(table, how).load().collect()


@pytest.mark.parametrize(
    "option",
    ["'pathGlobFilter' = 'g*'", "'recursiveFileLookup' = 'true'", "'mergeSchema' = 'true'"],
)
def test_options_without_effect_on_partitions(tables, option):
    table = tables.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    tables.spark.sql(f"ALTER TABLE {table} SET SERDEPROPERTIES ({option})")
    tables.add_partition(table, ["1"], rows=[1])
    below = tables.directory(table) / "k=1" / "deep"
    below.mkdir()
    pq.write_table(pa.table({"a": pa.array([2], pa.int32())}), below / "g.parquet")
    assert same_everywhere(tables, table) == 1


def test_options_that_select_files(tables):
    table = tables.create("(a INT) STORED AS PARQUET", "INSERT INTO {t} VALUES (1)")
    below = tables.directory(table) / "deep"
    below.mkdir()
    pq.write_table(pa.table({"a": pa.array([2], pa.int32())}), below / "g.parquet")
    tables.spark.sql(f"ALTER TABLE {table} SET SERDEPROPERTIES ('recursiveFileLookup' = 'true')")
    tables.spark.catalog.refreshTable(table)
    assert same_everywhere(tables, table) == 2
    tables.spark.sql(f"ALTER TABLE {table} SET SERDEPROPERTIES ('pathGlobFilter' = 'g*')")
    with pytest.raises(splitlib.UnsupportedTable, match="only some of the files: pathGlobFilter"):
        tables.reader(table).load()


def text_table(tables, **files):
    table = tables.create(
        "(a BOOLEAN, b STRING) PARTITIONED BY (k INT) ROW FORMAT DELIMITED FIELDS TERMINATED BY ','"
    )
    tables.spark.sql(f"ALTER TABLE {table} ADD PARTITION (k = 1)")
    for name, text in files.items():
        (tables.directory(table) / "k=1" / name).write_text(text)
    return table


def test_hidden_files_of_text_tables(tables):
    table = text_table(tables, **{"_a=b": "true,x\n", "_c": "true,y\n", "part": "true,z\n"})
    assert same_everywhere(tables, table) == 1


def test_short_texts_of_booleans(tables):
    texts = ["t", "T", "1", "f", "F", "0", "true", "FALSE", "y", "2", "10", "tr"]
    lines = "".join(f"{text},x\n" for text in texts)
    table = text_table(tables, part=lines)
    assert same_everywhere(tables, table) == 12
    with setting(tables.spark, "hive.lazysimple.extended_boolean_literal", "true"):
        assert tables.spark.table(table).where("a").count() == 4
        assert same_everywhere(tables, table) == 12


def test_ends_of_records(tables):
    table = text_table(tables, part="true,x;true,y;false,z")
    with setting(tables.spark, "textinputformat.record.delimiter", ";"):
        for how in ("pinned", "paths"):
            with pytest.raises(splitlib.UnsupportedTable, match="record delimiters"):
                tables.reader(table, how).load()
        loaded = tables.reader(table, "session").load()
        assert Counter(loaded.collect()) == Counter(tables.spark.table(table).collect())
