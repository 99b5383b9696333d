"""Keys of NaN match NaN, and keys of -0.0 match 0.0, as in Spark's joins."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter

import pytest

import splitlib
from splitlib import DynamicFilteringData
from splitlib.spark.compat import to_arrow

pytestmark = pytest.mark.spark
_names = itertools.count()
VALUES = ("NaN", "-0.0", "0.0", "1.5", "2.5", "-Infinity", "Infinity", None)


@pytest.fixture(scope="module", params=["double", "float"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def facts(spark, kind):
    """Create three tables with the same rows, and return the common start of their names.

    The partition key is ``k`` in ``_p``, ``s`` in ``_d``, and both in ``_t``.
    """
    name = f"nan_{next(_names)}"
    rows = ", ".join(
        f"({i}, {'NULL' if v is None else repr(v)}, {i % 3})" for i, v in enumerate(VALUES)
    )
    selected = f"SELECT a, CAST(k AS {kind}) k, CAST(s AS int) s FROM VALUES {rows} AS t(a, k, s)"
    for suffix, parts in (("_p", "k"), ("_d", "s"), ("_t", "k, s")):
        spark.sql(
            f"CREATE TABLE {name}{suffix} USING parquet PARTITIONED BY ({parts}) AS {selected}"
        )
    return name


def rows_of(df):
    return Counter(map(str, df.collect()))


def same(spark, query):
    """Assert that the rows are the same with and without splitlib. Return them."""
    plain = rows_of(spark.sql(query))
    assert rows_of(splitlib.sql(spark, query)) == plain, query
    return plain


@pytest.mark.parametrize("keys", [["NaN"], ["-0.0", "NaN", None]])
def test_every_join(spark, facts, keys):
    values = ", ".join("(NULL)" if k is None else f"('{k}')" for k in keys)
    # The keys are always double. Spark converts a float column to double to compare it with them.
    dim = f"(SELECT CAST(d AS double) d FROM VALUES {values} AS v(d))"
    for suffix in ("_p", "_t"):
        fact = facts + suffix
        expected = same(spark, f"SELECT a, k FROM {fact} f JOIN {dim} d ON f.k = d.d")
        assert expected
        same(spark, f"SELECT a, k FROM {fact} f JOIN {dim} d ON f.k <=> d.d")
        same(spark, f"SELECT a, k FROM {fact} WHERE k IN (SELECT d FROM {dim})")
        # If a matching partition were pruned, this outer join would return nulls.
        same(spark, f"SELECT d.d, f.a FROM {dim} d LEFT JOIN {fact} f ON f.k = d.d")
    # In this query, the keys come from another fact table.
    wanted = f"SELECT k, a FROM {facts}_p WHERE a IN (0, 1, 2)"
    same(spark, f"SELECT f.a, o.a FROM {facts}_t f JOIN ({wanted}) o ON f.k = o.k")
    tuples = f"(SELECT CAST(d AS double) d, s FROM VALUES {values} v(d), VALUES (0), (1), (2) w(s))"
    same(spark, f"SELECT a FROM {facts}_t f JOIN {tuples} d ON f.k = d.d AND f.s = d.s")
    same(spark, f"SELECT a FROM {facts}_t WHERE (k, s) IN (SELECT d, s FROM {tuples})")


@pytest.mark.parametrize("suffix", ["_p", "_d", "_t"])
@pytest.mark.parametrize("null_safe", [False, True])
def test_filtered_by(spark, way, facts, kind, suffix, null_safe):
    fact = spark.table(facts + suffix)
    for keys in (["NaN"], ["-0.0", "1.5", None]):
        values = ", ".join("(NULL)" if k is None else f"('{k}')" for k in keys)
        dim = spark.sql(f"SELECT CAST(d AS {kind}) d FROM VALUES {values} AS v(d)")
        reader = splitlib.read(spark).table(f"default.{facts}{suffix}", **way)
        data = DynamicFilteringData.from_arrow(to_arrow(dim))
        equal = fact.k.eqNullSafe(dim.d) if null_safe else fact.k == dim.d
        expected = rows_of(fact.join(dim, equal, "left_semi"))
        assert expected
        for given in (dim, data.renamed({"d": "k"})):
            on = {"k": "d"} if given is dim else None
            loaded = reader.filtered_by(given, on=on, null_safe=null_safe).load()
            assert (
                rows_of(
                    loaded.join(
                        dim,
                        loaded.k.eqNullSafe(dim.d) if null_safe else loaded.k == dim.d,
                        "left_semi",
                    )
                )
                == expected
            ), keys


def test_nan_prunes_and_is_not_everything(spark, way, facts, kind):
    dim = spark.sql(f"SELECT CAST('NaN' AS {kind}) d")
    reader = splitlib.read(spark).table(f"default.{facts}_p", **way)
    loaded = reader.filtered_by(dim, on={"k": "d"}).load()
    assert [str(row.k) for row in loaded.collect()] == ["nan"]
    assert splitlib.explain(loaded).to_dict()["metrics"]["partitions_matched"] == 1


def test_more_keys_than_the_threshold(spark, way, facts, kind):
    """If there are too many float keys, they do not prune, because a range would lose NaN."""
    dim = spark.range(50).selectExpr(f"CAST(IF(id = 7, 'NaN', CAST(id AS string)) AS {kind}) d")
    reader = splitlib.read(spark).table(f"default.{facts}_p", **way)
    loaded = reader.config(filter_max_values=5).filtered_by(dim, on={"k": "d"}).load()
    assert "nan" in [str(row.k) for row in loaded.collect()]


def test_dates_beyond_python_over_the_threshold(spark, way):
    name = f"far_{next(_names)}"
    spark.sql(
        f"CREATE TABLE {name} USING parquet PARTITIONED BY (k) AS "
        "SELECT CAST(id AS int) a, DATE'2024-01-01' + CAST(id AS int) k FROM range(20)"
    )
    dim = spark.sql("SELECT DATE'2024-01-10' + CAST(id * 400000 AS int) d FROM range(30)")
    reader = splitlib.read(spark).table(f"default.{name}", **way)
    loaded = reader.config(filter_max_values=5).filtered_by(dim, on={"k": "d"}).load()
    assert sorted(row.k for row in loaded.collect())[0] == dt.date(2024, 1, 10)
    assert splitlib.explain(loaded).to_dict()["metrics"]["partitions_matched"] == 11
    pairs = spark.sql("SELECT d, 1 AS one FROM VALUES (DATE'2024-01-10' + 4000000) AS v(d)")
    empty = reader.filtered_by(pairs, on={"k": "d"}).load()
    assert empty.count() == 0
    # Conditions on such dates also prune. Plain Spark fails when the metastore gets such a date, so
    # the test does not compare the rows.
    for condition, kept in (
        ("k = DATE'2024-01-10' + 4000000", 0),
        ("k IN (DATE'2024-01-02', DATE'2024-01-10' + 4000000)", 1),
    ):
        assert reader.where(condition).load().count() == kept
