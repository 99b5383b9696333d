"""DataFrames of ``splitlib.read`` have the nullability, names and metadata of ``spark.table``."""

from __future__ import annotations

from collections import Counter
from shutil import copytree

import pytest
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.hive.partition_values import NULL_PARTITION
from tests.support.hive_tables import way_of
from tests.support.thrift_client import thrift_client

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

REGEX_NAMES = {"spark.sql.parser.quotedRegexColumnNames": "true"}
HOWS = ["auto", "paths"]


@pytest.fixture(scope="module")
def sales(spark):
    """Create a table with NOT NULL partition columns, and tables of other formats.

    Return the name of the first table.
    """
    spark.sql("CREATE DATABASE like_table")
    spark.sql(
        "CREATE TABLE like_table.sales (a INT, `a.x` INT, k INT NOT NULL, s STRING NOT NULL)"
        " USING parquet PARTITIONED BY (k, s)"
    )
    rows = "VALUES (1, 10, 1, 'x'), (2, 20, 2, 'y'), (3, 30, 3, 'z')"
    spark.sql(f"INSERT INTO like_table.sales {rows}")
    spark.sql("CREATE TABLE like_table.lines (a INT) PARTITIONED BY (k INT) STORED AS TEXTFILE")
    spark.sql("INSERT INTO like_table.lines PARTITION (k) VALUES (1, 1), (2, 2)")
    for form in ("orc", "textfile"):
        columns = "(a INT, k INT NOT NULL, s STRING NOT NULL)"
        options = f"USING hive OPTIONS (fileFormat '{form}') PARTITIONED BY (k, s)"
        spark.sql(f"CREATE TABLE like_table.{form} {columns} {options}")
        spark.sql(f"INSERT INTO like_table.{form} VALUES (1, 1, 'x'), (2, 2, 'y'), (3, 3, 'z')")
    spark.sql("CREATE TABLE like_table.whole (a INT, c CHAR(3)) USING parquet")
    spark.sql("INSERT INTO like_table.whole VALUES (1, 'x'), (2, 'y')")
    yield "like_table.sales"
    # Dropping the database fails in this metastore, so only the tables are dropped.
    for table in ("sales", "lines", "orc", "textfile", "whole"):
        spark.sql(f"DROP TABLE like_table.{table}")


def reader_of(spark, table, how):
    return splitlib.read(spark).config(spark_scan=how).table(table)


@pytest.mark.parametrize("how", HOWS)
def test_partition_columns_that_are_not_null(spark, sales, how):
    keys = spark.createDataFrame([(1,), (3,)], "k INT")
    loaded = reader_of(spark, sales, how).filtered_by(keys, "k").load()
    assert loaded.schema == spark.table(sales).schema
    assert [field.nullable for field in loaded.schema] == [True, True, False, False]
    assert (
        loaded.orderBy("k").collect() == spark.table(sales).where("k <> 2").orderBy("k").collect()
    )
    assert loaded.where("k IS NULL").count() == 0
    assert [row.a for row in loaded.where("s = 'z'").collect()] == [3]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ["sales", "orc", "textfile"])
def test_partition_columns_that_are_not_null_by_any_connector(spark, metastore, sales, name, how):
    """Partition columns stay NOT NULL if Spark reads the files, but not if Hive's reader does."""
    whole = spark.table(f"like_table.{name}")
    keys = spark.createDataFrame([(1,), (3,)], "k INT")
    for connector in ("hive", "session"):
        reader = splitlib.read(spark).config(spark_scan=how)
        reader = reader.table(f"like_table.{name}", **way_of(metastore, connector))
        loaded = reader.filtered_by(keys, "k").load()
        assert loaded.schema == whole.schema
        assert {loaded.schema[key].nullable for key in "ks"} == {name == "textfile"}
        assert loaded.orderBy("k").collect() == whole.where("k <> 2").orderBy("k").collect()
        assert loaded.where("k IS NULL").count() == 0


@pytest.mark.parametrize("how", HOWS)
def test_a_partition_without_the_value_of_a_column_that_is_not_null(spark, metastore, sales, how):
    """If a NOT NULL partition column has no valid value, splitlib returns null.

    Spark itself returns 0.
    """
    table = "like_table.violated"
    spark.sql(f"CREATE TABLE {table} (a INT, k INT NOT NULL) USING parquet PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    directory = metastore.warehouse / "like_table.db" / "violated"
    for value in (NULL_PARTITION, "none"):
        copytree(directory / "k=2", directory / f"k={value}")
    with thrift_client(metastore) as client:
        two = client.get_partition("like_table", "violated", ["2"])
        for value in (NULL_PARTITION, "none"):
            two.values, two.sd.location = [value], f"{directory.as_uri()}/k={value}"
            client.add_partition(two)
    reader = splitlib.read(spark).config(spark_scan=how)
    reader = reader.table(table, **way_of(metastore, "hive"))
    loaded = reader.load()
    assert loaded.schema["k"].nullable
    kept = Counter(
        (row.a, row.k, row.next) for row in loaded.selectExpr("*", "k + 1 AS next").collect()
    )
    assert kept == {(1, 1, 2): 1, (2, 2, 3): 1, (2, None, None): 2}
    assert loaded.where("k IS NULL").count() == 2
    some = reader.filtered_by(spark.createDataFrame([(1,)], "k INT"), "k").load()
    assert [row.a for row in some.where("k = 1").collect()] == [1]
    spark.sql(f"DROP TABLE {table}")


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ["sales", "lines", "whole"])
def test_columns_are_named_by_their_table(spark, sales, name, how):
    table = f"like_table.{name}"
    keys = spark.createDataFrame([(2,)], "a INT")
    loaded = reader_of(spark, table, how).where("a > 0").filtered_by(keys, "a").load()
    assert [row.a for row in loaded.select(f"{name}.a").where("a = 2").collect()] == [2]
    assert [row.a for row in loaded.where(f"{name}.a = 2").collect()] == [2]
    assert loaded.alias("other").select("other.a").columns == ["a"]
    if how == "auto":
        for qualifier in (f"like_table.{name}", f"spark_catalog.like_table.{name}"):
            assert loaded.select(f"{qualifier}.a").columns == ["a"]
    again = splitlib.replan(loaded)
    assert [row.a for row in again.select(f"{name}.a").where("a = 2").collect()] == [2]
    assert splitlib.explain(again).connector == "session"
    joined = loaded.join(keys, loaded["a"] == keys["a"]).select(f"{name}.a")
    assert [row.a for row in splitlib.optimize(joined).collect()] == [2]


@pytest.mark.parametrize("how", HOWS)
def test_names_in_backticks_as_regular_expressions(spark, sales, how):
    """Keys find the right columns if Spark treats names in backticks as regular expressions.

    As a pattern, ``a.x`` would also match the column ``a_x``.
    """
    dimension = spark.sql("SELECT 2 AS k, 20 AS `a.x`, 30 AS a_x, NAMED_STRUCT('k', 3) AS n")
    with changed(spark, REGEX_NAMES):
        by = reader_of(spark, sales, how).filtered_by
        for on in ("k", {"a.x": "a.x"}):
            assert [row.a for row in by(dimension, on).load().where("k = 2").collect()] == [2]
        assert [row.a for row in by(dimension, {"k": "n.k"}).load().collect()] == [3]
        assert splitlib.explain(by(dimension, "k").load()).metrics.partitions_matched == 1
        dimension.createOrReplaceTempView("like_table_dim")
        query = f"SELECT s.a FROM {sales} s JOIN like_table_dim d ON s.k = d.k"
        assert [row.a for row in splitlib.sql(spark, query).collect()] == [2]
        spark.catalog.dropTempView("like_table_dim")


def test_conditions_where_backticks_are_regular_expressions(spark, sales):
    dimension = spark.sql("SELECT 20 AS k UNION ALL SELECT 10")
    with changed(spark, REGEX_NAMES):
        for name in ("`a.x`", "s.`a.x`"):
            found = splitlib.condition(dimension, {name: "k"})
            fact = spark.table(sales).alias("s")
            assert fact.where(found.column).count() == 2
            assert fact.where(found.sql).count() == 2
            assert spark.sql(f"SELECT a FROM {sales} s WHERE {found.sql}").count() == 2


def test_partitions_by_condition_where_backticks_are_regular_expressions(spark, sales):
    """A condition for a JDBC table uses ``IDENTIFIER``, so that column names are not patterns."""
    source = spark.sql("SELECT CAST(id AS INT) AS id, id % 5 AS g FROM RANGE(50)")
    with changed(spark, REGEX_NAMES):
        url = "jdbc:derby:memory:like_table;create=true"
        driver = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
        source.write.jdbc(url, "facts", "overwrite", driver)
        fact = spark.read.jdbc(url, "facts", properties=driver)
        keys = spark.createDataFrame([(7,), (8,)], "id INT")
        planned = splitlib.optimize(fact.join(keys, "id"))
        assert planned.count() == 2
        assert "IDENTIFIER(" in str(splitlib.explain(planned).to_dict())


@pytest.mark.parametrize("how", HOWS)
def test_keys_that_are_intervals_of_months(spark, sales, how):
    dimension = spark.sql("SELECT INTERVAL '1-2' YEAR TO MONTH AS m, 2 AS k")
    loaded = reader_of(spark, sales, how).filtered_by(dimension, {"s": "m", "k": "k"}).load()
    assert [row.a for row in loaded.collect()] == [2]
    assert "m is interval year to month" in str(splitlib.explain(loaded))
    alone = reader_of(spark, sales, how).filtered_by(dimension, {"s": "m"}).load()
    assert alone.count() == 3


@pytest.mark.parametrize("connector", ["hive", "session"])
@pytest.mark.parametrize("how", HOWS)
def test_partition_keys_that_are_intervals(spark, metastore, sales, connector, how):
    """Partition keys of both interval types prune, with negative and null values too."""
    table = "like_table.intervals"
    spark.sql(
        f"CREATE TABLE {table} (a INT, m INTERVAL YEAR TO MONTH, d INTERVAL DAY TO SECOND)"
        " USING parquet PARTITIONED BY (m, d)"
    )
    dimension = spark.sql(
        "SELECT * FROM VALUES (1, INTERVAL '14' MONTH, INTERVAL '36' HOUR),"
        " (2, INTERVAL '-15' MONTH, INTERVAL '-1' DAY), (3, NULL, NULL) AS t(a, m, d)"
    )
    try:
        spark.sql(
            f"INSERT INTO {table} VALUES (1, INTERVAL '1-2' YEAR TO MONTH, INTERVAL '36' HOUR),"
            " (2, INTERVAL '-1-3' YEAR TO MONTH, INTERVAL '-1' DAY), (3, NULL, NULL),"
            " (4, INTERVAL '1' YEAR, INTERVAL '1' SECOND)"
        )
        reader = splitlib.read(spark).config(spark_scan=how)
        reader = reader.table(table, **way_of(metastore, connector))
        for on in (["m"], ["d"], ["m", "d"]):
            loaded = reader.filtered_by(dimension, on).load()
            assert splitlib.explain(loaded).metrics.partitions_matched == 2
            assert {row.a for row in loaded.select("a").collect()} == {1, 2}
            with_null = reader.filtered_by(dimension, on, null_safe=True).load()
            assert {row.a for row in with_null.select("a").collect()} == {1, 2, 3}
        years = spark.sql("SELECT INTERVAL '1' YEAR AS y")
        assert [
            row.a for row in reader.filtered_by(years, {"m": "y"}).load().select("a").collect()
        ] == [4]
    finally:
        spark.sql(f"DROP TABLE {table}")


def test_a_literal_is_padded_where_a_key_is_not(spark, sales):
    fact = spark.table("like_table.whole")
    for key, exact in (("'x'", False), ("CAST('x' AS VARCHAR(9))", False)):
        dimension = spark.sql(f"SELECT {key} AS c")
        joined = fact.join(dimension, fact["c"] == dimension["c"], "left_semi").count()
        found = splitlib.condition(dimension, "c")
        kept = fact.where(found.column).count()
        assert (joined, kept, found.is_exact) == (0, 1, exact)
        assert "Spark pads literals" in str(found.explain())
    whole = splitlib.condition(fact.where("a = 1"), "c")
    assert whole.is_exact
    assert fact.where(whole.column).count() == 1


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (c, d)"])
def test_keys_of_a_char_column_that_are_no_text(spark, sales, how, by):
    """Spark compares a CHAR value and a number as numbers, so the padding does not matter."""
    spark.sql(f"CREATE TABLE like_table.zip (a INT, c CHAR(5), d INT) USING parquet {by}")
    try:
        spark.sql("INSERT INTO like_table.zip VALUES (1, '12', 1), (2, '12345', 2), (3, '7', 3)")
        keys = splitlib.freeze(spark.sql("SELECT explode(array(12, 12345)) AS z"))
        tuples = splitlib.freeze(spark.sql("SELECT 12 AS z, 1 AS d UNION ALL SELECT 12345, 2"))
        plain = spark.table("like_table.zip").join(keys, F.expr("c = z"), "left_semi")
        assert sorted(row.a for row in plain.collect()) == [1, 2]
        for dimension, on in ((keys, {"c": "z"}), (tuples, {"c": "z", "d": "d"})):
            loaded = reader_of(spark, "like_table.zip", how).filtered_by(dimension, on).load()
            assert {1, 2} <= {row.a for row in loaded.collect()}
    finally:
        spark.sql("DROP TABLE like_table.zip")


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "setting", ["", "spark.sql.legacy.charVarcharAsString", "spark.sql.readSideCharPadding"]
)
def test_char_values_with_and_without_padding(spark, sales, how, setting):
    for name in ("like_table.chars", "like_table.chars_by"):
        by = "PARTITIONED BY (c)" if name.endswith("by") else ""
        spark.sql(f"CREATE TABLE {name} (a INT, c CHAR(3)) USING parquet {by}")
    before = spark.conf.get(setting, None) if setting else None
    try:
        # Without padding and checks, as other writers do it.
        spark.conf.set("spark.sql.legacy.charVarcharAsString", "true")
        for name in ("like_table.chars", "like_table.chars_by"):
            spark.sql(f"INSERT INTO {name} VALUES (1, 'x'), (2, 'abc'), (3, 'zz'), (4, 'long')")
        spark.conf.unset("spark.sql.legacy.charVarcharAsString")
        if setting:
            spark.conf.set(setting, "false" if before == "true" else "true")
        dimension = splitlib.freeze(
            spark.sql("SELECT explode(array('x', 'abc', 'zz ', 'long')) AS c")
        )
        # Hive pads the values of CHAR keys in a request for one partition, and then finds none.
        only_whole = how == "paths" and not setting.endswith("AsString")
        for name in ("like_table.chars", *([] if only_whole else ["like_table.chars_by"])):
            loaded = reader_of(spark, name, how).filtered_by(dimension, "c").load()
            for rows in (loaded, reader_of(spark, name, how).load()):
                joined = rows.join(dimension, "c", "left_semi").orderBy("a")
                plain = spark.table(name).join(dimension, "c", "left_semi").orderBy("a")
                assert joined.collect() == plain.collect()
            planned = splitlib.sql(
                spark, f"SELECT * FROM {name} JOIN {{d}} d USING (c)", d=dimension
            )
            assert planned.count() == spark.table(name).join(dimension, "c").count()
    finally:
        spark.conf.unset("spark.sql.legacy.charVarcharAsString")
        if setting:
            spark.conf.unset(setting)
        for name in ("like_table.chars", "like_table.chars_by"):
            spark.sql(f"DROP TABLE {name}")


def test_files_of_rows(spark, sales):
    """The column ``_metadata.file_path`` of loaded rows names the table's files."""
    for how in HOWS:
        loaded = reader_of(spark, sales, how).load()
        own = {row[0] for row in spark.table(sales).select(F.input_file_name()).collect()}
        names = loaded.select("_metadata.file_path").collect()
        assert {row[0].rpartition("/")[2] for row in names} == {n.rpartition("/")[2] for n in own}
