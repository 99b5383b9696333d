"""Keys of data columns skip row groups of Parquet tables, where these differ in the column."""

from __future__ import annotations

import math
import random

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

import splitlib
from benchmarks.data_keys import rows_read
from splitlib.spark.planner.scan_sites import prunable

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

ROWS, GROUP, DAYS = 4000, 100, 6


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    monkeypatch.setattr(prunable, "LEAST_BYTES", 1)


@pytest.fixture(scope="module")
def facts(spark, tmp_path_factory):
    """Return the directories of facts, by name, and register dimensions as views.

    ``sorted`` has six days, each sorted by ``item``. ``mixed`` has the same rows in random order,
    and ``whole`` has those of one day without partitions.
    """
    root = tmp_path_factory.mktemp("data_keys")
    drawn = random.Random(7)
    for name in ("sorted", "mixed"):
        for day in range(DAYS):
            items = range(ROWS) if name == "sorted" else drawn.sample(range(ROWS), ROWS)
            (root / name / f"day={day}").mkdir(parents=True)
            table = pa.table({"item": items, "amount": [i % 7 for i in items]})
            pq.write_table(table, root / name / f"day={day}/f.parquet", row_group_size=GROUP)
    (root / "whole").mkdir()
    table = pa.table({"item": range(ROWS), "amount": [i % 7 for i in range(ROWS)]})
    table = table.append_column("note", [[f"note {drawn.random()}" for _ in range(ROWS)]])
    pq.write_table(table, root / "whole/f.parquet", row_group_size=GROUP)
    items = pa.table({"id": range(ROWS), "brand": [i // 50 for i in range(ROWS)]})
    pq.write_table(items, root / "items.parquet")
    spark.read.parquet(str(root / "items.parquet")).createOrReplaceTempView("data_keys_items")
    for name in ("sorted", "mixed", "whole"):
        spark.read.parquet(str(root / name)).createOrReplaceTempView(f"data_keys_{name}")
    yield root
    for name in ("items", "sorted", "mixed", "whole"):
        spark.catalog.dropTempView(f"data_keys_{name}")


def rows_scanned(df):
    """Run ``df``. Return how many rows its scans of fact files read, before any row filter."""
    df.collect()
    return rows_read(df, "amount")


QUERY = """
    SELECT f.item, f.amount, d.brand FROM data_keys_{fact} f
    JOIN data_keys_items d ON f.item = d.id WHERE d.brand IN ({brands})
"""


@pytest.mark.parametrize("brands", ["3", "3, 70", ", ".join(map(str, range(0, 80, 4)))])
@pytest.mark.parametrize("fact", ["sorted", "whole"])
def test_row_groups_without_keys_are_skipped(spark, facts, fact, brands):
    query = QUERY.format(fact=fact, brands=brands)
    df = splitlib.sql(spark, query)
    days = DAYS if fact == "sorted" else 1
    # a brand has 50 items, in half a row group of each day
    assert rows_scanned(df) == days * GROUP * len(brands.split(","))
    assert sorted(df.collect()) == sorted(spark.sql(query).collect())
    (scan,) = (s for s in splitlib.explain(df).scans if s.filters)
    (use,) = scan.filters
    assert use.used_fields == ("item",)
    assert use.row_groups.total == days * ROWS // GROUP
    assert use.row_groups.matched == days * len(brands.split(","))
    assert "sampled row groups" in str(splitlib.explain(df))
    assert not scan.reasons


def test_row_groups_with_nearly_all_values_are_not_tested(spark, facts):
    query = QUERY.format(fact="mixed", brands="3")
    df = splitlib.sql(spark, query)
    assert "item are not used: most row groups have nearly all" in str(splitlib.explain(df))
    assert rows_scanned(df) == DAYS * ROWS
    assert sorted(df.collect()) == sorted(spark.sql(query).collect())


@pytest.mark.parametrize("condition", ["= 'open'", "LIKE 'o%'", "LIKE '%pe%'", "LIKE '%en'"])
def test_dictionaries_are_still_used_for_conditions_of_the_query(spark, facts, tmp_path, condition):
    """Parquet's reader skips row groups whose dictionary does not have the value."""
    status = ["az"[i % 2] for i in range(ROWS)]
    status[ROWS // 2] = "open"
    table = pq.read_table(facts / "whole/f.parquet").append_column("status", [status])
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=GROUP)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("data_keys_status")
    brands = ", ".join(map(str, range(30, 60)))
    query = f"{QUERY.format(fact='status', brands=brands)} AND f.status {condition}"
    df = splitlib.sql(spark, query)
    assert rows_scanned(df) == GROUP
    assert df.collect() == spark.sql(query).collect()
    assert any(scan.filters for scan in splitlib.explain(df).scans), str(splitlib.explain(df))
    spark.catalog.dropTempView("data_keys_status")


def test_pages_without_keys_are_skipped(spark, facts, tmp_path):
    """Spark's reader skips pages of a row group by their index, if the row groups differ."""
    table = pa.table({"item": range(ROWS), "amount": [i % 7 for i in range(ROWS)]})
    of_pages = {"write_page_index": True, "max_rows_per_page": 10}
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=GROUP, **of_pages)
    spark.read.parquet(str(tmp_path)).createOrReplaceTempView("data_keys_pages")
    query = QUERY.format(fact="pages", brands="3")
    df = splitlib.sql(spark, query)
    assert rows_scanned(df) == 50  # the brand's items, in five pages of a row group
    assert sorted(df.collect()) == sorted(spark.sql(query).collect())
    spark.catalog.dropTempView("data_keys_pages")


def test_partitions_and_row_groups_are_pruned_together(spark, facts):
    query = QUERY.format(fact="sorted", brands="3").replace(
        "WHERE", "JOIN (SELECT * FROM VALUES (2), (4) AS v(day)) v ON f.day = v.day WHERE"
    )
    df = splitlib.sql(spark, query)
    assert rows_scanned(df) == 2 * GROUP
    assert sorted(df.collect()) == sorted(spark.sql(query).collect())
    (scan,) = (s for s in splitlib.explain(df).scans if s.filters)
    assert scan.partitions.matched == 2
    assert len(scan.filters) == 2


@pytest.mark.parametrize(
    "join",
    [
        "LEFT OUTER JOIN data_keys_items d ON f.item = d.id AND d.brand = 3",
        "FULL OUTER JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item = d.id",
        "LEFT ANTI JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item = d.id",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item <> d.id",
        "RIGHT OUTER JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item = d.id",
        "LEFT SEMI JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item = d.id",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item <=> d.id",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item < d.id",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON f.item + 1 = d.id",
        "JOIN (SELECT CAST(id AS string) id FROM data_keys_items WHERE brand = 3) d "
        "ON f.item = d.id",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = -1) d ON f.item = d.id",
        "JOIN (SELECT * FROM data_keys_items WHERE brand < 2) d "
        "ON f.item = d.id AND f.item = d.brand",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d "
        "ON f.item >= d.id AND f.item < d.id + 5",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d "
        "ON f.item >= d.id AND f.item < d.id + 5.5",
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d "
        "ON f.item = d.id AND f.amount = d.id % 7",
        "WHERE f.item = (SELECT max(id) FROM data_keys_items WHERE brand = 3)",
        "JOIN data_keys_whole g ON f.item = g.item "
        "JOIN (SELECT * FROM data_keys_items WHERE brand = 3) d ON g.item = d.id",
    ],
)
def test_rows_are_those_of_spark(spark, facts, join):
    query = f"SELECT count(*), sum(f.amount), sum(f.item) FROM data_keys_sorted f {join}"
    assert splitlib.sql(spark, query).collect() == spark.sql(query).collect()


@pytest.mark.parametrize(
    ("join", "reason"),
    [
        ("JOIN d ON f.item + 1 = d.id", "(f.item + 1L) = d.id: keys are compared with a computed"),
        ("JOIN d ON f.item + d.brand = d.id", "combines columns of this table with other columns."),
        ("LEFT JOIN d ON f.item = d.id", "LEFT OUTER JOIN keeps every row of this table"),
        ("JOIN data_keys_items d ON f.item = d.id", "f.item = d.id: the dimension has no"),
        (
            "JOIN d ON f.note = string(d.id) COLLATE UTF8_LCASE",
            "LCASE can only be compared by Spark",
        ),
        ("JOIN data_keys_sorted d ON f.item = d.item AND d.amount = 3", "larger than half of this"),
    ],
)
def test_a_table_without_partitions_that_no_join_filters_is_reported(spark, facts, join, reason):
    with_d = "WITH d AS (SELECT id, brand FROM data_keys_items WHERE brand = 3)"
    query = f"{with_d} SELECT f.amount, d.* FROM data_keys_whole f {join}"
    df = splitlib.sql(spark, query)
    (scan,) = (s for s in splitlib.explain(df).scans if s.table.endswith("whole"))
    assert any(reason in found for found in scan.reasons), scan.reasons
    assert df.count() == spark.sql(query).count()


def test_intersect_has_keys_without_a_join(spark, facts):
    ids = "SELECT id FROM data_keys_items WHERE brand = 3"
    query = f"SELECT item FROM data_keys_whole INTERSECT {ids}"
    df = splitlib.sql(spark, query)
    (use,) = (use for scan in splitlib.explain(df).scans for use in scan.filters)
    assert use.row_groups == (1, ROWS // GROUP)
    assert sorted(df.collect()) == sorted(spark.sql(query).collect())


@pytest.mark.parametrize("on", ["f.a = d.x AND f.A = d.y", "f.A = d.y AND f.a = d.x"])
def test_columns_whose_names_differ_only_in_case(spark, facts, tmp_path, on):
    pairs = pa.table({"a": range(ROWS), "A": range(ROWS, 2 * ROWS)})
    pq.write_table(pairs, tmp_path / "f.parquet", row_group_size=GROUP)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        spark.read.parquet(str(tmp_path)).createOrReplaceTempView("data_keys_cases")
        days = f"SELECT id AS x, id + {ROWS} AS y FROM data_keys_items WHERE brand = 3"
        query = f"SELECT f.a, f.A FROM data_keys_cases f JOIN ({days}) d ON {on}"
        found = splitlib.sql(spark, query).collect()
        assert sorted(tuple(row) for row in found) == [(i, i + ROWS) for i in range(150, 200)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
        spark.catalog.dropTempView("data_keys_cases")


def test_partition_column_with_the_name_of_a_data_column_in_another_case(spark, facts):
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        spark.sql(
            "CREATE TABLE data_keys_days USING parquet PARTITIONED BY (Day) AS "
            "SELECT id AS v, id % 5 AS day, id % 8 AS Day FROM range(0, 40, 1, 1)"
        )
        days = "SELECT id FROM data_keys_items WHERE id IN (2, 5)"
        query = f"SELECT f.v FROM data_keys_days f JOIN ({days}) d ON f.Day = d.id"
        found = splitlib.sql(spark, query).collect()
        assert sorted(v for (v,) in found) == [i for i in range(40) if i % 8 in (2, 5)]
    finally:
        spark.sql("DROP TABLE IF EXISTS data_keys_days")
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    "item",
    [
        "date_add(DATE'40000-01-01', int(id))",
        "TIMESTAMP_LTZ'40000-01-01 00:00:00' + make_dt_interval(int(id))",
        "TIMESTAMP_NTZ'40000-01-01 00:00:00' + make_dt_interval(int(id))",
        "make_dt_interval(int(id), 1, 2, 3.000004)",
    ],
)
def test_years_that_arrow_cannot_format_and_intervals(spark, tmp_path, item, ansi):
    rows = spark.range(0, 400, 1, 10).selectExpr(f"{item} AS item", "id AS amount")
    rows.write.parquet(str(tmp_path / "t"))
    rows.where("amount IN (5, 250)").select("item").write.parquet(str(tmp_path / "d"))
    fact, dim = (spark.read.parquet(str(tmp_path / name)) for name in "td")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        found = splitlib.optimize(fact.join(dim, "item").select("amount")).collect()
        assert sorted(row.amount for row in found) == [5, 250]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


TYPED = {
    "item": ("id", None),
    "day": ("date_add(DATE'2000-01-01', int(id))", "date"),
    "at": ("timestamp_micros(id * 3600000000)", "timestamp"),
    "price": ("CAST(id AS DECIMAL(12, 2))", "decimal"),
}


@pytest.fixture(scope="module")
def typed(spark, tmp_path_factory):
    """Return the directory of a table that is sorted by columns of several types."""
    root = tmp_path_factory.mktemp("typed")
    columns = [f"{sql} AS {name}" for name, (sql, _) in TYPED.items()]
    rows = spark.range(0, ROWS, 1, 1).selectExpr(*columns, "id AS amount")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    try:
        rows.write.option("parquet.block.row.count.limit", GROUP).parquet(str(root / "t"))
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return str(root / "t")


@pytest.mark.parametrize("setting", [None, "spark.sql.parquet.enableVectorizedReader"])
@pytest.mark.parametrize("column", TYPED)
def test_settings_that_stand_in_the_way(spark, typed, column, setting):
    """Parquet's reader skips row groups without the vectorized reader, but not without pushdown."""
    fact = spark.read.parquet(typed)
    keys = splitlib.freeze(fact.where("amount = 205").select(column))
    general, kind = "spark.sql.parquet.filterPushdown", TYPED[column][1]
    tried = [setting] if setting else [general, *([f"{general}.{kind}"] if kind else [])]
    for off in tried:
        spark.conf.set(off, "false")
        try:
            reader = splitlib.read(spark).table(typed, connector="files")
            read = reader.filtered_by(keys, on={column: column}).load()
            for df in (splitlib.optimize(fact.join(keys, column)), read):
                note = f"Spark skips no parts of files by {column}: {off} is off; set it to true"
                assert (note in str(splitlib.explain(df))) == (setting is None)
                assert rows_scanned(df) == (GROUP if setting else ROWS)
                assert [row.amount for row in df.collect()] == [205]
        finally:
            spark.conf.unset(off)


NAN, INF = math.nan, math.inf
FLOATS = [
    [-INF, -3.5, -2.0, -1.0],
    [-1e-30, -0.0, -0.0, None],
    [0.0, 0.0, 1e-30, 0.1],
    [1.5, NAN, 2.5, NAN],
    [3.0, INF, 3.5, 4.0],
    [NAN, NAN, NAN, None],
    [5.0, 6.0, 7.0, 8.0],
    [None, None, None, None],
]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("writer", ["pyarrow", "spark", "duckdb"])
def test_floats(spark, tmp_path, writer, kind):
    """-0.0 equals 0.0, and NaN equals NaN, whatever the statistics of the writer say of them."""
    for number, values in enumerate(FLOATS):
        stored = pa.array(values, pa.float32() if kind == "float" else pa.float64())
        table = pa.table({"f": stored, "amount": [10 * number + i for i in range(4)]})
        path = tmp_path / f"t/{number}.parquet"
        path.parent.mkdir(exist_ok=True)
        if writer == "duckdb":
            with duckdb.connect() as connection:
                connection.register("rows", table)
                connection.execute(f"COPY rows TO '{path}' (FORMAT parquet)")
        elif writer == "spark":
            rows = zip(*table.to_pydict().values(), strict=True)
            df = spark.createDataFrame(list(rows), f"f {kind}, amount long").coalesce(1)
            df.write.mode("append").parquet(str(path.parent))
        else:
            pq.write_table(table, path)
    fact = spark.read.parquet(str(tmp_path / "t"))
    for keys, files in [
        ([-0.0], 2),
        ([0.0], 2),
        ([-3.5, -1e-30], 2),
        ([INF, -INF], 2),
        ([0.5, 6.0], 2),
        ([NAN], None),
        ([NAN, 1.5], None),
        ([float(i) for i in range(-4, 3)], None),
        ([i / 2 for i in range(10, 40)], 2),
        ([9.0], 1),
    ]:
        dimension = spark.createDataFrame([(key,) for key in keys], f"f {kind}")
        plain = sorted(row.amount for row in fact.join(dimension, "f").collect())
        df = splitlib.optimize(fact.join(dimension, "f").select("amount"))
        assert sorted(row.amount for row in df.collect()) == plain, keys
        reader = splitlib.read(spark).table(str(tmp_path / "t"), connector="files")
        read = reader.filtered_by(dimension, on={"f": "f"}).load()
        assert sorted(row.amount for row in read.join(dimension, "f").collect()) == plain, keys
        if files is not None:
            (scan,) = (s for s in splitlib.explain(df).scans if s.filters)
            # PyArrow writes no bounds if all values are NaN, the others if one is.
            unknown = 1 if writer == "pyarrow" else 2
            assert scan.files.matched == files + unknown, (keys, str(scan))


def test_a_table_that_is_read_twice_keeps_its_rows(spark, facts):
    query = QUERY.format(fact="sorted", brands="3")
    query = f"{query} UNION ALL SELECT item, amount, 0 FROM data_keys_sorted WHERE item < 5"
    assert sorted(splitlib.sql(spark, query).collect()) == sorted(spark.sql(query).collect())


def test_files_whose_footers_cannot_be_read_are_left_to_spark(spark, facts, tmp_path):
    """Spark itself reports a damaged file."""
    data = (facts / "whole/f.parquet").read_bytes()
    (tmp_path / "f.parquet").write_bytes(data[:-4] + b"PARX")
    damaged = spark.read.schema("item bigint, amount bigint, note string").parquet(str(tmp_path))
    items = spark.table("data_keys_items").where("brand = 3")
    df = splitlib.optimize(damaged.join(items, damaged.item == items.id))
    assert "the files have no statistics of it (1 file was sampled)" in str(splitlib.explain(df))
    with pytest.raises(Exception, match=r"FAILED_READ_FILE|not a Parquet file"):
        df.collect()


def test_rows_of_a_dimension_keep_the_ids_of_its_table(spark, facts):
    """A planned query has the rows of a dimension, and another query reads the dimension again."""
    days = "SELECT id FROM data_keys_items WHERE id IN (1, 3)"
    first = splitlib.sql(
        spark, f"SELECT f.* FROM data_keys_sorted f LEFT SEMI JOIN ({days}) d ON f.day = d.id"
    )
    first.createOrReplaceTempView("data_keys_some_days")
    query = """
        SELECT v.item, v.day, i.brand FROM data_keys_some_days v
        JOIN data_keys_items i ON v.item = i.id WHERE i.brand = 3
    """
    df = splitlib.sql(spark, query)
    assert not splitlib.explain(df).reasons
    assert sorted(df.collect()) == sorted(spark.sql(query).collect())
    spark.catalog.dropTempView("data_keys_some_days")


@pytest.mark.parametrize("on", ["date(f.ts) = d.day", "date_trunc('DAY', f.ts) = d.day"])
def test_days_of_a_timestamp_skip_row_groups(spark, tmp_path, on):
    hours = [1_700_000_000_000_000 + i * 3_600_000_000 for i in range(ROWS)]
    times = pa.array(hours, pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "amount": range(ROWS)})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=GROUP)
    fact = spark.read.parquet(str(tmp_path))
    days = spark.sql(
        "SELECT date(timestamp_seconds(1700500000 + id * 7000000)) AS day FROM RANGE(2)"
    )
    query = "SELECT f.amount, d.day FROM {f} f JOIN {d} d ON " + on
    plain = spark.sql(query, f=fact, d=days)
    df = splitlib.optimize(plain)
    # Each of the two days is in one or two row groups of 100 hours.
    assert rows_scanned(df) <= 4 * GROUP
    found = df.collect()
    assert sorted(found) == sorted(plain.collect())
    assert len(found) == 48
