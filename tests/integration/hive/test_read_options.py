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
    with pytest.raises(splitlib.UnsupportedTable, match="only some of its files: pathGlobFilter"):
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


def test_time_zones_of_partition_values(tables):
    """Spark parses a partition's timestamp in the time zone of the table's option."""
    table = tables.create(
        "(a INT, ts TIMESTAMP) USING parquet OPTIONS (timeZone 'Asia/Tokyo') PARTITIONED BY (ts)",
        "INSERT INTO {t} VALUES (1, TIMESTAMP'2024-01-01 00:00:00')",
    )
    dimension = tables.spark.table(table).select("ts")
    for how in HOW:
        with pytest.raises(splitlib.UnsupportedTable, match="timeZone is Asia/Tokyo"):
            tables.reader(table, how).filtered_by(dimension, "ts").load()
    query = f"SELECT t.a FROM {table} t JOIN (SELECT ts FROM {table}) USING (ts)"
    assert len(splitlib.sql(tables.spark, query).collect()) == 1
    with setting(tables.spark, "spark.sql.session.timeZone", "Asia/Tokyo"):
        assert tables.same(table, tables.spark.table(table).select("ts"), {"ts": "ts"}) == 1


def test_directories_of_a_table_without_partition_columns(tables):
    """Spark infers the columns of such directories, and names them in its schema."""
    for definition in ("(a INT) USING parquet", "(a INT) STORED AS PARQUET"):
        table = tables.create(definition)
        below = tables.directory(table) / "x=1"
        below.mkdir(parents=True)
        pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), below / "f.parquet")
        for how in ("pinned", "paths"):
            with pytest.raises(splitlib.UnsupportedTable, match="may be a partition"):
                tables.reader(table, how).load()


def test_other_rules_for_hidden_names(tables):
    table = tables.create("(a INT) USING parquet", "INSERT INTO {t} VALUES (1)")
    name = "spark.sql.files.ignoredPathSegmentRegex"
    for value in ("", "^([._]|tmp)"):
        with setting(tables.spark, name, value):
            for how in HOW:
                with pytest.raises(splitlib.ConfigError, match="skips different files"):
                    tables.reader(table, how).load()
    with setting(tables.spark, name, "^[._]"):
        assert tables.same(table, None, {}) == 1
    option = "OPTIONS (ignoredPathSegmentRegex '^([._]|part)')"
    table = tables.create(
        f"(a INT, k INT) USING parquet PARTITIONED BY (k) {option}",
        "INSERT INTO {t} VALUES (1, 1)",
    )
    assert tables.same(table, None, {}) == 1  # Spark ignores the option for partitions


def test_an_orc_column_that_had_another_type(tables):
    """Spark fails to give ORC's reader a condition on a column that a file stores differently."""
    table = tables.create("(c STRING, k INT) USING orc PARTITIONED BY (k)")
    add_orc(tables, table, 1, pa.table({"c": pa.array([5, 6], pa.int32())}))
    add_orc(tables, table, 2, pa.table({"c": ["5", "7"]}))
    dimension = tables.spark.sql("SELECT CAST(id AS STRING) AS c FROM range(5, 6)")
    for how in HOW:
        rows = tables.reader(table, how).filtered_by(dimension, "c").load()
        assert "no keys of c, which have other types" in str(splitlib.explain(rows))
        assert rows.join(dimension, "c").count() == 2


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_values_that_do_not_fit_their_type(tables, form):
    """Spark reads 65,541 as 5 from a SMALLINT column, but a condition is compared with 65,541."""
    table = tables.create(f"(c SMALLINT, k INT) USING {form} PARTITIONED BY (k)")
    tables.spark.sql(f"ALTER TABLE {table} ADD PARTITION (k = 1)")
    path = str(tables.directory(table) / "k=1" / "part")
    write = pq.write_table if form == "parquet" else orc.write_table
    write(pa.table({"c": pa.array([65541, 7], pa.int32())}), path)
    tables.spark.catalog.refreshTable(table)
    dimension = tables.spark.sql("SELECT CAST(id AS SMALLINT) AS c FROM range(5, 6)")
    expected = tables.spark.table(table).join(dimension, "c").count()
    for how in HOW:
        rows = tables.reader(table, how).filtered_by(dimension, "c").load()
        assert rows.join(dimension, "c").count() == expected


@pytest.mark.parametrize("form", ["PARQUET", "ORC"])
def test_dates_of_a_partition_in_another_format(tables, form):
    """Hive's readers convert dates and timestamps in another way than Spark's."""
    columns = "(d DATE) PARTITIONED BY (k INT) STORED AS"
    table = tables.create(f"{columns} TEXTFILE", "INSERT INTO {t} VALUES (DATE'2024-01-01', 1)")
    other = tables.create(f"{columns} {form}", "INSERT INTO {t} VALUES (DATE'2024-01-01', 2)")
    location = f"{tables.directory(other)}/k=2"
    tables.add_partition(table, ["2"], rows=None, location=location, stored_as=other)
    assert tables.same(table, None, {}, ways=("session",)) == 2
    for how in ("pinned", "paths"):
        with pytest.raises(splitlib.UnsupportedTable, match=f"is {form} with dates"):
            tables.reader(table, how).load()
