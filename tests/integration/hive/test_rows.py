"""Metastore tables of many kinds, read with join keys, give the rows of Spark's semi-join."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib_hive.client import MetastoreClient, parse_uris
from tests.integration.hive.filtered_tables import HOW
from tests.support.abilities import skip_unless_it_describes_json
from tests.support.thrift_client import thrift_client

pytestmark = pytest.mark.spark


def test_two_directories_for_one_value(tables):
    table = tables.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    for i, text in enumerate(["5", "05", "005", "6"]):
        tables.add_partition(table, [text], rows=[i])
    dimension = tables.spark.sql("SELECT 5 AS k")
    assert tables.same(table, dimension, {"k": "k"}) == 3


def test_locations_outside_shared_nested_and_empty(tables, tmp_path):
    table = tables.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    tables.add_partition(table, ["1"], rows=[1], location=tmp_path / "far away %20" / "é")
    tables.add_partition(table, ["2"], rows=[2, 3], location=tmp_path / "shared")
    tables.add_partition(table, ["3"], rows=None, location=tmp_path / "shared")
    tables.add_partition(table, ["4"], rows=[4], location=tmp_path / "shared" / "k=1")
    tables.add_partition(table, ["5"], rows=[])
    everything = tables.spark.sql("SELECT id AS k FROM range(10)")
    assert tables.same(table, everything, {"k": "k"}) == 1 + 2 + 2 + 1
    assert tables.same(table, everything.where("k >= 3"), {"k": "k"}) == 3


def test_a_missing_directory(tables):
    table = tables.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    tables.add_partition(table, ["1"], rows=[1])
    tables.add_partition(table, ["2"], rows=None)
    dimension = tables.spark.sql("SELECT id AS k FROM range(10)")
    assert tables.same(table, dimension, {"k": "k"}, missing_partition="skip") == 1
    assert tables.same(table, dimension.where("k = 1"), {"k": "k"}) == 1
    for how in ("auto", "session"):
        with pytest.raises(splitlib.MissingPartition, match=r"k=2.*missing_partition"):
            tables.reader(table, how).filtered_by(dimension, "k").load()


def test_an_older_schema(tables):
    table = tables.create(
        "(a INT, b STRING) PARTITIONED BY (k INT) STORED AS PARQUET",
        "INSERT INTO {t} VALUES (1, 'x', 1)",
        "ALTER TABLE {t} ADD COLUMNS (c INT)",
        "INSERT INTO {t} VALUES (2, 'y', 20, 2)",
    )
    reordered = pa.table({"c": pa.array([30], pa.int32()), "a": pa.array([3], pa.int32())})
    tables.add_partition(table, ["3"], rows=reordered)
    dimension = tables.spark.sql("SELECT id AS k FROM range(10)")
    assert tables.same(table, dimension, {"k": "k"}) == 3


def test_defaults_of_added_columns(tables):
    table = tables.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)",
        "INSERT INTO {t} VALUES (1, 1)",
        "ALTER TABLE {t} ADD COLUMNS (c INT DEFAULT 42)",
        "INSERT INTO {t} (a, c, k) VALUES (2, 7, 2)",
    )
    assert tables.same(table, tables.spark.sql("SELECT 1 AS k"), {"k": "k"}) == 1


def test_mixed_case_columns(tables):
    for definition in (
        "(Aa INT, `b C` STRING) PARTITIONED BY (Kk INT) STORED AS PARQUET",
        "(Aa INT, `b C` STRING, Kk INT) USING parquet PARTITIONED BY (Kk)",
    ):
        table = tables.create(definition, "INSERT INTO {t} SELECT id, 'x', id % 3 FROM range(9)")
        dimension = tables.spark.sql("SELECT 1 AS KEY")
        assert tables.same(table, dimension, {"kK": "KEY"}) == 3


def test_partitions_of_a_text_table_in_another_format(tables):
    columns = "(a INT, b STRING) PARTITIONED BY (k INT) STORED AS"
    of_each_format = [
        tables.create(
            f"{columns} {form}", f"INSERT INTO {{t}} VALUES ({k}, 'x', {k}), (0, 'y', {k})"
        )
        for k, form in enumerate(("TEXTFILE", "PARQUET", "ORC"))
    ]
    for k, other in enumerate(of_each_format[1:], 1):
        location = f"{tables.directory(other)}/k={k}"
        tables.add_partition(
            of_each_format[0], [str(k)], rows=None, location=location, stored_as=other
        )
    dimension = tables.spark.sql("SELECT id AS k FROM range(9)")
    assert tables.same(of_each_format[0], dimension, {"k": "k"}) == 6
    assert tables.same(of_each_format[0], dimension.where("k = 1"), {"k": "k"}) == 2


@pytest.mark.parametrize(("form", "other"), [("PARQUET", "TEXTFILE"), ("ORC", "PARQUET")])
def test_spark_ignores_the_serde_of_a_partition(tables, form, other):
    """It reads all partitions of a Parquet or ORC table with its own reader, by default."""
    columns = "(a INT, b STRING) PARTITIONED BY (k INT) STORED AS"
    filled = tables.create(f"{columns} {form}", "INSERT INTO {t} VALUES (1, 'x', 1), (2, 'y', 2)")
    table, stored_as = (tables.create(f"{columns} {each}") for each in (form, other))
    location = f"{tables.directory(filled)}/k=2"
    tables.add_partition(table, ["2"], rows=None, location=location, stored_as=stored_as)
    dimension = tables.spark.sql("SELECT 2 AS k")
    assert tables.same(table, dimension, {"k": "k"}) == 1
    assert tables.same(table, dimension, {"k": "k"}, where="a = 2") == 1
    skip_unless_it_describes_json(tables.spark)
    reader = splitlib.read(tables.spark).table(table).config(spark_scan="paths")
    assert reader.filtered_by(dimension, "k").load().collect() == [(2, "y", 2)]


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
def test_formats(tables, form):
    select = f"INSERT INTO {{t}} SELECT {WIDE}, id % 5 FROM range(50)"
    if form.startswith("USING"):
        definition = f"({WIDE_COLUMNS}, k INT) {form} PARTITIONED BY (k)"
    else:
        definition = f"({WIDE_COLUMNS}) PARTITIONED BY (k INT) {form}"
    table = tables.create(definition, select)
    assert tables.same(table, tables.spark.sql("SELECT 3 AS k"), {"k": "k"}) == 10


def test_columns_of_open_csv_are_strings(tables):
    serde = "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'"
    table = tables.create(
        f"(a INT, b DATE) PARTITIONED BY (k INT) {serde}",
        "INSERT INTO {t} SELECT '7', '2020-01-01', id % 3 FROM range(9)",
    )
    expected = tables.spark.table(table)
    for how in HOW:
        loaded = tables.reader(table, how).load()
        assert loaded.dtypes == expected.dtypes == [("a", "string"), ("b", "string"), ("k", "int")]
        assert sorted(loaded.collect()) == sorted(expected.collect())


@pytest.mark.parametrize("form", FORMATS)
def test_unpartitioned(tables, form):
    table = tables.create(
        f"({WIDE_COLUMNS}) {form}", f"INSERT INTO {{t}} SELECT {WIDE} FROM range(5)"
    )
    assert tables.same(table, None, {}) == 5
    assert tables.same(table, None, {}, where="a > 2") == 2
    report = splitlib.explain(
        tables.reader(table).filtered_by(tables.spark.sql("SELECT 1 AS x"), {"a": "x"}).load()
    )
    assert ("no partition key and no statistics for a" in str(report)) == (
        "parquet" not in form.lower()
    )


def test_a_table_that_looks_below_its_directory(tables):
    options = "USING parquet OPTIONS (recursiveFileLookup 'true')"
    table = tables.create(f"(a INT) {options}", "INSERT INTO {t} VALUES (1), (2)")
    below = tables.directory(table) / "x" / "_hidden"
    below.mkdir(parents=True)
    for directory in (below, below.parent):
        pq.write_table(pa.table({"a": pa.array([3], pa.int32())}), directory / "more.parquet")
    tables.spark.catalog.refreshTable(table)
    assert tables.same(table, None, {}) == 3
    globbed = tables.create("(a INT) USING parquet OPTIONS (pathGlobFilter '*.x')")
    with pytest.raises(splitlib.UnsupportedTable, match="only some of its files"):
        tables.reader(globbed).load()


def test_options_that_spark_ignores_of_a_table_with_partitions(tables):
    """Spark ignores ``pathGlobFilter`` and ``modifiedAfter`` for partitions of a catalog table."""
    options = "OPTIONS (pathGlobFilter '*.x', modifiedAfter '2901-01-01T00:00:00')"
    table = tables.create(
        f"(a INT, k INT) USING parquet PARTITIONED BY (k) {options}",
        "INSERT INTO {t} SELECT id, id % 4 FROM range(8)",
    )
    dimension = tables.spark.sql("SELECT 1 AS k")
    ways = (*HOW, "session")
    assert tables.same(table, None, {}, ways=ways) == 8
    assert tables.same(table, dimension, {"k": "k"}, ways=ways) == 2
    skip_unless_it_describes_json(tables.spark)
    reader = splitlib.read(tables.spark).table(table).config(spark_scan="paths")
    assert reader.filtered_by(dimension, "k").load().count() == 2


def test_a_table_without_partitions_or_files(tables):
    for definition in ("(a INT, k INT) USING parquet PARTITIONED BY (k)", "(a INT) USING parquet"):
        assert tables.same(tables.create(definition), None, {}) == 0


def test_nested_columns(tables):
    table = tables.create(
        "(m MAP<STRING, INT>, l ARRAY<STRUCT<x: INT, y: VARCHAR(3)>>) "
        "PARTITIONED BY (k INT) STORED AS PARQUET",
        "INSERT INTO {t} VALUES (map('a', 1), array(named_struct('x', 1, 'y', 'abc')), 1)",
    )
    for how in HOW:
        loaded = tables.reader(table, how).load()
        assert loaded.schema == tables.spark.table(table).schema
        assert loaded.collect() == tables.spark.table(table).collect()


@pytest.mark.parametrize("form", ["TEXTFILE", "PARQUET"])
def test_char_in_nested_columns_of_a_table_made_by_hive(tables, form, tmp_path):
    """splitlib cuts and pads nested CHAR values as Spark's SerDe reader does.

    A table that Hive created does not store a Spark schema.
    """
    nested = "c STRUCT<x: {0}, y: INT>, l ARRAY<{0}>, m MAP<STRING, {0}>, t {0}"
    table = tables.create(f"({nested.format('CHAR(3)')}) STORED AS {form} LOCATION '{tmp_path}'")
    wide = tables.create(f"({nested.format('STRING')}) STORED AS {form} LOCATION '{tmp_path}'")
    values = "named_struct('x', 'a', 'y', 1), array('abcde', 'b'), map('k', 'c'), 't'"
    tables.spark.sql(f"INSERT INTO {wide} VALUES ({values.replace('abcde', 'abc')}), ({values})")
    client = MetastoreClient(parse_uris(tables.metastore.uri))
    described = client.get_table(*table.split("."))
    for name in [n for n in described.parameters if n.startswith("spark.sql.sources.schema")]:
        del described.parameters[name]
    client.close()
    with thrift_client(tables.metastore) as thrift:
        thrift.alter_table(*table.split("."), described)
    tables.spark.catalog.refreshTable(table)
    expected = tables.spark.table(table)
    for how in HOW:
        loaded = tables.reader(table, how).load()
        assert loaded.schema == expected.schema
        assert sorted(map(str, loaded.collect())) == sorted(map(str, expected.collect())), how
        # When a literal is compared with a CHAR column, Spark pads the literal.
        assert loaded.where("t = 't'").count() == expected.where("t = 't'").count() == 2
