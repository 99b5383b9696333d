"""The ``session`` connector requests partitions by full name or name prefix, or lists all names."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData
from splitlib.filtering.partition_names import CANONICAL_VALUES
from splitlib.spark import session
from splitlib.spark.jvm.session_catalog import CatalogPartitions, HivePartitions
from splitlib.spark.session_catalog import connector

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

REGIONS = ["eu", "EU", "e.u", "eXu", "e_u", "e u", "e%", "01", "é"]
DAYS = ["2024-01-01", "2024-01-02", "2024-10-01"]
MADE_BY = {
    "hive": "(a INT) PARTITIONED BY (Region STRING, day STRING) STORED AS PARQUET",
    "spark": "(a INT, Region STRING, day STRING) USING parquet PARTITIONED BY (Region, day)",
    "text": "(a INT) PARTITIONED BY (Region STRING, day STRING) STORED AS TEXTFILE",
}
ROWS: list[tuple[str | None, str | None]] = [(region, day) for region in REGIONS for day in DAYS]
ROWS += [(None, DAYS[0]), ("eu", None), ("", DAYS[0])]
EVERY = {(region or None, day) for region, day in ROWS}


@pytest.fixture(scope="module", params=MADE_BY)
def visits(request, tables):
    """Create a table with one partition per tuple in :data:`EVERY`, and return its name."""
    rows = [(i, *row) for i, row in enumerate(ROWS)]
    visited = tables.spark.createDataFrame(rows, "a INT, region STRING, day STRING")
    visited.createOrReplaceTempView("visited")
    yield tables.create(MADE_BY[request.param], "INSERT INTO {t} SELECT * FROM visited")
    tables.spark.catalog.dropTempView("visited")


def keys(*rows, fields=("region", "day")):
    """Return join keys, one tuple per key. Shorter tuples have only the first of ``fields``."""
    fields = fields[: len(rows[0])]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return DynamicFilteringData.from_arrow(pa.table(columns, names=list(fields)))


def enumerated(table, *filters):
    """Return the values of partitions with splits, the metrics, and the kind of request."""
    enumerator = DynamicFileEnumerator(table)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found = [tuple(split.partition_values.values()) for split in enumerator.enumerate_splits()]
    assert len(found) == len(set(found))
    return set(found), enumerator.metrics, enumerator.explain().asked_for


def test_what_all_keys_say_is_asked_for_by_name(tables, visits):
    wanted = {("eu", DAYS[0]), ("e.u", DAYS[1]), ("01", DAYS[2]), ("EU", DAYS[0])}
    with tables.open(visits) as table:
        found, metrics, plan = enumerated(table, keys(*wanted, ("nowhere", DAYS[0])))
    assert found == wanted
    assert (metrics.metastore_requests, metrics.partitions_total) == (1, 4)
    assert plan == "by name"


def test_the_first_key_is_asked_for_by_the_start_of_the_name(tables, visits):
    wanted = {(region, day) for region in ("e.u", "eXu") for day in DAYS}
    with tables.open(visits) as table:
        found, metrics, plan = enumerated(table, keys(("e.u",), ("eXu",), ("nowhere",)))
    assert found == wanted
    assert (metrics.metastore_requests, metrics.partitions_total) == (3 + 2, 6)
    assert plan == "by the start of their names: 3 prefixes"


@pytest.mark.parametrize("row", [("eu", "no day"), ("eu", None), ("e u", DAYS[0]), (None, DAYS[0])])
def test_what_has_several_spellings_is_not_asked_for_by_name(tables, visits, row):
    with tables.open(visits) as table:
        found, _, plan = enumerated(table, keys(row))
    assert found == {row} & EVERY
    assert plan == ("by the start of their names: 1 prefix" if row[0] == "eu" else "")


@pytest.mark.parametrize(
    ("condition", "plan"),
    [
        ("Region = 'eu'", "by the start of their names: 1 prefix"),
        ("Region IN ('e.u', 'eXu', 'nowhere')", "by the start of their names: 3 prefixes"),
        ("Region IN ('a', 'b', 'c', 'd', 'eu')", ""),
        ("Region = 'eu' AND day > '2024-01-01'", "by the start of their names: 1 prefix"),
        ("Region = 'eu' AND day = '2024-01-01' AND a > -1", "by name"),
        ("Region IN ('a', 'b', 'c', 'd', 'eu') AND day IN ('2024-01-01', '2024-01-02')", "by name"),
        ("day = '2024-01-01'", ""),
        ("Region = 'eu' OR day = '2024-01-01'", ""),
        ("lower(Region) = 'eu'", ""),
    ],
)
def test_what_a_condition_says_is_asked_for_as_well(tables, visits, condition, plan):
    loaded = tables.session_reader(visits).where(condition).load()
    assert splitlib.explain(loaded).asked_for == plan
    expected = tables.spark.table(visits).where(condition)
    assert sorted(map(str, loaded.collect())) == sorted(map(str, expected.collect()))


def test_by_sql_alone_names_are_asked_for_by_their_start(tables, visits):
    with splitlib.load_table(visits, "session", spark=tables.spark, spark_scan="paths") as table:
        found, metrics, plan = enumerated(table, keys(("e.u",), ("nowhere",)))
        assert found == {("e.u", day) for day in DAYS}
        assert (metrics.metastore_requests, metrics.partitions_total) == (2 + 3, 3)
        assert plan == "by the start of their names: 2 prefixes"
        found, metrics, plan = enumerated(table, keys(("e.u", DAYS[1])))
        assert (found, metrics.metastore_requests) == ({("e.u", DAYS[1])}, 1 + 1)
        _, metrics, plan = enumerated(table, keys(*((region, DAYS[1]) for region in REGIONS[:5])))
        assert (metrics.partitions_total, plan) == (len(EVERY), "")


@pytest.mark.parametrize("how", ["auto", "paths"])
@pytest.mark.parametrize("canonical", [False, "TRUE"])
def test_numbers_and_dates_only_if_they_are_said_to_have_one_spelling(tables, how, canonical):
    form = "(a INT, k INT, d DATE) USING parquet PARTITIONED BY (k, d)"
    rows = ", ".join(f"({i}, {i}, DATE'2024-01-0{i}')" for i in range(1, 5))
    name = tables.create(form, f"INSERT INTO {{t}} VALUES {rows}")
    dates = pa.array(["2024-01-02", "2024-01-04"]).cast(pa.date32())
    data = DynamicFilteringData.from_arrow(pa.table({"k": [2, 7], "d": dates}))

    def total(**options):
        with splitlib.load_table(
            name, "session", spark=tables.spark, spark_scan=how, **options
        ) as table:
            found, metrics, _ = enumerated(table, data)
        assert found == {(2, datetime.date(2024, 1, 2))}
        return metrics.partitions_total

    assert total(canonical_values=canonical) == (1 if canonical else 4)
    assert total() == 4
    tables.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{CANONICAL_VALUES}' = 'True')")
    assert total() == 1
    assert total(canonical_values=canonical) == (1 if canonical else 4)
    tables.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{CANONICAL_VALUES}' = 'often')")
    with pytest.raises(splitlib.ConfigError, match="canonical_values must be true or false"):
        total()


@pytest.mark.parametrize("form", ["USING parquet PARTITIONED BY (k)", "STORED AS PARQUET"])
def test_queries_ask_by_name_if_the_table_says_so(tables, form):
    is_of_spark = form.startswith("USING")
    form = f"(a INT, k INT) {form}" if is_of_spark else f"(a INT) PARTITIONED BY (k INT) {form}"
    name = tables.create(form, "INSERT INTO {t} SELECT id, id FROM range(12)")
    queries = [
        f"SELECT a, t.k FROM {name} t JOIN VALUES (3), (7), (99) AS d(k) ON t.k = d.k",
        f"SELECT a, t.k FROM {name} t JOIN VALUES (3), (7) AS d(k) ON t.k = d.k WHERE a > 3",
    ]

    def asked_for():
        for query in queries:
            rows = splitlib.sql(tables.spark, query)
            assert sorted(rows.collect()) == sorted(tables.spark.sql(query).collect())
            yield "requested by name" in str(splitlib.explain(rows))

    assert list(asked_for()) == [False, False]
    tables.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{CANONICAL_VALUES}' = 'true')")
    assert list(asked_for()) == [True, True]


def test_one_spelling_is_true_or_false(tables):
    with pytest.raises(splitlib.ConfigError, match="canonical_values must be true or false"):
        splitlib.load_table("nothing", "session", spark=tables.spark, canonical_values="often")


def test_no_partition_has_a_value(tables, visits):
    with tables.open(visits) as table:
        found, metrics, plan = enumerated(table, keys(("nowhere", DAYS[0])))
        assert (found, metrics.metastore_requests, plan) == (set(), 1, "by name")
        # splitlib caches that the partition does not exist, and does not request it again.
        _, again, _ = enumerated(table, keys(("nowhere", DAYS[0])))
        assert again.metastore_requests == 0
        none = keys(("eu", DAYS[0])), keys(("eu", DAYS[1]))
        assert enumerated(table, *none)[1].metastore_requests == 0


def test_more_names_than_a_request_asks_for(tables, visits):
    wanted = [(REGIONS[0], DAYS[0]), *((f"r{i}", DAYS[0]) for i in range(1000))]
    with tables.open(visits) as table:
        found, metrics, plan = enumerated(table, keys(*wanted))
    assert (found, plan) == ({wanted[0]}, "")
    assert metrics.partitions_total == len(EVERY)


def test_names_that_are_known_are_not_asked_for(tables, visits):
    with tables.open(visits) as table:
        every, _, _ = enumerated(table)
        found, metrics, plan = enumerated(table, keys(("eu", DAYS[0])))
    assert (every, found) == (EVERY, {("eu", DAYS[0])})
    assert (metrics.metastore_requests, metrics.partitions_total, plan) == (0, len(EVERY), "")


def test_a_catalog_that_gives_none_by_name(tables, visits, monkeypatch):
    """If the catalog cannot return partitions by full name, they are requested by name prefix."""
    monkeypatch.setattr(HivePartitions, "of", lambda *_: None)
    with tables.open(visits) as table:
        found, metrics, plan = enumerated(table, keys(("eu", DAYS[0]), ("eu", "no day")))
    assert found == {("eu", DAYS[0])}
    assert (metrics.partitions_total, plan) == (4, "by the start of their names: 1 prefix")


def test_a_catalog_that_only_lists_all(tables, visits, monkeypatch):
    monkeypatch.setattr(HivePartitions, "by_name", fails)
    monkeypatch.setattr(CatalogPartitions, "names_with", lambda *_: None)
    with tables.open(visits) as table:
        found, metrics, plan = enumerated(table, keys(("eu", DAYS[0])))
    assert (found, plan) == ({("eu", DAYS[0])}, "")
    assert metrics.partitions_total == len(EVERY)


def fails(*_):
    """Raise the error of a metastore that rejects a request."""
    raise PySparkException("too many partitions")


@pytest.mark.parametrize("columns", ["region STRING", "region STRING, day STRING", None])
def test_a_table_that_was_dropped_and_perhaps_created_anew(tables, columns):
    """If a partition is missing because its table was dropped, ``TableNotFound`` is raised.

    Without this check, the query would return no rows.
    """
    name = tables.create(MADE_BY["hive"], "INSERT INTO {t} VALUES (1, 'eu', 'd'), (2, 'us', 'd')")
    with tables.open(name) as table:
        tables.spark.sql(f"DROP TABLE {name}")
        if columns:
            tables.spark.sql(f"CREATE TABLE {name} (a INT) PARTITIONED BY ({columns})")
        for wanted in (keys(("eu", "d")), keys(("eu",), ("us",))):
            with pytest.raises(splitlib.TableNotFound, match=name.split(".")[1]):
                enumerated(table, wanted)


def test_a_partition_that_came_since(tables):
    """A new partition is found by a later listing, even if an earlier request did not find it."""
    name = tables.create(MADE_BY["spark"], "INSERT INTO {t} VALUES (1, 'eu', 'd')")
    with tables.open(name) as table:
        assert enumerated(table, keys(("us", "d")))[0] == set()
        tables.spark.sql(f"INSERT INTO {name} VALUES (2, 'us', 'd')")
        assert enumerated(table)[0] == {("eu", "d"), ("us", "d")}


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    filters=st.lists(
        st.tuples(
            st.sampled_from([("region", "day"), ("region",), ("day",)]),
            st.lists(
                st.tuples(
                    st.sampled_from([*REGIONS, "", None, "nowhere"]),
                    st.sampled_from([*DAYS, "", None, "2024"]),
                ),
                min_size=1,
                max_size=8,
            ),
        ),
        min_size=1,
        max_size=2,
    )
)
@pytest.mark.parametrize("way", ["classic", "public"])
def test_the_same_as_of_all_names(tables, visits, way, filters):
    expected, given_keys = EVERY, []
    for fields, rows in filters:
        at = [("region", "day").index(field) for field in fields]
        wanted = {tuple(row[i] for i in at) for row in rows}
        expected = {row for row in expected if tuple(row[i] for i in at) in wanted}
        given_keys.append(keys(*wanted, fields=fields))
    how = "paths" if way == "public" else "pinned"
    with splitlib.load_table(visits, "session", spark=tables.spark, spark_scan=how) as table:
        assert enumerated(table, *given_keys)[0] == expected


@pytest.mark.parametrize("made_by", ["hive", "spark"])
def test_keys_whose_names_are_escaped(tables, made_by):
    """Partitions are requested by the right names if the names of their keys are escaped.

    Hive converts the letters of a key name to lower case, but not the escapes such as ``%3D``.
    """
    odd, other = "x=Y", 'A/:"%3D é'
    columns = f"`{odd}` STRING, `{other}` STRING"
    definition = f"(a INT) PARTITIONED BY ({columns}) STORED AS PARQUET"
    if made_by == "spark":
        definition = f"(a INT, {columns}) USING parquet PARTITIONED BY (`{odd}`, `{other}`)"
    name = tables.create(definition, "INSERT INTO {t} VALUES (1, 'p', 'q'), (2, 'p', 'r')")
    with tables.open(name) as table:
        by_name = enumerated(table, keys(("p", "q"), fields=(odd, other)))
        by_prefix = enumerated(table, keys(("p",), fields=(odd, other)))
        all_named = enumerated(table, keys(("r",), fields=(other,)))
    assert [found for found, _, _ in (by_name, by_prefix, all_named)] == [
        {("p", "q")},
        {("p", "q"), ("p", "r")},
        {("p", "r")},
    ]
    assert (by_name[2], by_name[1].metastore_requests) == ("by name", 1)
    spark = tables.spark
    condition = f"`{odd}` = 'p' AND `{other}` = 'r'"
    assert [r.a for r in tables.session_reader(name).where(condition).load().collect()] == [2]
    # The dimension has rows instead of literals. Spark would push literals to the metastore as a
    # filter, and the metastore rejects a filter with such names.
    dimension = spark.createDataFrame([("p", "q")], f"`{odd}` STRING, `{other}` STRING")
    for how in ("session", "auto", "paths"):
        loaded = tables.reader(name, how).filtered_by(dimension, [odd, other]).load()
        assert [r.a for r in loaded.collect()] == [1]
    query = f"SELECT a FROM {name} JOIN {{d}} USING (`{odd}`, `{other}`)"
    dimension.createOrReplaceTempView("odd_keys")
    try:
        planned = splitlib.sql(spark, query.format(d="odd_keys"))
        assert [r.a for r in planned.collect()] == [1]
    finally:
        spark.catalog.dropTempView("odd_keys")


def test_a_table_of_the_active_session(tables, monkeypatch):
    """Without ``spark=``, the active session of the thread is used, or else the default session."""
    name = tables.create("(a INT, k INT) USING parquet PARTITIONED BY (k)")

    def opened():
        with splitlib.load_table(name, "session") as table:
            return table.partition_keys

    assert opened() == ("k",)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(opened).result() == ("k",)
    for module in (session, connector):
        monkeypatch.setattr(module, "active_session", lambda: None)
    with pytest.raises(splitlib.ConfigError, match=r"there is none.*pass spark=\.\.\."):
        opened()
