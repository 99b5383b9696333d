"""``spark.read.format("splitlib")`` returns the same rows as Spark's own scan of the tables."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import splitlib
from splitlib import DynamicFilteringData
from splitlib_hive import HiveConnector
from tests.support.hive_tables import DataSourceTables, encoded

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def tables(spark, metastore):
    return DataSourceTables(spark, metastore)


VALUES = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["1", "-128", "127"],
    "SMALLINT": ["1", "-32768"],
    "INT": ["1", "-5", "2147483647"],
    "BIGINT": ["1", str(2**62)],
    "FLOAT": ["1.5", "float('NaN')", "float(-0.0)"],
    "DOUBLE": ["0.1", "double('NaN')", "double('-Infinity')"],
    "DECIMAL(9,2)": ["1.50", "-0.01"],
    "DECIMAL(18,4)": ["1.5000", "-99999999999999.9999"],
    "DECIMAL(38,10)": ["1.5", "-9999999999999999999999999999.9999999999"],
    "STRING": ["'a'", "'01'", "'é 日本/b=c%20'"],
    "CHAR(5)": ["'a'", "'abcde'", "'a b'"],
    "VARCHAR(7)": ["'a'", "'abc '"],
    "DATE": ["DATE'2020-02-29'", "DATE'0001-01-01'", "DATE'9999-12-31'"],
    "TIMESTAMP": [
        "TIMESTAMP'2020-11-01 01:30:00.123456'",
        "TIMESTAMP'0001-01-03 12:00:00'",
        "TIMESTAMP'9999-12-30 12:00:00'",
    ],
    "TIMESTAMP_NTZ": ["TIMESTAMP_NTZ'2020-03-08 02:30:00.5'"],
}
ONLY_IN_FILES = {
    "BINARY": ["X'00FF'", "X''"],
    "ARRAY<INT>": ["array(1, NULL, 3)", "array()"],
    "ARRAY<ARRAY<STRING>>": ["array(array('a', NULL), NULL, array())"],
    "MAP<STRING, INT>": ["map('a', 1, 'b', NULL)", "map()"],
    "STRUCT<x: INT, Y: STRUCT<z: DATE>>": ["named_struct('x', 1, 'Y', named_struct('z', NULL))"],
    "ARRAY<STRUCT<x: INT, m: MAP<STRING, ARRAY<DECIMAL(9,2)>>>>": [
        "array(NULL, named_struct('x', 1, 'm', map('a', array(1.5, NULL), 'b', NULL)))"
    ],
    "ARRAY<CHAR(3)>": ["array('a', NULL)"],
}
IN_FILES = VALUES | ONLY_IN_FILES


def columns(values, without=""):
    """Return definitions of columns ``c0``, ``c1``, …, and rows with every value and null.

    Types whose name contains ``without`` are left out.
    """
    kept = {kind: given for kind, given in values.items() if not without or without not in kind}
    defined = [f"c{i} {kind}" for i, kind in enumerate(kept)]
    filled = [
        [f"CAST({v} AS {kind})" for v in (*given, "NULL", given[0], "NULL")]
        for kind, given in kept.items()
    ]
    rows = itertools.zip_longest(*filled, fillvalue="NULL")
    return ", ".join(defined), ", ".join(f"({', '.join(row)})" for row in rows)


@pytest.mark.parametrize("form", ["USING parquet", "STORED AS PARQUET", "USING orc"])
def test_types(tables, form):
    without = {"USING parquet": "", "STORED AS PARQUET": "_NTZ", "USING orc": "TIMESTAMP"}[form]
    values = dict(IN_FILES)
    if "orc" in form:  # PyArrow's ORC reader hides the calendar of old dates.
        del values["STRUCT<x: INT, Y: STRUCT<z: DATE>>"]
        values["DATE"] = ["DATE'2020-02-29'", "DATE'9999-12-31'"]
    defined, rows = columns(values, without)
    table = tables.create(f"({defined}) {form}", f"INSERT INTO {{t}} VALUES {rows}")
    assert tables.same(table) == 6


@pytest.mark.parametrize("form", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
def test_units_of_timestamps(tables, form):
    key = "spark.sql.parquet.outputTimestampType"
    defined, rows = columns({"TIMESTAMP": VALUES["TIMESTAMP"], "ARRAY<TIMESTAMP>": ["array()"]})
    tables.spark.conf.set(key, form)
    try:
        table = tables.create(f"({defined}) USING parquet", f"INSERT INTO {{t}} VALUES {rows}")
    finally:
        tables.spark.conf.unset(key)
    assert tables.same(table) == 6


@pytest.mark.parametrize("form", ["USING parquet PARTITIONED BY", "USING orc PARTITIONED BY"])
def test_partition_keys(tables, form):
    values = dict(VALUES)
    values["DATE"], values["TIMESTAMP"] = values["DATE"][:1], values["TIMESTAMP"][:1]
    defined, rows = columns(values)
    keys = ", ".join(f"c{i}" for i in range(len(values)))
    table = tables.create(
        f"({defined}, a INT) {form} ({keys})",
        f"INSERT INTO {{t}} ({keys}, a) SELECT *, 7 FROM VALUES {rows}",
    )
    zone = tables.spark.conf.get("spark.sql.session.timeZone")
    assert tables.same(table, timeZone=zone) == 6
    with pytest.raises(PySparkException, match="timeZone"):
        tables.load(table)


def test_a_file_that_is_older_than_its_table(tables):
    table = tables.create(
        "(I8 BIGINT, f DOUBLE, d DECIMAL(20,4), n DECIMAL(12,1), w TIMESTAMP_NTZ, s STRING, "
        "l ARRAY<BIGINT>, x STRUCT<one: BIGINT, TWO: STRING>) USING parquet"
    )
    old = {
        "i8": pa.array([1, None], pa.int8()),
        "F": pa.array([1.5, None], pa.float32()),
        "d": pa.array([None, 1], pa.decimal128(9, 2)),
        "n": pa.array([12, None], pa.int16()),
        "w": pa.array([1, None], pa.date32()),
        "s": pa.array([b"a", None], pa.binary()),
        "l": pa.array([[1, None], None], pa.list_(pa.int32())),
        "X": pa.array([{"ONE": 1, "gone": 2}, None], pa.struct({"ONE": "i4", "gone": "i4"})),
        "unknown": pa.array([1, 2]),
    }
    pq.write_table(pa.table(old), tables.directory(table) / "old.parquet")
    pq.write_table(pa.table({"other": [1]}), tables.directory(table) / "empty.parquet")
    tables.spark.sql(f"INSERT INTO {table} (i8, s) VALUES (5, 'new')")
    tables.spark.catalog.refreshTable(table)
    assert tables.same(table) == 4


@pytest.mark.parametrize(
    ("declared", "stored"),
    [
        ("INT", pa.array([1])),
        ("INT", pa.array(["1"])),
        ("FLOAT", pa.array([1.5])),
        ("STRING", pa.array([1])),
        ("TIMESTAMP", pa.array([1], pa.date32())),
        ("TIMESTAMP_NTZ", pa.array([1], pa.timestamp("us", "UTC"))),
        ("DECIMAL(9,2)", pa.array([1], pa.decimal128(10, 2))),
        ("DECIMAL(9,2)", pa.array([1], pa.int32())),
        ("TINYINT", pa.array([300], pa.int32())),
        ("STRUCT<b: INT>", pa.array([{"a": 1}])),
    ],
)
def test_what_would_be_another_value_is_refused(tables, declared, stored):
    table = tables.create(f"(c {declared}) USING parquet")
    pq.write_table(pa.table({"c": stored}), tables.directory(table) / "one.parquet")
    with pytest.raises(PySparkException, match=r"UnsupportedTable.*one\.parquet.*splitlib\.read"):
        tables.load(table).collect()


def test_a_default_of_an_added_column_is_refused(tables):
    table = tables.create(
        "(a INT) USING parquet",
        "INSERT INTO {t} VALUES (1)",
        "ALTER TABLE {t} ADD COLUMNS (c INT DEFAULT 42)",
    )
    with pytest.raises(PySparkException, match="has a default"):
        tables.load(table).collect()
    assert [row.a for row in tables.load(table, columns="a").collect()] == [1]


def test_two_columns_for_one_are_refused(tables):
    table = tables.create("(a INT) USING parquet")
    twice = pa.table([[1], [2]], names=["a", "A"])
    pq.write_table(twice, tables.directory(table) / "one.parquet")
    with pytest.raises(PySparkException, match="more than once"):
        tables.load(table).collect()


@pytest.mark.parametrize("form", ["USING json", "USING csv", "STORED AS TEXTFILE"])
def test_formats_that_are_not_read_are_refused_when_loaded(tables, form):
    table = tables.create(f"(a INT) {form}")
    with pytest.raises(PySparkException, match=r"UnsupportedTable.*splitlib\.read"):
        tables.load(table)


def test_orc_timestamps_are_refused(tables):
    table = tables.create(
        "(a INT, t TIMESTAMP) USING orc", "INSERT INTO {t} VALUES (1, current_timestamp())"
    )
    with pytest.raises(PySparkException, match="ORC timestamps"):
        tables.load(table).collect()
    assert [tuple(row) for row in tables.load(table, columns="a").collect()] == [(1,)]


def test_columns_are_read_as_chosen(tables):
    table = tables.create(
        "(a INT, b STRING, c CHAR(3), k INT) USING parquet PARTITIONED BY (k)",
        "INSERT INTO {t} VALUES (1, 'x', 'y', 7), (2, 'x', 'y', 8)",
    )
    loaded = tables.load(table, columns="C, k,a")
    assert loaded.columns == ["c", "k", "a"]
    assert sorted(map(tuple, loaded.collect())) == [("y  ", 7, 1), ("y  ", 8, 2)]
    assert tables.load(table, columns="k").count() == 2
    assert sorted(row.k for row in tables.load(table, columns="k").collect()) == [7, 8]
    with pytest.raises(PySparkException, match=r"ConfigError.*no column 'd'"):
        tables.load(table, columns="a,d")
    with pytest.raises(PySparkException, match="differs from the table's"):
        tables.spark.read.format("splitlib").schema("a BIGINT").options(
            connector="hive", uri=tables.metastore.uri
        ).load(table).collect()


def test_filters_prune_partitions_and_row_groups(tables, tmp_path):
    directory = tmp_path / "t"
    for k in range(4):
        (directory / f"k={k}").mkdir(parents=True)
        rows = pa.table({"a": pa.array(range(100), pa.int32())})
        pq.write_table(rows, directory / f"k={k}" / "f.parquet", row_group_size=10)
    options = {"connector": "files", "partition_schema": "k int"}
    by_key = DynamicFilteringData.from_values({"k": [1, 3]})
    loaded = tables.load(str(directory), filter=encoded(by_key), **options)
    assert sorted({row.k for row in loaded.collect()}) == [1, 3]
    assert loaded.count() == 200
    by_value = DynamicFilteringData.from_range({"a": (25, 31)})
    both = {"filter": encoded(by_key), "filter.2": encoded(by_value)}
    rows = tables.load(str(directory), **both, **options).collect()
    assert sorted((row.k, row.a) for row in rows) == [(k, a) for k in (1, 3) for a in range(20, 40)]
    nothing = DynamicFilteringData.from_values({"k": [9]})
    assert tables.load(str(directory), filter=encoded(nothing), **options).collect() == []


class Counting(HiveConnector):
    """A Hive connector that counts its requests to the metastore and to the storage."""

    asked: ClassVar[Counter[str]] = Counter()

    def list_partitions(self, predicate):
        self.asked["names"] += 1
        yield from super().list_partitions(predicate)

    def load_details(self, partitions):
        self.asked["partitions"] += len(partitions)
        return super().load_details(partitions)

    def list_files(self, partitions, predicate):
        self.asked["directories"] += len(partitions)
        yield from super().list_files(partitions, predicate)


def test_filters_prune_at_the_metastore(tables):
    splitlib.register("counting", Counting)
    table = tables.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)",
        "INSERT INTO {t} SELECT id, id % 8 FROM range(16)",
    )

    def asked(*keys):
        Counting.asked.clear()
        filters = {"filter": encoded(DynamicFilteringData.from_values({"k": keys}))} if keys else {}
        options = {"connector": "counting", "uri": tables.metastore.uri, "path": table, **filters}
        source = splitlib.SplitlibDataSource(options)
        source.reader(source.schema()).partitions()
        return dict(Counting.asked)

    assert asked() == {"names": 1, "partitions": 8, "directories": 8}
    assert asked(1, 5, 99) == {"names": 1, "partitions": 2, "directories": 2}
    assert asked(99) == {"names": 1}


def test_what_is_pruned_is_not_opened(tables):
    table = tables.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)", "INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    (file,) = (tables.directory(table) / "k=2").glob("*.parquet")
    file.write_bytes(b"damaged")
    keys = DynamicFilteringData.from_values({"k": [1]})
    assert [row.a for row in tables.load(table, filter=encoded(keys)).collect()] == [1]
    with pytest.raises(PySparkException, match=f"SourceError.*{file.name}"):
        tables.load(table).collect()


def test_small_files_share_a_task(tables, tmp_path):
    for n in range(12):
        pq.write_table(pa.table({"a": range(100)}), tmp_path / f"{n}.parquet")
    size = (tmp_path / "0.parquet").stat().st_size
    # Tasks are filled as in Spark: the cost of opening a file counts as 4 MiB.
    for target, tasks in (("128m", 1), (str(3 * (4 * 2**20 + size)), 4), (str(size), 12)):
        loaded = tables.load(str(tmp_path), connector="files", targetSplitBytes=target)
        assert loaded.rdd.getNumPartitions() == tasks
        assert loaded.count() == 1200


def test_one_filter_does_not_show_in_another_query(tables):
    """Filters pushed down by one query must not affect other queries of the same DataFrame."""
    table = tables.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)", "INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    key = "spark.sql.python.filterPushdown.enabled"
    tables.spark.conf.set(key, "true")
    try:
        loaded = tables.load(table)
        one, two = loaded.where("k = 1"), loaded.where("k = 2")
        assert [row.a for row in one.collect()] == [1]
        assert sorted(row.a for row in loaded.collect()) == [1, 2]
        assert sorted(row.a for row in one.union(two).collect()) == [1, 2]
        assert [row.a for row in two.collect()] == [2]
    finally:
        tables.spark.conf.unset(key)


def test_a_partition_value_that_is_read_in_many_ways_is_refused(tables, tmp_path):
    for text in ("2020-1-1", "2020-01-02"):
        (tmp_path / f"d={text}").mkdir()
        pq.write_table(pa.table({"a": [1]}), tmp_path / f"d={text}" / "f.parquet")
    options = {"connector": "files", "partition_schema": "d date"}
    with pytest.raises(PySparkException, match=r"2020-1-1.*ambiguous as date"):
        tables.load(str(tmp_path), **options).collect()


def test_nothing_secret_is_shown(tables, tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "f.parquet")
    options = {"connector": "files", "storage.token": "hunter2", "storage.auto_mkdir": "true"}
    loaded = tables.load(str(tmp_path), **options)
    assert [row.a for row in loaded.collect()] == [1]
    execution = loaded._jdf.queryExecution()
    assert "splitlib" in execution.toString()
    assert "hunter2" not in execution.toString()
    (tmp_path / "f.parquet").write_bytes(b"damaged")
    for broken in ({}, {"columns": "b"}, {"nonsense": "1"}):
        with pytest.raises(PySparkException) as caught:
            tables.load(str(tmp_path), **options, **broken).collect()
        assert "hunter2" not in str(caught.value)
