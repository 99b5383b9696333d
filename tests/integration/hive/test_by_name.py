"""The ``hive`` connector requests partitions by full name, by name prefix, or lists all names."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import splitlib
from splitlib import DynamicFileEnumerator, DynamicFilteringData
from splitlib.filtering.partition_names import CANONICAL_VALUES

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

PLACES = ["a", "A", "a.b", "a_b", "aXb", "a-b", "a b", "a%", "1", "01", "é"]
DAYS = ["2024-01-01", "2024-01-02", "2024-10-01"]


@pytest.fixture(scope="module")
def visits(spark, metastore):
    """Create and open a table of 33 partitions without nulls, and two with nulls."""
    rows = [f"('{day}', '{place}')" for day in DAYS for place in PLACES]
    rows += ["(NULL, 'a')", "('2024-01-01', NULL)", "('2024-01-01', '')"]
    spark.sql("DROP TABLE IF EXISTS visits")
    spark.sql(
        "CREATE TABLE visits (a INT) PARTITIONED BY (day STRING, place STRING) STORED AS PARQUET"
    )
    spark.sql(f"INSERT INTO visits SELECT 1, * FROM VALUES {', '.join(rows)} AS t(day, place)")
    with splitlib.load_table("default.visits", "hive", uri=metastore.uri) as table:
        yield table


@pytest.fixture(scope="module")
def numbers(spark):
    """Create a table whose integer partition key is not declared to have canonical values."""
    spark.sql("DROP TABLE IF EXISTS numbers")
    spark.sql("CREATE TABLE numbers (a INT) PARTITIONED BY (k INT, s STRING) STORED AS PARQUET")
    spark.sql("INSERT INTO numbers VALUES (1, 5, 'a'), (1, 6, 'a'), (1, 7, 'b')")
    return "default.numbers"


def enumerated(table, *filters):
    """Return the values of partitions with splits, the metrics, and the text of ``explain``."""
    enumerator = DynamicFileEnumerator(table)
    for data in filters:
        enumerator.set_dynamic_filtering_data(data)
    found = [tuple(split.partition_values.values()) for split in enumerator.enumerate_splits()]
    assert len(found) == len(set(found))
    return set(found), enumerator.metrics, str(enumerator.explain())


def rows_of(df):
    """Return the rows of a DataFrame as sorted text."""
    return sorted(map(str, df.collect()))


def rows(*keys, fields=("day", "place")):
    """Return join keys, one tuple per key. Shorter tuples have only the first of ``fields``."""
    fields = fields[: len(keys[0])]
    columns = [pa.array(column, pa.string()) for column in zip(*keys, strict=True)]
    return DynamicFilteringData.from_arrow(pa.table(columns, names=list(fields)))


def test_what_all_keys_say_is_asked_for_by_name(visits):
    wanted = {(DAYS[0], "a"), (DAYS[1], "a.b"), (DAYS[2], "01"), (DAYS[0], "a_b")}
    found, metrics, told = enumerated(visits, rows(*wanted, ("2025-01-01", "a")))
    assert found == wanted
    assert metrics.metastore_requests == 1
    assert metrics.partitions_total == metrics.partitions_matched == 4
    assert (
        "─ partitions 4 (requested by name, so the number of all partitions is unknown)\n" in told
    )


def test_a_leading_key_is_asked_for_by_the_start_of_the_name(visits):
    found, metrics, told = enumerated(visits, rows((DAYS[0],), ("2025-01-01",)))
    assert found == {(DAYS[0], place) for place in [*PLACES, None]}
    assert metrics.metastore_requests == 2 + 1
    assert metrics.partitions_total == len(found)
    assert "─ partitions 12 (requested by the start of their names: 2 prefixes, " in told


def test_a_start_that_a_server_takes_for_a_pattern(spark, metastore):
    """Hive treats ``.`` and ``_`` in a name prefix as wildcards, so prefixes may overlap.

    Each partition must still be returned only once.
    """
    spark.sql("DROP TABLE IF EXISTS places")
    spark.sql("CREATE TABLE places (a INT) PARTITIONED BY (day STRING, place STRING) STORED AS ORC")
    spark.sql("INSERT INTO places VALUES (1, 'a.b', 'x'), (2, 'aXb', 'x'), (3, 'a_b', 'y')")
    wanted = [("a.b",), ("aXb",), ("a_b",)]
    with splitlib.load_table("default.places", "hive", uri=metastore.uri) as table:
        found, metrics, _ = enumerated(table, rows(*wanted))
    assert found == {("a.b", "x"), ("aXb", "x"), ("a_b", "y")}
    assert metrics.partitions_total == 3


@pytest.mark.parametrize(
    "keys", [[("2024-01-01", "a b")], [("2024-01-01", None)], [("2024-01-01", "é")]]
)
def test_what_has_several_spellings_is_asked_for_by_what_has_one(visits, keys):
    found, metrics, _ = enumerated(visits, rows(*keys))
    assert found == set(keys)
    assert metrics.metastore_requests == 1 + 1
    assert metrics.partitions_total == 12  # This is the number of partitions of the day.


def test_a_later_key_alone_takes_all_names(visits):
    found, metrics, told = enumerated(visits, rows(("a",), fields=("place",)))
    assert found == {(day, "a") for day in [*DAYS, None]}
    assert metrics.partitions_total == 35
    assert "─ partitions 4 of 35\n" in told


@pytest.mark.parametrize(
    ("condition", "plan"),
    [
        ("day = '2024-01-01'", "by the start of their names: 1 prefix"),
        (
            "day IN ('2024-01-01', '2025-01-01') AND a > 0",
            "by the start of their names: 2 prefixes",
        ),
        ("day = '2024-01-01' AND place IN ('a', 'b')", "by name"),
        ("day = '2024-01-01' OR day = '2024-01-02'", "by the start of their names: 2 prefixes"),
        ("place = 'a'", ""),
        ("day > '2024-01-01'", ""),
        ("upper(day) = '2024-01-01'", ""),
        ("day = '2024-01-01' OR place = 'a'", ""),
    ],
)
def test_what_a_condition_says_is_asked_for_as_well(visits, spark, metastore, condition, plan):
    reader = splitlib.read(spark).table("default.visits", "hive", uri=metastore.uri)
    found = reader.where(condition).load()
    assert splitlib.explain(found).asked_for == plan
    assert rows_of(found) == rows_of(spark.table("visits").where(condition))


def test_keys_that_no_partition_has(visits):
    found, metrics, _ = enumerated(visits, rows(("2025-01-01", "a")))
    assert not found
    assert metrics.partitions_total == 0
    found, metrics, told = enumerated(visits, rows((DAYS[0], "a")), rows((DAYS[1], "a")))
    assert not found
    assert metrics.metastore_requests == 0
    assert (
        "─ partitions 0 (requested by name, so the number of all partitions is unknown)\n" in told
    )


def test_more_than_a_call_may_ask_for(visits, metastore):
    keys = [(day, place) for day in DAYS for place in PLACES[:4]]
    with splitlib.load_table(
        "default.visits", "hive", uri=metastore.uri, partitions_per_request=11
    ) as table:
        found, metrics, _ = enumerated(table, rows(*keys))
    assert found == set(keys)
    assert metrics.partitions_total == 34  # This is the number of partitions of the three days.
    assert metrics.metastore_requests == 3 + 3


@pytest.mark.parametrize("canonical", [False, True, "false", "true"])
def test_numbers_only_if_they_are_said_to_have_one_spelling(spark, metastore, numbers, canonical):
    data = DynamicFilteringData.from_values({"k": [5, 7], "s": ["a", "a"]})
    with splitlib.load_table(
        numbers, "hive", uri=metastore.uri, canonical_values=canonical
    ) as table:
        found, metrics, _ = enumerated(table, data)
    assert found == {(5, "a")}
    assert metrics.partitions_total == (1 if canonical in (True, "true") else 3)


def test_the_table_may_say_that_numbers_have_one_spelling(spark, metastore, numbers):
    data = DynamicFilteringData.from_values({"k": [5, 7], "s": ["a", "a"]})
    spark.sql(f"ALTER TABLE {numbers} SET TBLPROPERTIES ('{CANONICAL_VALUES}' = 'true')")
    with splitlib.load_table(numbers, "hive", uri=metastore.uri) as table:
        assert enumerated(table, data)[1].partitions_total == 1
    with splitlib.load_table(numbers, "hive", uri=metastore.uri, canonical_values=False) as table:
        assert enumerated(table, data)[1].partitions_total == 3
    spark.sql(f"ALTER TABLE {numbers} UNSET TBLPROPERTIES ('{CANONICAL_VALUES}')")


def test_an_option_that_is_neither_true_nor_false(metastore, numbers):
    with pytest.raises(splitlib.ConfigError, match=re.escape("canonical_values must be true or")):
        splitlib.load_table(numbers, "hive", uri=metastore.uri, canonical_values="perhaps")


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([("day", "place"), ("day",), ("place",)]),
            st.lists(
                st.tuples(
                    st.sampled_from([*DAYS, "2024-01-0", "", None]),
                    st.sampled_from([*PLACES, "", None]),
                ),
                min_size=1,
                max_size=14,
            ),
        ),
        min_size=1,
        max_size=2,
    )
)
def test_the_same_as_of_all_names(visits, filters):
    every, _, _ = enumerated(visits)
    assert len(every) == 35
    expected = every
    given = []
    for fields, keys in filters:
        at = [("day", "place").index(field) for field in fields]
        wanted = {tuple(key[i] for i in at) for key in keys}
        expected = {row for row in expected if tuple(row[i] for i in at) in wanted}
        given.append(rows(*wanted, fields=fields))
    found, _, _ = enumerated(visits, *given)
    assert found == expected


def test_static_values_say_names_as_keys_do(visits):
    enumerator = DynamicFileEnumerator(visits, static=[rows((DAYS[0], "a"))])
    assert len(list(enumerator.enumerate_splits())) == 1
    assert enumerator.explain().asked_for == "by name"
