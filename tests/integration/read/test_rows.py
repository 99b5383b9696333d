"""``filtered_by`` and ``where`` keep all matching rows for collations, time zones and odd names."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib import DynamicFilteringData
from splitlib.spark.compat import dataframe_of_arrow, to_arrow
from tests.support.abilities import COLLATES, register_data_source
from tests.support.hive_tables import DataSourceTables, encoded

pytestmark = pytest.mark.spark
HOW = ("auto", "paths", "session")


@pytest.fixture(scope="module")
def tables(spark, metastore):
    return DataSourceTables(spark, metastore)


def rows(df):
    return Counter(map(tuple, df.collect()))


# Tests of collations.


def _skip_without_collations(spark):
    if not COLLATES:
        pytest.skip("this Spark has no collations")
    if spark.version.startswith("4.0."):
        pytest.skip("Spark 4.0 by itself returns no rows of collated columns")


COLLATED = ["a", "A", "a ", "A  ", "ä", "Ä", "b", "B ", "", " ", None]


@pytest.mark.parametrize(
    "collation", ["UTF8_LCASE", "UNICODE", "UNICODE_CI", "UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM"]
)
@pytest.mark.parametrize("how", HOW)
def test_keys_of_a_collated_column(tables, collation, how):
    """Neither an IN list nor a range of keys loses rows that are equal under the collation."""
    spark = tables.spark
    _skip_without_collations(spark)
    table = tables.create(f"(id INT, k STRING COLLATE {collation}) USING parquet")
    column = spark.createDataFrame(list(enumerate(COLLATED)), "id INT, k STRING")
    column.write.mode("append").insertInto(table)
    few = spark.createDataFrame([("A",), ("b  ",)], "k STRING")
    many = spark.createDataFrame([(c,) for c in ["A", *(f"x{i}" for i in range(1500))]], "k STRING")
    for plain in (few, many):
        keys = plain.select(F.collate("k", collation).alias("k"))
        expected = rows(spark.table(table).join(keys, "k", "left_semi"))
        assert expected
        loaded = tables.native(table, how).filtered_by(keys, "k").load()
        assert rows(loaded.join(keys, "k", "left_semi")) == expected
    ends = DynamicFilteringData.from_range({"k": ("A", "A")})
    equal = spark.table(table).where("k = 'A'")
    assert rows(tables.native(table).filtered_by(ends).load().where("k = 'A'")) == rows(equal)


def test_keys_of_a_collated_column_through_the_data_source(tables):
    _skip_without_collations(tables.spark)
    table = tables.create("(id INT, k STRING COLLATE UTF8_LCASE) USING parquet")
    tables.spark.sql(f"INSERT INTO {table} VALUES (1, 'b'), (2, 'a')")
    keys = DynamicFilteringData.from_values({"k": ["A"]})
    loaded = tables.load(table, filter=encoded(keys))
    assert rows(loaded.where("k = 'A'")) == {(2, "a"): 1}


@pytest.mark.skipif(not COLLATES, reason="this Spark has no collations")
def test_collated_keys_of_a_column_that_is_not(tables):
    """Collated keys do not prune a column without collation, because the join may use theirs."""
    table = tables.create("(id INT, k STRING) USING parquet", "INSERT INTO {t} VALUES (1, 'a')")
    keyed = tables.create("(id INT, k STRING) USING parquet PARTITIONED BY (k)")
    tables.spark.sql(f"INSERT INTO {keyed} VALUES (1, 'a')")
    keys = tables.spark.sql("SELECT 'A' COLLATE UTF8_LCASE AS k")
    for name in (table, keyed):
        loaded = tables.native(name).filtered_by(keys, "k").load()
        joined = loaded.join(keys, F.collate(loaded.k, "UTF8_LCASE") == keys.k, "left_semi")
        assert rows(joined) == {(1, "a"): 1}
        assert "collation" in str(splitlib.explain(loaded))


# Tests of time zones.

# In Havana and São Paulo, clocks change at midnight, so a midnight can be missing or occur twice.
# ``ODD_ZONES`` are names that Spark accepts and Arrow does not.
ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "America/Sao_Paulo", "America/Havana"]
ODD_ZONES = ["GMT+8", "PST", "Z", "+8:00"]
INSTANTS = [
    f"TIMESTAMP_NTZ'{day} {time}'"
    for day in ("2018-11-03", "2018-11-04", "2018-11-05", "2024-03-10", "2012-11-04", "2024-01-05")
    for time in ("00:00:00", "01:00:00", "01:30:00", "02:30:00", "05:00:00", "13:00:00")
]


@pytest.fixture(scope="module")
def moments(tables):
    """Create a table of the local times of each zone, as TIMESTAMP, TIMESTAMP_NTZ and DATE."""
    table = tables.create("(id INT, ts TIMESTAMP, ntz TIMESTAMP_NTZ, day DATE) USING parquet")
    for number, zone in enumerate(ZONES):
        with changed(tables.spark, {"spark.sql.session.timeZone": zone}):
            values = ", ".join(f"({100 * number + i}, {x})" for i, x in enumerate(INSTANTS))
            tables.spark.sql(
                f"INSERT INTO {table} SELECT id, CAST(x AS TIMESTAMP), x, CAST(x AS DATE) "
                f"FROM VALUES {values} AS v(id, x)"
            )
    return table


@pytest.mark.parametrize("zone", [*ZONES, *ODD_ZONES])
def test_keys_of_times_in_other_zones(tables, moments, zone):
    spark = tables.spark
    with changed(spark, {"spark.sql.session.timeZone": zone}):
        source = spark.table(moments).where("id % 3 = 0").selectExpr("ts", "ntz", "day")
        source = dataframe_of_arrow(spark, to_arrow(source), source.schema)
        for column in ("ts", "ntz", "day"):
            for key in ("ts", "ntz", "day"):
                keys = source.select(key)
                fact = spark.table(moments)
                expected = rows(fact.join(keys, fact[column] == keys[key], "left_semi"))
                for how in HOW if zone == "America/Havana" else ("auto",):
                    reader = tables.native(moments, how)
                    loaded = reader.filtered_by(keys, {column: key}).load()
                    joined = loaded.join(keys, loaded[column] == keys[key], "left_semi")
                    assert rows(joined) == expected, (column, key, how)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Sao_Paulo", "GMT+8"])
def test_keys_of_times_through_the_data_source(tables, moments, zone):
    spark = tables.spark
    register_data_source(spark)
    with changed(spark, {"spark.sql.session.timeZone": zone}):
        for kind, value in (
            (pa.date32(), dt.date(2024, 1, 5)),
            (pa.date32(), dt.date(2018, 11, 4)),
            (pa.timestamp("us"), dt.datetime(2024, 1, 5, 13)),
        ):
            key = pa.table({"ts": pa.array([value], kind)})
            keys = encoded(DynamicFilteringData.from_arrow(key))
            frame = spark.createDataFrame(
                key, "ts DATE" if kind == pa.date32() else "ts TIMESTAMP_NTZ"
            )
            fact = spark.table(moments)
            expected = rows(fact.join(frame, fact.ts == frame.ts, "left_semi"))
            loaded = tables.load(moments, filter=keys, timeZone=zone)
            assert rows(loaded.join(frame, loaded.ts == frame.ts, "left_semi")) == expected
            with pytest.raises(Exception, match="timeZone"):
                tables.load(moments, filter=keys)


def test_many_local_times_that_clocks_skip(tables):
    """A TIMESTAMP_NTZ key matches even if clocks skip this time in the session's time zone."""
    table = tables.create("(id INT, ntz TIMESTAMP_NTZ) USING parquet")
    tables.spark.sql(f"INSERT INTO {table} VALUES (1, TIMESTAMP_NTZ'2024-03-10 02:30:00')")
    skipped = dt.datetime(2024, 3, 10, 2, 30)
    keys = DynamicFilteringData.from_values(
        {"ntz": [skipped, *(dt.datetime(2000, 1, 1) + dt.timedelta(i) for i in range(1500))]}
    )
    with changed(tables.spark, {"spark.sql.session.timeZone": "America/New_York"}):
        for how in HOW:
            assert rows(tables.native(table, how).filtered_by(keys).load()) == {(1, skipped): 1}


# Tests of conditions.

TEXTS = ["it's", 'a"b', "back\\slash", "\\'", "line\nend", "%_", "plain", "a\\nb"]


@pytest.mark.parametrize("escaped", ["true", "false"])
def test_conditions_on_text_that_is_escaped(tables, escaped):
    spark = tables.spark
    table = tables.create("(id INT, k STRING) USING parquet PARTITIONED BY (k)")
    spark.createDataFrame(list(enumerate(TEXTS)), "id INT, k STRING").write.insertInto(table)
    with changed(spark, {"spark.sql.parser.escapedStringLiterals": escaped}):
        for condition in (
            "k = 'it\\'s'" if escaped == "false" else 'k = "it\'s"',
            "k = 'back\\\\slash'" if escaped == "false" else "k = 'back\\slash'",
            "k = 'a\\nb'",
            "k IN ('plain', 'a\\\\nb', 'a\"b')",
            "k LIKE '%\\\\%%' OR k = 'plain'",
            "k RLIKE 'line\\\\s' OR id = 3",
            F.col("k").isin(TEXTS[:4]),
            F.col("k") == "\\'",
            (F.col("k") == "line\nend") & (F.col("id") >= 0),
        ):
            expected = rows(spark.table(table).where(condition))
            for how in HOW:
                loaded = tables.native(table, how).where(condition).load()
                assert rows(loaded) == expected, condition


PRUNED = [
    ("k BETWEEN 3 AND 5", 3),
    ("k NOT BETWEEN 3 AND 8", 4),
    ("NOT (k < 7)", 3),
    ("k = 2 OR k = 4 OR k IS NULL", 3),
    ("k > 8", 1),
    ("k IN (1, 2) AND id >= 0", 2),
    ("k <=> NULL", 1),
    ("k = 2 OR (k = 4 AND day = DATE'2024-01-01')", 1),
    ("NOT (k <> 2 AND (k <> 4 OR day <> DATE'2024-01-01'))", 1),
    ("k + 1 BETWEEN 3 AND 4", 2),
    ("day > DATE'2024-01-08'", 1),
    ("day BETWEEN DATE'2024-01-02' AND '2024-01-03' AND k > 2", 1),
    ("day BETWEEN '2024-01-02' AND '2024-01-03' OR rand() > 2", 11),
]


@pytest.mark.parametrize(("condition", "partitions"), PRUNED)
def test_conditions_prune_partitions(tables, condition, partitions):
    table = "default.rr_days"
    if not tables.spark.catalog.tableExists(table):
        tables.spark.sql(
            f"CREATE TABLE {table} (id INT, k INT, day DATE) USING parquet PARTITIONED BY (k, day)"
        )
        tables.spark.sql(
            f"INSERT INTO {table} SELECT id, if(id = 0, NULL, id - 1), "
            "date_add(DATE'2023-12-31', CAST(id AS INT) - 1) FROM range(11)"
        )
    for how in ("auto", "session"):
        loaded = tables.native(table, how).where(condition).load()
        assert rows(loaded) == rows(tables.spark.table(table).where(condition))
        report = splitlib.explain(loaded)
        assert report.metrics.partitions_matched == partitions, str(report)
        assert "not used" in str(report) or partitions < 11


# Tests of column names.


def test_names_of_key_columns(tables):
    """Join keys may have dots in their names, another case, or be fields of a struct."""
    spark = tables.spark
    table = tables.create("(`v.a` INT, `k.b` INT) USING parquet PARTITIONED BY (`k.b`)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
    dotted = spark.sql("SELECT 2 AS `d.x`, named_struct('id', 2, 'In', named_struct('y', 3)) AS st")
    own = tables.native(table, "session")
    assert rows(own.filtered_by(dotted, {"k.b": "d.x"}).load()) == {(2, 2): 1}
    assert rows(own.filtered_by(dotted, {"v.a": "st.in.y"}).load()) == {(3, 3): 1}
    for column, found in (("d.x", 2), ("D.X", 2), ("st.id", 2), ("ST.ID", 2), ("st.in.y", 3)):
        loaded = tables.native(table).filtered_by(dotted, {"k.b": column}).load()
        assert rows(loaded) == {(found, found): 1}, column
        assert splitlib.explain(loaded).metrics.partitions_matched == 1
        loaded = tables.native(table).filtered_by(dotted, {"v.a": column}).load()
        assert rows(loaded) == {(found, found): 1}, column
    for column, found in (("`d.x`", 2), ("`st`.`id`", 2), ("st.`in`.y", 3)):
        loaded = tables.native(table).filtered_by(dotted, {"`k.b`": column}).load()
        assert rows(loaded) == {(found, found): 1}, column
        assert splitlib.condition(dotted, {"`k.b`": column}).sql.count("`k.b`") == 1
    loaded = tables.native(table).filtered_by({"d.x": [2]}, {"`k.b`": "`d.x`"}).load()
    assert rows(loaded) == {(2, 2): 1}
    for missing in ("d", "st.nope", "d.x.y"):
        with pytest.raises(splitlib.InvalidFilter, match="dimension has no column"):
            tables.native(table).filtered_by(dotted, {"k.b": missing}).load()
    with changed(spark, {"spark.sql.caseSensitive": "true"}):
        both = spark.sql("SELECT 2 AS k, 3 AS K")
        loaded = tables.native(table).filtered_by(both, {"k.b": "K"}).load()
        assert rows(loaded) == {(3, 3): 1}
        with pytest.raises(splitlib.InvalidFilter, match="dimension has no column"):
            tables.native(table).filtered_by(dotted, {"k.b": "D.X"}).load()
