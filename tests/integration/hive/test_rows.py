"""What splitlib loads from a real metastore, against ``spark.table`` semi-joined with the keys."""

from __future__ import annotations

import copy
import itertools
import uuid
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Partition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splitlib
from splitlib import DynamicFilteringData
from splitlib_hive.client import MetastoreClient, parse_uris

pytestmark = pytest.mark.spark
_names = (f"t{i}" for i in itertools.count())


class Lake:
    """Makes tables, and compares what both sides read from them."""

    def __init__(self, spark, metastore, directory):
        self.spark, self.metastore, self.directory = spark, metastore, directory

    def create(self, definition, *statements):
        name = f"default.{next(_names)}"
        for statement in (f"CREATE TABLE {{t}} {definition}", *statements):
            self.spark.sql(statement.replace("{t}", name))
        return name

    def add_partition(self, table, values, *, rows, location=None, stored_as=None):
        """Through thrift, with values and a location just as given; None leaves no directory.

        ``stored_as`` is another table whose format the partition gets.
        """
        client = MetastoreClient(parse_uris(self.metastore.uri))
        described = client.get_table(*table.split("."))
        sd = copy.deepcopy(described.sd)
        if stored_as:
            other = client.get_table(*stored_as.split(".")).sd
            sd.inputFormat, sd.serdeInfo = other.inputFormat, other.serdeInfo
        names = [f"{key.name}={v}" for key, v in zip(described.partitionKeys, values, strict=True)]
        sd.location = f"file:{location}" if location else "/".join([sd.location, *names])
        path = Path(sd.location.removeprefix("file:"))
        absent = rows is None
        if not absent:
            path.mkdir(parents=True, exist_ok=True)
            if isinstance(rows, list):
                rows = pa.table({"a": pa.array(rows, pa.int32())}) if rows else None
            if rows is not None:
                pq.write_table(rows, path / f"{uuid.uuid4()}.parquet")
        partition = Partition(values, *table.split("."), sd=sd, parameters={})
        client._call(lambda thrift: thrift.add_partition(partition))
        client.close()
        if absent and not any(path.iterdir()):
            path.rmdir()  # the metastore has made it
        self.spark.catalog.refreshTable(table)

    def reader(self, table, how="auto", **settings):
        reader = splitlib.read(self.spark).table(table, connector="hive", uri=self.metastore.uri)
        return reader.config(spark_scan=how, **settings)

    def same(self, table, dimension, on, *, null_safe=False, where=None, **settings):
        """Equal schema and rows, through both ways of reading; returns the number of rows."""
        fact = self.spark.table(table)
        condition = None
        for fact_key, dimension_key in on.items():
            left, right = fact[fact_key], dimension[dimension_key]
            equal = left.eqNullSafe(right) if null_safe else left == right
            condition = equal if condition is None else condition & equal
        expected = fact if condition is None else fact.join(dimension, condition, "left_semi")
        if where:
            expected = expected.where(where)
        rows = Counter(expected.collect())
        for how in ("pinned", "paths"):
            reader = self.reader(table, how, **settings)
            if on:
                reader = reader.filtered_by(dimension, on, null_safe=null_safe)
            if where:
                reader = reader.where(where)
            loaded = reader.load()
            assert loaded.schema == fact.schema
            assert Counter(loaded.collect()) == rows, how
        return sum(rows.values())


@pytest.fixture(scope="module")
def lake(spark, metastore, tmp_path_factory):
    return Lake(spark, metastore, tmp_path_factory.mktemp("lake"))


KEY_TYPES = {
    "tinyint": ["1", "-128", "127"],
    "smallint": ["1", "-5", "300"],
    "int": ["1", "-5", "70000"],
    "bigint": ["1", "-5", str(2**62)],
    "string": ["'a'", "'01'", "'1'"],
    "char(5)": ["'a'", "'abcde'", "'a b'"],
    "varchar(7)": ["'a'", "'abc'", "'01'"],
    "date": ["DATE'2020-01-01'", "DATE'1969-12-31'", "DATE'9999-12-31'"],
    "timestamp": [
        "TIMESTAMP'2020-01-01 00:00:00'",
        "TIMESTAMP'2020-07-01 12:34:56.789'",
        "TIMESTAMP'1969-12-31 23:59:59'",
    ],
    "decimal(10,2)": ["1.50", "-0.01", "12345678.90"],
    "boolean": ["true", "false"],
    "float": ["1.5", "float('NaN')", "float(-0.0)"],
    "double": ["0.1", "double('NaN')", "1e100"],
}


@pytest.mark.newest_spark
@pytest.mark.parametrize("kind", KEY_TYPES)
def test_key_types(lake, kind):
    values = KEY_TYPES[kind]
    rows = ", ".join(f"({i}, CAST({v} AS {kind}))" for i, v in enumerate([*values, "NULL"]))
    insert = f"INSERT INTO {{t}} VALUES {rows}"
    keys = ", ".join(f"(CAST({v} AS {kind}))" for v in [values[0], values[-1], "NULL"])
    keys = lake.create(f"(d {kind}) USING parquet", f"INSERT INTO {{t}} VALUES {keys}")
    dimension = lake.spark.table(keys)
    for definition in (
        f"(a INT) PARTITIONED BY (k {kind}) STORED AS PARQUET",
        f"(a INT, k {kind}) USING parquet PARTITIONED BY (k)",
    ):
        table = lake.create(definition, insert)
        assert lake.same(table, dimension, {"k": "d"}) == 2
        assert lake.same(table, dimension, {"k": "d"}, null_safe=True) == 3
        assert lake.same(table, dimension.where("d IS NULL"), {"k": "d"}) == 0


COERCED = [
    ("int", "bigint", ["1", "70000", str(2**40)], 2),
    ("bigint", "decimal(19,0)", ["1", "70000"], 2),
    ("int", "decimal(10,2)", ["1.00", "1.50"], 1),
    ("decimal(10,2)", "decimal(12,4)", ["1.5000", "1.5001"], 1),
    ("decimal(10,2)", "int", ["1"], 1),
    ("date", "timestamp", ["TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'1969-12-31 01:00:00'"], 1),
    ("timestamp", "date", ["DATE'2020-01-01'"], 1),
    ("timestamp", "timestamp_ntz", ["TIMESTAMP_NTZ'2020-01-01 00:00:00'"], 1),
    ("double", "float", ["0.5", "0.1"], 1),
    ("float", "double", ["0.5", "0.1"], 1),
    ("string", "varchar(3)", ["'a'"], 1),
    ("varchar(7)", "char(5)", ["'a'", "'abcde'"], 1),
    ("char(5)", "string", ["'a'", "'a    '"], 1),
    ("char(5)", "char(7)", ["'a'"], 1),
]


@pytest.mark.parametrize(("fact", "dimension", "keys", "matching"), COERCED)
def test_keys_of_another_type(lake, fact, dimension, keys, matching):
    stored = {
        "int": ["1", "70000"],
        "bigint": ["1", "70000"],
        "decimal(10,2)": ["1.00", "1.50"],
        "date": ["DATE'2020-01-01'", "DATE'1969-12-31'"],
        "timestamp": ["TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'2020-01-01 01:00:00'"],
        "double": ["0.5", "0.1"],
        "float": ["0.5", "0.1"],
    }.get(fact, ["'a'", "'abcde'"])
    rows = ", ".join(f"({i}, CAST({v} AS {fact}))" for i, v in enumerate(stored))
    table = lake.create(
        f"(a INT, k {fact}) USING parquet PARTITIONED BY (k)", f"INSERT INTO {{t}} VALUES {rows}"
    )
    values = ", ".join(f"(CAST({v} AS {dimension}))" for v in keys)
    dim = lake.create(f"(d {dimension}) USING parquet", f"INSERT INTO {{t}} VALUES {values}")
    assert lake.same(table, lake.spark.table(dim), {"k": "d"}) == matching


def test_an_inexact_pair_of_types_keeps_everything_and_says_so(lake):
    table = lake.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)", "INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    loaded = lake.reader(table).filtered_by(lake.spark.sql("SELECT '1' AS k"), "k").load()
    assert loaded.count() == 2
    assert "string is not compared with int32 exactly" in str(splitlib.explain(loaded))


ODD = ["a b", "a%b", "a%20b", "a/b", "a=b", "'q'", '"q"', "[b]", "{b}", "é", "日本", "dot.", "a:b"]
ODD += ["a?b", "a#b", "a*b", "a\\b", "+", "~", "__x", ".x"]


def test_odd_values(lake):
    rows = lake.spark.createDataFrame(list(enumerate(ODD)), "a INT, k STRING")
    rows.createOrReplaceTempView("odd")
    for definition in (
        "(a INT) PARTITIONED BY (k STRING) STORED AS PARQUET",
        "(a INT, k STRING) USING orc PARTITIONED BY (k)",
    ):
        table = lake.create(definition, "INSERT INTO {t} SELECT * FROM odd")
        assert lake.same(table, rows.where("a % 2 = 0"), {"k": "k"}) == (len(ODD) + 1) // 2
        for value in ODD:
            keys = DynamicFilteringData.from_values({"k": [value]})
            loaded = lake.reader(table).filtered_by(keys).load()
            assert [row.k for row in loaded.collect()] == [value]


def test_several_keys(lake):
    table = lake.create(
        "(a INT) PARTITIONED BY (d INT, s STRING, b BOOLEAN) STORED AS ORC",
        """INSERT INTO {t} SELECT id, id % 3, if(id % 4 = 0, NULL, concat('s', id % 4)), id % 2 = 0
           FROM range(48)""",
    )
    tuples = lake.spark.sql("SELECT * FROM VALUES (0, 's1'), (1, 's2'), (2, NULL) AS v(x, y)")
    assert lake.same(table, tuples, {"d": "x", "s": "y"}) == 8
    assert lake.same(table, tuples, {"d": "x", "S": "y"}, null_safe=True) == 12
    assert lake.same(table, tuples.where("x = 1"), {"d": "x"}) == 16
    assert lake.same(table, tuples, {"d": "x"}, where="s = 's1' AND a > 5 AND b IS NOT NULL") > 0
    report = splitlib.explain(lake.reader(table).where("s = 's1' AND a > 5").load())
    assert report.metrics.partitions_matched == 3
    assert report.metrics.partitions_total == 12


def test_two_dimensions(lake):
    table = lake.create(
        "(a INT, d INT, s INT) USING parquet PARTITIONED BY (d, s)",
        "INSERT INTO {t} SELECT id, id % 5, id % 3 FROM range(60)",
    )
    days = lake.spark.sql("SELECT explode(array(1, 2)) AS d")
    stores = lake.spark.sql("SELECT explode(array(2, 3)) AS s")
    loaded = lake.reader(table).filtered_by(days, "d").filtered_by(stores, ["s"]).load()
    expected = lake.spark.table(table).join(days, "d", "left_semi").join(stores, "s", "left_semi")
    assert Counter(loaded.collect()) == Counter(expected.select("a", "d", "s").collect())
    assert splitlib.explain(loaded).metrics.partitions_matched == 2


def test_a_dimension_that_cannot_prune_costs_nothing(lake):
    table = lake.create(
        "(a INT, k INT) USING json PARTITIONED BY (k)", "INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    never_run = lake.spark.sql("SELECT id AS a, 1 AS k, raise_error('it ran') FROM range(9)")
    loaded = lake.reader(table).filtered_by(never_run.where("a < 5"), "a").load()
    assert loaded.count() == 2
    assert "a: no partition key" in str(splitlib.explain(loaded))
    both = lake.reader(table).filtered_by(lake.spark.sql("SELECT 7 AS a, 1 AS k"), ["a", "k"])
    assert both.load().count() == 1


def test_a_value_that_does_not_parse_is_kept_as_null(lake):
    table = lake.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    for i, text in enumerate(["1", "one", "2"]):
        lake.add_partition(table, [text], rows=[i])
    for how in ("pinned", "paths"):
        reader = lake.reader(table, how).filtered_by(lake.spark.sql("SELECT 1 AS k"), "k")
        loaded = reader.load()
        assert {(row.a, row.k) for row in loaded.collect()} == {(0, 1), (1, None)}
    assert "1 values of k are no value of its type" in str(splitlib.explain(loaded))


def test_two_directories_for_one_value(lake):
    table = lake.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    for i, text in enumerate(["5", "05", "005", "6"]):
        lake.add_partition(table, [text], rows=[i])
    dimension = lake.spark.sql("SELECT 5 AS k")
    assert lake.same(table, dimension, {"k": "k"}) == 3


def test_locations_outside_shared_nested_and_empty(lake, tmp_path):
    table = lake.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    lake.add_partition(table, ["1"], rows=[1], location=tmp_path / "far away %20" / "é")
    lake.add_partition(table, ["2"], rows=[2, 3], location=tmp_path / "shared")
    lake.add_partition(table, ["3"], rows=None, location=tmp_path / "shared")
    lake.add_partition(table, ["4"], rows=[4], location=tmp_path / "shared" / "k=1")
    lake.add_partition(table, ["5"], rows=[])
    everything = lake.spark.sql("SELECT id AS k FROM range(10)")
    assert lake.same(table, everything, {"k": "k"}) == 1 + 2 + 2 + 1
    assert lake.same(table, everything.where("k >= 3"), {"k": "k"}) == 3


def test_a_missing_directory(lake):
    table = lake.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    lake.add_partition(table, ["1"], rows=[1])
    lake.add_partition(table, ["2"], rows=None)
    dimension = lake.spark.sql("SELECT id AS k FROM range(10)")
    assert lake.same(table, dimension, {"k": "k"}, missing_partition="skip") == 1
    assert lake.same(table, dimension.where("k = 1"), {"k": "k"}) == 1
    with pytest.raises(splitlib.MissingPartition, match=r"k=2.*missing_partition"):
        lake.reader(table).filtered_by(dimension, "k").load()


def test_an_older_schema(lake):
    table = lake.create(
        "(a INT, b STRING) PARTITIONED BY (k INT) STORED AS PARQUET",
        "INSERT INTO {t} VALUES (1, 'x', 1)",
        "ALTER TABLE {t} ADD COLUMNS (c INT)",
        "INSERT INTO {t} VALUES (2, 'y', 20, 2)",
    )
    reordered = pa.table({"c": pa.array([30], pa.int32()), "a": pa.array([3], pa.int32())})
    lake.add_partition(table, ["3"], rows=reordered)
    dimension = lake.spark.sql("SELECT id AS k FROM range(10)")
    assert lake.same(table, dimension, {"k": "k"}) == 3


def test_defaults_of_added_columns(lake):
    table = lake.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)",
        "INSERT INTO {t} VALUES (1, 1)",
        "ALTER TABLE {t} ADD COLUMNS (c INT DEFAULT 42)",
        "INSERT INTO {t} (a, c, k) VALUES (2, 7, 2)",
    )
    assert lake.same(table, lake.spark.sql("SELECT 1 AS k"), {"k": "k"}) == 1


def test_mixed_case_columns(lake):
    for definition in (
        "(Aa INT, `b C` STRING) PARTITIONED BY (Kk INT) STORED AS PARQUET",
        "(Aa INT, `b C` STRING, Kk INT) USING parquet PARTITIONED BY (Kk)",
    ):
        table = lake.create(definition, "INSERT INTO {t} SELECT id, 'x', id % 3 FROM range(9)")
        dimension = lake.spark.sql("SELECT 1 AS KEY")
        assert lake.same(table, dimension, {"kK": "KEY"}) == 3


@pytest.mark.parametrize("others", [("TEXTFILE", "PARQUET", "ORC"), ("PARQUET", "TEXTFILE")])
def test_a_partition_in_another_format(lake, others):
    columns = "(a INT, b STRING) PARTITIONED BY (k INT) STORED AS"
    tables = [
        lake.create(f"{columns} {form}", f"INSERT INTO {{t}} VALUES ({k}, 'x', {k}), (0, 'y', {k})")
        for k, form in enumerate(others)
    ]
    for k, other in enumerate(tables[1:], 1):
        location = f"{lake.metastore.warehouse}/{other.split('.')[1]}/k={k}"
        lake.add_partition(tables[0], [str(k)], rows=None, location=location, stored_as=other)
    # else Spark reads the partitions of a parquet table as parquet, whatever they are
    lake.spark.conf.set("spark.sql.hive.convertMetastoreParquet", "false")
    try:
        dimension = lake.spark.sql("SELECT id AS k FROM range(9)")
        assert lake.same(tables[0], dimension, {"k": "k"}) == 2 * len(others)
        assert lake.same(tables[0], dimension.where("k = 1"), {"k": "k"}) == 2
    finally:
        lake.spark.conf.unset("spark.sql.hive.convertMetastoreParquet")


FORMATS = [
    "USING parquet",
    "USING orc",
    "USING json",
    "USING csv OPTIONS (header 'true', sep '|', nullValue 'NIL')",
    "STORED AS PARQUET",
    "STORED AS ORC",
    "STORED AS TEXTFILE",
    "ROW FORMAT DELIMITED FIELDS TERMINATED BY ',' ESCAPED BY '\\\\' NULL DEFINED AS 'nil'",
]
WIDE = """CAST(id AS INT) AS a, concat('s|,\\\\', id) AS b, CAST(id * 1.5 AS DOUBLE) AS c,
    if(id % 2 = 0, NULL, DATE'2020-01-01') AS d, CAST(id AS DECIMAL(10,2)) AS e,
    TIMESTAMP'2020-01-01 12:00:00.5' AS f, id % 2 = 0 AS g"""
WIDE_COLUMNS = "a INT, b STRING, c DOUBLE, d DATE, e DECIMAL(10,2), f TIMESTAMP, g BOOLEAN"


@pytest.mark.parametrize("form", FORMATS)
def test_formats(lake, form):
    select = f"INSERT INTO {{t}} SELECT {WIDE}, id % 5 FROM range(50)"
    if form.startswith("USING"):
        definition = f"({WIDE_COLUMNS}, k INT) {form} PARTITIONED BY (k)"
    else:
        definition = f"({WIDE_COLUMNS}) PARTITIONED BY (k INT) {form}"
    table = lake.create(definition, select)
    assert lake.same(table, lake.spark.sql("SELECT 3 AS k"), {"k": "k"}) == 10


@pytest.mark.parametrize("form", FORMATS)
def test_unpartitioned(lake, form):
    table = lake.create(
        f"({WIDE_COLUMNS}) {form}", f"INSERT INTO {{t}} SELECT {WIDE} FROM range(5)"
    )
    assert lake.same(table, None, {}) == 5
    assert lake.same(table, None, {}, where="a > 2") == 2
    report = splitlib.explain(
        lake.reader(table).filtered_by(lake.spark.sql("SELECT 1 AS x"), {"a": "x"}).load()
    )
    assert "a: no partition key" in str(report)


def test_a_table_that_looks_below_its_directory(lake):
    options = "USING parquet OPTIONS (recursiveFileLookup 'true')"
    table = lake.create(f"(a INT) {options}", "INSERT INTO {t} VALUES (1), (2)")
    below = lake.metastore.warehouse / table.split(".")[1] / "x" / "_hidden"
    below.mkdir(parents=True)
    for directory in (below, below.parent):
        pq.write_table(pa.table({"a": pa.array([3], pa.int32())}), directory / "more.parquet")
    lake.spark.catalog.refreshTable(table)
    assert lake.same(table, None, {}) == 3
    globbed = lake.create("(a INT) USING parquet OPTIONS (pathGlobFilter '*.x')")
    with pytest.raises(splitlib.UnsupportedTable, match="only some of its files"):
        lake.reader(globbed).load()


def test_a_table_without_partitions_or_files(lake):
    for definition in ("(a INT, k INT) USING parquet PARTITIONED BY (k)", "(a INT) USING parquet"):
        assert lake.same(lake.create(definition), None, {}) == 0


def test_nested_columns(lake):
    table = lake.create(
        "(m MAP<STRING, INT>, l ARRAY<STRUCT<x: INT, y: VARCHAR(3)>>) "
        "PARTITIONED BY (k INT) STORED AS PARQUET",
        "INSERT INTO {t} VALUES (map('a', 1), array(named_struct('x', 1, 'y', 'abc')), 1)",
    )
    loaded = lake.reader(table).load()
    assert loaded.schema == lake.spark.table(table).schema
    assert loaded.collect() == lake.spark.table(table).collect()


def test_timestamps_follow_the_session_time_zone(lake):
    table = lake.create(
        "(a INT, k TIMESTAMP) USING parquet PARTITIONED BY (k)",
        "INSERT INTO {t} VALUES (1, TIMESTAMP'2020-11-01 01:30:00')",
        "INSERT INTO {t} VALUES (2, TIMESTAMP'2020-03-08 02:30:00')",
    )
    zone = lake.spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("America/New_York", "Asia/Kolkata", "UTC"):
            lake.spark.conf.set("spark.sql.session.timeZone", name)
            keys = lake.spark.sql("SELECT TIMESTAMP'2020-11-01 01:30:00' AS k")
            assert lake.same(table, lake.spark.table(table).select("k"), {"k": "k"}) == 2
            loaded = lake.reader(table).filtered_by(keys, "k").load()
            assert Counter(loaded.join(keys, "k", "left_semi").collect()) == Counter(
                lake.spark.table(table).join(keys, "k", "left_semi").collect()
            )
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", zone)


def test_too_many_keys(lake):
    table = lake.create(
        "(a INT, k INT, s STRING) USING parquet PARTITIONED BY (k, s)",
        "INSERT INTO {t} SELECT id, id % 20, concat('s', id % 2) FROM range(40)",
    )
    keys = lake.spark.sql("SELECT CAST(id AS INT) AS k, 's0' AS s FROM range(5, 10)")
    matched = {}
    for threshold in (10**6, 40, 19):
        reader = lake.reader(table, filter_threshold_bytes=threshold).filtered_by(keys, ["k", "s"])
        loaded = reader.load()
        matched[threshold] = splitlib.explain(loaded).metrics.partitions_matched
        joined = loaded.join(keys, ["k", "s"], "left_semi")
        assert sorted(row.k for row in joined.collect()) == [6, 6, 8, 8]
    # exact tuples; then k as values and s as values; then k as a range
    assert matched == {10**6: 2, 40: 2, 19: 2}
    ranged = lake.reader(table, filter_max_values=2).filtered_by(keys.select("k"), "k").load()
    assert "k in [5, 9]" in str(splitlib.explain(ranged))
    assert splitlib.explain(ranged).metrics.partitions_matched == 5
    marker = lake.reader(table, filter_max_values=2, filter_on_exceed="all")
    everything = marker.filtered_by(keys.select("k"), "k").load()
    assert splitlib.explain(everything).metrics.partitions_matched == 20


values = st.one_of(st.none(), st.integers(-3, 3))
texts = st.one_of(st.none(), st.text("aZ0 %/=é.[", min_size=1, max_size=3))


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(values, texts), min_size=1, max_size=12),
    keys=st.lists(st.tuples(values, texts), max_size=6),
    on=st.sampled_from([{"k": "x"}, {"s": "y"}, {"k": "x", "s": "y"}]),
    null_safe=st.booleans(),
    hive=st.booleans(),
)
def test_any_table_and_keys(lake, rows, keys, on, null_safe, hive):
    data = [(i, k, s) for i, (k, s) in enumerate(rows)]
    lake.spark.createDataFrame(data, "a INT, k INT, s STRING").createOrReplaceTempView("drawn")
    definition = "(a INT) PARTITIONED BY (k INT, s STRING) STORED AS PARQUET"
    if not hive:
        definition = "(a INT, k INT, s STRING) USING parquet PARTITIONED BY (k, s)"
    table = lake.create(definition, "INSERT INTO {t} SELECT * FROM drawn")
    dimension = lake.spark.createDataFrame(keys, "x INT, y STRING")
    lake.same(table, dimension, on, null_safe=null_safe)
    lake.spark.sql(f"DROP TABLE {table}")
