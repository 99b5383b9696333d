"""Join keys of many types prune metastore tables without losing rows of Spark's semi-join."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splitlib
from splitlib import DynamicFilteringData

pytestmark = pytest.mark.spark

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
def test_key_types(tables, kind):
    values = KEY_TYPES[kind]
    rows = ", ".join(f"({i}, CAST({v} AS {kind}))" for i, v in enumerate([*values, "NULL"]))
    insert = f"INSERT INTO {{t}} VALUES {rows}"
    keys = ", ".join(f"(CAST({v} AS {kind}))" for v in [values[0], values[-1], "NULL"])
    keys = tables.create(f"(d {kind}) USING parquet", f"INSERT INTO {{t}} VALUES {keys}")
    dimension = tables.spark.table(keys)
    for definition in (
        f"(a INT) PARTITIONED BY (k {kind}) STORED AS PARQUET",
        f"(a INT, k {kind}) USING parquet PARTITIONED BY (k)",
    ):
        table = tables.create(definition, insert)
        assert tables.same(table, dimension, {"k": "d"}) == 2
        assert tables.same(table, dimension, {"k": "d"}, null_safe=True) == 3
        assert tables.same(table, dimension.where("d IS NULL"), {"k": "d"}) == 0


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
def test_keys_of_another_type(tables, fact, dimension, keys, matching):
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
    table = tables.create(
        f"(a INT, k {fact}) USING parquet PARTITIONED BY (k)", f"INSERT INTO {{t}} VALUES {rows}"
    )
    values = ", ".join(f"(CAST({v} AS {dimension}))" for v in keys)
    dim = tables.create(f"(d {dimension}) USING parquet", f"INSERT INTO {{t}} VALUES {values}")
    assert tables.same(table, tables.spark.table(dim), {"k": "d"}) == matching


def test_a_pair_of_types_is_compared_by_spark(tables):
    table = tables.create(
        "(a INT, k INT) USING parquet PARTITIONED BY (k)", "INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    loaded = tables.reader(table).filtered_by(tables.spark.sql("SELECT '1' AS k"), "k").load()
    assert [row.k for row in loaded.collect()] == [1]
    assert splitlib.explain(loaded).metrics.partitions_matched == 1


ODD = ["a b", "a%b", "a%20b", "a/b", "a=b", "'q'", '"q"', "[b]", "{b}", "é", "日本", "dot.", "a:b"]
ODD += ["a?b", "a#b", "a*b", "a\\b", "+", "~", "__x", ".x"]


def test_odd_values(tables):
    rows = tables.spark.createDataFrame(list(enumerate(ODD)), "a INT, k STRING")
    rows.createOrReplaceTempView("odd")
    for definition in (
        "(a INT) PARTITIONED BY (k STRING) STORED AS PARQUET",
        "(a INT, k STRING) USING orc PARTITIONED BY (k)",
    ):
        table = tables.create(definition, "INSERT INTO {t} SELECT * FROM odd")
        assert tables.same(table, rows.where("a % 2 = 0"), {"k": "k"}) == (len(ODD) + 1) // 2
        for value in ODD:
            keys = DynamicFilteringData.from_values({"k": [value]})
            for how in ("pinned", "session"):
                loaded = tables.reader(table, how).filtered_by(keys).load()
                assert [row.k for row in loaded.collect()] == [value]
    tables.spark.catalog.dropTempView("odd")


def test_several_keys(tables):
    table = tables.create(
        "(a INT) PARTITIONED BY (d INT, s STRING, b BOOLEAN) STORED AS ORC",
        """INSERT INTO {t} SELECT id, id % 3, if(id % 4 = 0, NULL, concat('s', id % 4)), id % 2 = 0
           FROM range(48)""",
    )
    tuples = tables.spark.sql("SELECT * FROM VALUES (0, 's1'), (1, 's2'), (2, NULL) AS v(x, y)")
    assert tables.same(table, tuples, {"d": "x", "s": "y"}) == 8
    assert tables.same(table, tuples, {"d": "x", "S": "y"}, null_safe=True) == 12
    assert tables.same(table, tuples.where("x = 1"), {"d": "x"}) == 16
    assert tables.same(table, tuples, {"d": "x"}, where="s = 's1' AND a > 5 AND b IS NOT NULL") > 0
    report = splitlib.explain(tables.reader(table).where("s = 's1' AND a > 5").load())
    assert report.metrics.partitions_matched == 3
    assert report.metrics.partitions_total == 12


def test_two_dimensions(tables):
    table = tables.create(
        "(a INT, d INT, s INT) USING parquet PARTITIONED BY (d, s)",
        "INSERT INTO {t} SELECT id, id % 5, id % 3 FROM range(60)",
    )
    days = tables.spark.sql("SELECT explode(array(1, 2)) AS d")
    stores = tables.spark.sql("SELECT explode(array(2, 3)) AS s")
    loaded = tables.reader(table).filtered_by(days, "d").filtered_by(stores, ["s"]).load()
    expected = tables.spark.table(table).join(days, "d", "left_semi").join(stores, "s", "left_semi")
    assert Counter(loaded.collect()) == Counter(expected.select("a", "d", "s").collect())
    assert splitlib.explain(loaded).metrics.partitions_matched == 2


def test_a_dimension_that_cannot_prune_costs_nothing(tables):
    table = tables.create(
        "(a INT, k INT) USING json PARTITIONED BY (k)", "INSERT INTO {t} VALUES (1, 1), (2, 2)"
    )
    never_run = tables.spark.sql("SELECT id AS a, 1 AS k, raise_error('it ran') FROM range(9)")
    loaded = tables.reader(table).filtered_by(never_run.where("a < 5"), "a").load()
    assert loaded.count() == 2
    assert "no partition key and no statistics for a" in str(splitlib.explain(loaded))
    both = tables.reader(table).filtered_by(tables.spark.sql("SELECT 7 AS a, 1 AS k"), ["a", "k"])
    assert both.load().count() == 1


def test_a_value_that_does_not_parse_is_kept_as_null(tables):
    table = tables.create("(a INT) PARTITIONED BY (k INT) STORED AS PARQUET")
    for i, text in enumerate(["1", "one", "2"]):
        tables.add_partition(table, [text], rows=[i])
    for how in ("pinned", "paths"):
        reader = tables.reader(table, how).filtered_by(tables.spark.sql("SELECT 1 AS k"), "k")
        loaded = reader.load()
        assert {(row.a, row.k) for row in loaded.collect()} == {(0, 1), (1, None)}
    assert "1 values of k do not have its type" in str(splitlib.explain(loaded))


def test_timestamps_follow_the_session_time_zone(tables):
    table = tables.create(
        "(a INT, k TIMESTAMP) USING parquet PARTITIONED BY (k)",
        "INSERT INTO {t} VALUES (1, TIMESTAMP'2020-11-01 01:30:00')",
        "INSERT INTO {t} VALUES (2, TIMESTAMP'2020-03-08 02:30:00')",
    )
    zone = tables.spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("America/New_York", "Asia/Kolkata", "UTC"):
            tables.spark.conf.set("spark.sql.session.timeZone", name)
            keys = tables.spark.sql("SELECT TIMESTAMP'2020-11-01 01:30:00' AS k")
            assert tables.same(table, tables.spark.table(table).select("k"), {"k": "k"}) == 2
            loaded = tables.reader(table).filtered_by(keys, "k").load()
            assert Counter(loaded.join(keys, "k", "left_semi").collect()) == Counter(
                tables.spark.table(table).join(keys, "k", "left_semi").collect()
            )
    finally:
        tables.spark.conf.set("spark.sql.session.timeZone", zone)


def test_too_many_keys(tables):
    table = tables.create(
        "(a INT, k INT, s STRING) USING parquet PARTITIONED BY (k, s)",
        "INSERT INTO {t} SELECT id, id % 20, concat('s', id % 2) FROM range(40)",
    )
    keys = tables.spark.sql("SELECT CAST(id AS INT) AS k, 's0' AS s FROM range(5, 10)")
    matched = {}
    for threshold in (10**6, 40, 19):
        reader = tables.reader(table, filter_threshold_bytes=threshold).filtered_by(
            keys, ["k", "s"]
        )
        loaded = reader.load()
        matched[threshold] = splitlib.explain(loaded).metrics.partitions_matched
        joined = loaded.join(keys, ["k", "s"], "left_semi")
        assert sorted(row.k for row in joined.collect()) == [6, 6, 8, 8]
    # Each smaller threshold allows a coarser filter: exact tuples, then values of each column, then
    # a range of ``k``.
    assert matched == {10**6: 2, 40: 2, 19: 2}
    ranged = tables.reader(table, filter_max_values=2).filtered_by(keys.select("k"), "k").load()
    assert "k in [5, 9]" in str(splitlib.explain(ranged))
    assert splitlib.explain(ranged).metrics.partitions_matched == 5
    marker = tables.reader(table, filter_max_values=2, filter_on_exceed="all")
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
def test_any_table_and_keys(tables, rows, keys, on, null_safe, hive):
    data = [(i, k, s) for i, (k, s) in enumerate(rows)]
    tables.spark.createDataFrame(data, "a INT, k INT, s STRING").createOrReplaceTempView("drawn")
    definition = "(a INT) PARTITIONED BY (k INT, s STRING) STORED AS PARQUET"
    if not hive:
        definition = "(a INT, k INT, s STRING) USING parquet PARTITIONED BY (k, s)"
    table = tables.create(definition, "INSERT INTO {t} SELECT * FROM drawn")
    dimension = tables.spark.createDataFrame(keys, "x INT, y STRING")
    tables.same(table, dimension, on, null_safe=null_safe)
    tables.spark.sql(f"DROP TABLE {table}")
    tables.spark.catalog.dropTempView("drawn")
