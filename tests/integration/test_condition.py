"""``splitlib.condition`` returns a filter that keeps every row of the fact that the join needs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.errors import ConfigError, InvalidFilter, NonDeterministicDimension
from splitlib.spark.join_condition import without_condition
from tests.support.abilities import COLLATES

pytestmark = pytest.mark.spark

# SQL expressions that turn a number into a value, by type of the value.
VALUES = {
    "tinyint": "CAST({} - 120 AS TINYINT)",
    "smallint": "CAST({} AS SMALLINT)",
    "int": "CAST({} AS INT)",
    "bigint": "9223372036854775807L - {}",
    "decimal(20,3)": "CAST({} AS DECIMAL(20,3)) / 8",
    "float": "CAST({} AS FLOAT) / 3",
    "double": "IF({0} = 0, -0.0D, IF({0} = 1, DOUBLE('NaN'), {0} / 7D))",
    "boolean": "{} % 2 = 0",
    "date": "DATE_ADD(DATE'2024-02-27', CAST({} AS INT))",
    "timestamp": "TIMESTAMP_SECONDS(1711846800 + 900 * {})",
    "timestamp_ntz": "TIMESTAMP_NTZ'2024-03-31 01:30:00' + MAKE_DT_INTERVAL(0, 0, {} * 15)",
    "string": "CONCAT('it''s a \\\\ ', CHR(36), '{{x}} ', CHAR(9), {}, ' é')",
    "binary": "UNHEX(LPAD(HEX({}), 4, '0'))",
}
LIMITS = {"values": 200, "ranges": 6}


def table(spark, kind, rows):
    return spark.sql(f"SELECT id, {VALUES[kind].format('id')} AS k FROM RANGE({rows})")


def rows_of(df):
    return sorted(map(str, df.select(*sorted(df.columns)).collect()))


@pytest.fixture(params=LIMITS)
def limited(request, spark):
    spark.conf.set("spark.splitlib.conditionLiterals", LIMITS[request.param])
    yield request.param
    spark.conf.unset("spark.splitlib.conditionLiterals")


@pytest.mark.parametrize("kind", VALUES)
def test_no_partner_is_lost(spark, limited, kind):
    fact, dimension = table(spark, kind, 60), table(spark, kind, 60).where("id % 20 < 8")
    found = splitlib.condition(dimension, "k")
    kept = fact.where(found.column)
    joined = rows_of(fact.join(dimension, "k", "left_semi"))
    assert rows_of(kept.join(dimension, "k", "left_semi")) == joined
    assert set(joined) <= set(rows_of(kept))
    if found.is_exact:
        assert rows_of(kept) == joined
    # For strings, the condition is never exact. The fact's column may be CHAR, and Spark pads
    # literals that it compares with CHAR. For floats, a key is zero, which becomes a range.
    listed = limited == "values" and kind not in ("string", "float", "double")
    assert found.is_exact == (listed or kind == "boolean")
    text = spark.sql(f"SELECT * FROM {{fact}} WHERE {found.sql}", fact=fact)
    assert rows_of(text) == rows_of(kept)


@pytest.mark.parametrize("zero", ["0.0D", "-0.0D"])
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_floats_that_readers_of_files_misjudge(
    spark: SparkSession, tmp_path: Path, form: str, zero: str
) -> None:
    """Dictionaries and bounds of files distinguish -0.0 from 0.0, and bounds ignore NaN."""
    negative, positive = str(tmp_path / "negative"), str(tmp_path / "positive")
    spark.sql("SELECT -0.0D AS k FROM RANGE(1000)").write.format(form).save(negative)
    spark.sql("SELECT 0.0D AS k FROM RANGE(1000)").write.format(form).save(positive)
    facts = spark.read.format(form).load([negative, positive])
    key = splitlib.freeze(spark.sql(f"SELECT {zero} AS k"))
    condition = splitlib.condition(key, "k")
    assert facts.where(condition.column).count() == 2000
    assert not condition.is_exact


def test_nan_beside_bounds_that_ignore_it(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1.0, float("nan"), 2.0]}), tmp_path / "0.parquet")
    key = splitlib.freeze(spark.sql("SELECT DOUBLE('NaN') AS k"))
    condition = splitlib.condition(key, "k")
    assert spark.read.parquet(str(tmp_path)).where(condition.column).count() == 1
    assert condition.is_exact


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.parser.escapedStringLiterals": "true"},
        {"spark.sql.ansi.enabled": "false"},
        {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"},
        {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
        {"spark.sql.session.timeZone": "America/Caracas"},
        {"spark.sql.legacy.literal.pickMinimumPrecision": "false"},
    ],
    ids=str,
)
def test_text_means_the_same_under_every_setting(spark, settings):
    kinds = ["string", "date", "decimal(20,3)", "double", "timestamp", "timestamp_ntz"]
    known = {kind: table(spark, kind, 9).where("id > 5") for kind in kinds}
    facts = {kind: table(spark, kind, 9).localCheckpoint() for kind in kinds}
    found = {kind: splitlib.condition(known[kind], "k").sql for kind in kinds}
    with changed(spark, settings):
        for kind in kinds:
            ids = [row.id for row in facts[kind].where(F.expr(found[kind])).collect()]
            assert sorted(ids) == [6, 7, 8], kind


@pytest.mark.parametrize(
    ("fact", "key"),
    [
        ("'2024-1-5'", "DATE'2024-01-05'"),
        ("' 7 '", "7"),
        ("'7.0'", "CAST(7 AS DOUBLE)"),
        ("7.00BD", "7"),
        ("CAST(7 AS DOUBLE)", "7"),
        ("TIMESTAMP'2024-01-05 00:00:00'", "DATE'2024-01-05'"),
        ("CAST('12.345' AS STRING)", "CAST(12.35 AS DECIMAL(10,2))"),
    ],
)
@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_the_join_converts_is_converted(spark, fact, key, ansi):
    before = spark.conf.get("spark.sql.ansi.enabled")
    try:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        facts = spark.sql(f"SELECT {fact} AS k")
        dimension = spark.sql(f"SELECT {key} AS k")
        joined = facts.join(dimension, facts.k == dimension.k, "left_semi").count()
        assert facts.where(splitlib.condition(dimension, "k").column).count() == joined
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_tuples_stay_together(spark):
    fact = spark.sql("SELECT i.id AS a, j.id AS b FROM RANGE(4) i, RANGE(4) j")
    dimension = spark.sql("SELECT * FROM VALUES (1, 2), (2, 1), (NULL, 3) AS d(x, y)")
    found = splitlib.condition(dimension, {"a": "x", "b": "y"})
    assert found.is_exact
    assert rows_of(fact.where(found.column)) == ["Row(a=1, b=2)", "Row(a=2, b=1)"]


def test_many_tuples_are_told_column_by_column(spark, limited):
    dimension = spark.sql("SELECT id AS a, id % 2 AS b FROM RANGE(300)")
    found = splitlib.condition(dimension, ["a", "b"])
    assert not found.is_exact
    assert " AND " in found.sql
    assert "b: 2 values" in str(found.explain())
    assert spark.range(-5, 305).selectExpr("id AS a", "0 AS b").where(found.column).count() == 300


def test_nulls_match_where_the_join_says_so(spark):
    dimension = spark.sql("SELECT * FROM VALUES (1), (NULL) AS d(k)")
    fact = spark.sql("SELECT * FROM VALUES (1), (2), (NULL) AS f(k)")
    plain, safe = (splitlib.condition(dimension, "k", null_safe=safe) for safe in (False, True))
    assert rows_of(fact.where(plain.column)) == ["Row(k=1)"]
    assert rows_of(fact.where(safe.column)) == ["Row(k=1)", "Row(k=None)"]


def test_no_keys(spark):
    found = splitlib.condition(spark.range(3).where("id > 5"), "id")
    assert (found.sql, found.is_exact) == ("false", True)


@pytest.mark.newest_spark
@pytest.mark.parametrize("kind", VALUES)
def test_no_keys_for_a_merge(spark, kind):
    """Without keys, the condition matches no row, but Spark cannot reduce it to a constant.

    Iceberg's MERGE fails on a constant condition.
    """
    fact = table(spark, kind, 5)
    never = splitlib.merge_condition(fact.where("id > 9"), "k")
    kept = fact.where(never)
    assert kept.count() == 0
    assert never.count("`k`") == 2


@pytest.mark.newest_spark
def test_no_keys_of_no_type_for_a_merge(spark):
    source = spark.sql("SELECT NULL AS k")
    assert spark.range(3).where(splitlib.merge_condition(source, {"id": "k"})).count() == 0


def test_beyond_the_threshold_there_are_bounds(spark):
    spark.conf.set("spark.splitlib.filterMaxValues", 10)
    try:
        found = splitlib.condition(spark.range(1000), "id")
    finally:
        spark.conf.unset("spark.splitlib.filterMaxValues")
    assert found.sql == "(`id` >= 0L AND `id` <= 999L)"
    assert not found.is_exact
    assert "one range from 0 to 999" in str(found.explain())


def test_what_cannot_be_compared_says_nothing(spark):
    dimension = spark.sql("SELECT STRUCT(1 AS x) AS s, 1 AS k")
    assert splitlib.condition(dimension, "s").sql == "true"
    both = splitlib.condition(dimension, ["s", "k"])
    assert (both.sql, both.is_exact) == ("`k` = 1", False)


def test_a_merge_condition_names_the_target(spark):
    source = spark.sql("SELECT DATE'2024-01-05' AS dt, 7 AS id")
    assert splitlib.merge_condition(source, {"t.dt": "dt"}) == "`t`.`dt` = DATE'2024-01-05'"
    quoted = splitlib.merge_condition(source, {"t.`a b`": "id"})
    assert quoted == "`t`.`a b` = 7"
    assert splitlib.merge_condition(source, {"t.a b": "id"}) == quoted


@pytest.mark.newest_spark
@pytest.mark.parametrize("enforced", ["false", "true"])
def test_columns_named_as_words_of_sql(spark, enforced):
    names = ["null", "true", "false", "order", "from", "user", "current_date", "a`b", "a b"]
    fact = spark.createDataFrame([(n,) * len(names) for n in range(4)], names)
    dimension = spark.sql("SELECT 1L AS k UNION ALL SELECT 3L")
    settings = {
        "spark.sql.ansi.enabled": "true",
        "spark.sql.ansi.enforceReservedKeywords": enforced,
    }
    with changed(spark, settings):
        for name in names:
            given = f"`{name.replace('`', '``')}`"
            found = splitlib.condition(dimension, {given: "k"})
            assert [row[0] for row in fact.where(found.column).collect()] == [1, 3], name
            aliased = splitlib.merge_condition(dimension, {f"t.{given}": "k"})
            assert fact.alias("t").where(aliased).count() == 2, name


@pytest.mark.newest_spark
def test_a_column_whose_name_is_a_variable_is_refused(spark):
    dimension = spark.sql("SELECT 1 AS k")
    for name in ("${z}", "t.`a ${env:HOME}`"):
        with pytest.raises(InvalidFilter, match="cannot be used in SQL text"):
            splitlib.condition(dimension, {name: "k"})
    with changed(spark, {"spark.sql.variable.substitute": "false"}):
        found = splitlib.condition(dimension, {"${z}": "k"}).sql
        assert spark.sql("SELECT id AS `${z}` FROM RANGE(3)").where(found).count() == 1
    with pytest.raises(InvalidFilter, match="is not a column name"):
        splitlib.condition(dimension, {"t.`a": "k"})


@pytest.mark.newest_spark
def test_ranges_beyond_the_years_of_python(spark):
    rows = spark.sql(
        "SELECT MAKE_DATE(CAST(9000 + 100 * id AS INT), 1, 1) AS d,"
        " MAKE_TIMESTAMP_NTZ(CAST(9000 + 100 * id AS INT), 1, 1, 0, 0, 0) AS n FROM RANGE(20)"
    )
    with changed(spark, {"spark.splitlib.conditionLiterals": "6"}):
        for column in rows.columns:
            found = splitlib.condition(rows, column)
            assert "to 10900-01-01" in str(found.explain())
            assert rows.where(found.column).count() == 20


def test_collations(spark):
    if not COLLATES:
        pytest.skip("this Spark has no collations")
    if spark.version.startswith("4.0"):
        pytest.skip("Spark 4.0 by itself returns no rows of collated columns")
    cast = "CAST({} AS STRING COLLATE UTF8_LCASE) AS k"
    fact = spark.sql(f"SELECT {cast.format('c')} FROM VALUES ('A'), ('b'), ('C') AS f(c)")
    dimension = spark.sql(f"SELECT {cast.format('c')} FROM VALUES ('a'), ('c') AS d(c)")
    found = splitlib.condition(dimension, "k")
    assert rows_of(fact.where(found.column)) == ["Row(k='A')", "Row(k='C')"]
    many = spark.sql(f"SELECT {cast.format('id')} FROM RANGE(500)")
    assert splitlib.condition(many, "k").sql == "true"


def test_a_database_gets_it_as_where(spark):
    where = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    url = "jdbc:derby:memory:condition;create=true"
    rows = "SELECT CAST(id AS INT) AS k, DATE_ADD(DATE'2024-01-01', CAST(id AS INT)) AS d "
    spark.sql(f"{rows} FROM RANGE(100)").write.jdbc(url, "facts", "overwrite", where)
    fact = spark.read.jdbc(url, "facts", properties=where)
    dimension = spark.sql(f"{rows} FROM RANGE(90) WHERE id < 3 OR id > 80")
    for column, pushed in (("k", "Or(Or(EqualTo(k,0)"), ("d", "EqualTo(d,2024-01-01)")):
        kept = fact.where(splitlib.condition(dimension, column).column)
        assert kept.count() == 12
        plan = kept._jdf.queryExecution().executedPlan().toString()
        assert pushed in plan, plan


def test_what_is_refused(spark):
    with pytest.raises(InvalidFilter, match="no column nope"):
        splitlib.condition(spark.range(3), {"k": "nope"})
    with pytest.raises(InvalidFilter, match="not a dict"):
        splitlib.condition({"k": [1]}, "k")  # type: ignore[arg-type]
    with pytest.raises(NonDeterministicDimension):
        splitlib.condition(spark.range(3).where("rand() > 0.5"), "id")
    with pytest.raises(ConfigError):
        splitlib.SplitConfig(condition_literals=1)


# Derby, the metastore's database, orders strings by UTF-16. Spark orders them by UTF-8. So only in
# Derby, 😀 and 𝒳 come before the other non-ASCII characters.
STRINGS = ["ab", "\ufb01", "\ufffd", "\U0001f600", "\U0001d4b3"]
ODD = ["\\", "a\\", '\\"b', "\"'", "'", '"', "é"]


@pytest.fixture(scope="module")
def partitioned(spark):
    """Create a metastore table with one partition for each string. Return its name."""
    spark.sql("CREATE TABLE cond_strings (a INT) PARTITIONED BY (p STRING) STORED AS PARQUET")
    rows = spark.createDataFrame(list(enumerate([*STRINGS, *ODD])), "a INT, p STRING")
    rows.coalesce(1).createOrReplaceTempView("cond_rows")
    spark.sql("INSERT INTO cond_strings SELECT * FROM cond_rows")
    spark.catalog.dropTempView("cond_rows")
    yield "cond_strings"
    spark.sql("DROP TABLE cond_strings")


@pytest.mark.parametrize("literals", [4, 200])
def test_a_metastore_is_given_no_ranges_of_strings(spark, partitioned, literals):
    dimension = spark.createDataFrame([(text,) for text in STRINGS], "p STRING")
    with changed(spark, {"spark.splitlib.conditionLiterals": str(literals)}):
        found = splitlib.condition(dimension, "p")
        text = splitlib.merge_condition(dimension, {"t.p": "p"})
    assert not found.is_exact  # The fact's column may be CHAR.
    kept = spark.table(partitioned).where(found.column)
    assert {row.p for row in kept.collect()} >= set(STRINGS)
    assert spark.table(partitioned).alias("t").where(text).count() == kept.count()
    assert ">" not in found.sql
    assert found.sql == "true" or literals == 200


def test_bounds_of_strings_are_no_condition(spark):
    with changed(spark, {"spark.splitlib.filterMaxValues": "2"}):
        found = splitlib.condition(spark.sql("SELECT CAST(id AS STRING) AS p FROM RANGE(9)"), "p")
    assert (found.sql, found.is_exact) == ("true", False)
    limit = "there are 9 keys, more than filter_max_values (2)"
    assert found.explain().filters == (without_condition("p", limit),)


@pytest.mark.parametrize("odd", ODD)
def test_a_metastore_is_given_no_text_that_it_misreads(spark, partitioned, odd):
    for texts in ([odd], [odd, "ab"]):
        dimension = spark.createDataFrame([(text,) for text in texts], "p STRING")
        found = splitlib.condition(dimension, "p")
        kept = spark.table(partitioned).where(found.column).collect()
        assert {row.p for row in kept} == set(texts)


@pytest.mark.newest_spark
def test_over_connect(over_connect):
    over_connect(
        """
        import splitlib
        dimension = spark.sql("SELECT DATE'2024-01-05' AS dt UNION ALL SELECT DATE'2024-02-01'")
        found = splitlib.condition(dimension, {"f.dt": "dt"})
        days = spark.range(60).selectExpr("DATE_ADD(DATE'2024-01-01', CAST(id AS INT)) AS dt")
        assert found.is_exact
        assert days.alias("f").where(found.column).count() == 2, found.sql
        """
    )
