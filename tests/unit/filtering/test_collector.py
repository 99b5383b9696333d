"""The collector of keys returns exact values or ranges, within a memory limit."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import ConfigError, DynamicFilteringData, DynamicFilteringDataCollector, InvalidFilter
from splitlib.arrow.tables import values_nbytes
from splitlib.filtering import collector as collector_module
from splitlib.filtering.data import passed_limit
from splitlib.filtering.domains import RangeDomain, ValueDomain, unique

INTS = pa.schema([("d", pa.int64())])


class TestCollector:
    def collect(self, schema, *columns, **options):
        collector = DynamicFilteringDataCollector(schema, **options)
        for column in columns:
            collector.add(pa.table(column, schema=schema))
        return collector.finish()

    def test_exactly_at_the_limit_stays_exact(self):
        ten = [{"d": list(range(10))}]
        assert self.collect(INTS, *ten, threshold_bytes=80).num_values == 10
        over = self.collect(INTS, *ten, {"d": [10]}, threshold_bytes=80)
        assert over.exceeds_threshold
        assert over.contains({"d": 5})
        assert not over.contains({"d": 11})
        assert self.collect(INTS, *ten, max_values=10).num_values == 10
        assert self.collect(INTS, *ten, max_values=9).exceeds_threshold

    def test_duplicates_do_not_count(self):
        same = [{"d": [7] * 100}] * 50
        assert self.collect(INTS, *same, threshold_bytes=8).num_values == 1

    def test_no_limit(self):
        assert self.collect(INTS, {"d": range(10**5)}, threshold_bytes=0).num_values == 10**5

    def test_the_bare_marker(self):
        data = self.collect(INTS, {"d": range(10)}, threshold_bytes=8, on_exceed="all")
        assert data == DynamicFilteringData.exceeded(INTS)

    def test_one_field_becomes_a_range_and_the_other_keeps_its_values(self):
        schema = pa.schema([("d", pa.int64()), ("s", pa.int64())])
        rows = {"d": list(range(100)), "s": [1, 9] * 50}
        data = self.collect(schema, rows, threshold_bytes=400)
        assert data.contains({"d": 77, "s": 1})
        assert not data.contains({"d": 100, "s": 1})
        assert not data.contains({"d": 77, "s": 5})

    def test_values_of_one_field_alone_are_not_exact(self):
        """Above the limit, tuples of keys become one list of values per field. It is not exact."""
        schema = pa.schema([("d", pa.float64()), ("s", pa.int64())])
        rows = {"d": [float(i) for i in range(100)], "s": [1, 9] * 50}
        data = self.collect(schema, rows, threshold_bytes=400)
        assert len(data.domains) == 1
        assert not data.is_exact
        assert data.num_values == 0
        assert data.contains({"d": 1e9, "s": 9})

    def test_floats_have_no_range(self):
        schema = pa.schema([("d", pa.float64())])
        data = self.collect(schema, {"d": [float(i) for i in range(99)]}, threshold_bytes=80)
        assert data == DynamicFilteringData.exceeded(schema)

    def test_all_null_equals_empty(self):
        data = self.collect(INTS, {"d": [None, None]})
        assert data.is_empty
        assert not data.contains({"d": None})

    def test_null_safe_keeps_null_also_in_a_range(self):
        column = {"d": [None, *range(20)]}
        assert self.collect(INTS, column, null_safe=True).contains({"d": None})
        ranged = self.collect(INTS, column, null_safe=True, threshold_bytes=80)
        assert ranged.exceeds_threshold
        assert ranged.contains({"d": None})
        plain = self.collect(INTS, column, threshold_bytes=80)
        assert not plain.contains({"d": None})

    def test_memory_stays_bounded(self):
        collector = DynamicFilteringDataCollector(INTS, threshold_bytes=8_000)
        for start in range(0, 10**6, 10**4):
            collector.add(pa.table({"d": range(start, start + 10**4)}))
            assert collector.finish().nbytes <= 8_000
        assert collector.finish().contains({"d": 999_999})

    @staticmethod
    def rows_taken_in(monkeypatch):
        """Return a list to which each deduplication of keys appends its number of rows."""
        seen: list[int] = []

        def counted(rows):
            seen.append(rows.num_rows)
            return unique(rows)

        monkeypatch.setattr(collector_module, "unique", counted)
        return seen

    @pytest.mark.parametrize("threshold", [0, 2**40, 500_000])
    def test_each_key_is_looked_at_a_few_times(self, monkeypatch, threshold):
        """A new batch does not process all earlier keys again.

        The test counts rows instead of measuring time.
        """
        seen = self.rows_taken_in(monkeypatch)
        collector = DynamicFilteringDataCollector(INTS, threshold_bytes=threshold)
        for start in range(0, 10**6, 1000):
            collector.add(pa.table({"d": range(start, start + 1000)}))
        data = collector.finish()
        assert data.contains({"d": 999_999})
        assert data.exceeds_threshold == (threshold == 500_000)
        assert sum(seen) < 5 * 10**6

    def test_what_waits_is_bounded(self, monkeypatch):
        seen = self.rows_taken_in(monkeypatch)
        collector = DynamicFilteringDataCollector(INTS, threshold_bytes=8_000)
        for _ in range(100):
            collector.add(pa.table({"d": [7] * 100_000}))
        assert collector.finish().num_values == 1
        batch, bytes_of_a_value = 100_000, 8
        assert max(seen) <= collector_module.WAITING_BYTES / bytes_of_a_value + batch + 1

    @pytest.mark.parametrize("options", [{"on_exceed": "x"}, {"max_values": 0}])
    def test_nonsense_is_refused(self, options):
        with pytest.raises(ConfigError):
            DynamicFilteringDataCollector(INTS, **options)

    def test_a_batch_without_the_fields_is_refused(self):
        with pytest.raises(InvalidFilter):
            DynamicFilteringDataCollector(INTS).add(pa.table({"x": [1]}))

    @given(
        st.lists(st.lists(st.tuples(st.integers(0, 30), st.text("abc", max_size=2)), max_size=20)),
        st.integers(1, 400),
        st.sampled_from(["range", "all"]),
    )
    def test_never_forgets_a_key(self, batches, threshold, on_exceed):
        schema = pa.schema([("d", pa.int32()), ("s", pa.string())])
        collector = DynamicFilteringDataCollector(schema, threshold, on_exceed=on_exceed)
        for batch in batches:
            rows = [{"d": d, "s": s} for d, s in batch]
            collector.add(pa.Table.from_pylist(rows, schema=schema))
        data = collector.finish()
        assert data.nbytes <= threshold + 20  # the threshold does not count the ends of ranges
        for batch in batches:
            for d, s in batch:
                assert data.contains({"d": d, "s": s})
        if not data.exceeds_threshold:
            assert data.num_values == len({row for batch in batches for row in batch})


@pytest.mark.parametrize(
    ("threshold", "most", "limit"),
    [
        (32, 2, "there are 3 keys, more than filter_max_values (2)"),
        (23, 3, "the keys have 24 B, more than filter_threshold_bytes (23 B)"),
        (-1, 2, "there are 3 keys, more than filter_max_values (2)"),
        (1, None, "the keys have 24 B, more than filter_threshold_bytes (1 B)"),
    ],
)
def test_a_passed_limit_is_named_with_what_to_do(threshold, most, limit):
    schema = pa.schema([("k", pa.int64())])
    collector = DynamicFilteringDataCollector(schema, threshold, most)
    collector.add(pa.record_batch({"k": [1, 5, 9]}))
    data = collector.finish()
    assert data.renamed({"k": "n"}).without_nulls().passed_limit == limit
    assert data.describe() == (
        f"k in [1, 9], a range because {limit}; raise the limit to keep all keys"
    )


def test_a_limit_passed_before_the_last_batch_says_that_there_may_be_more_keys(monkeypatch):
    monkeypatch.setattr(collector_module, "WAITING_BYTES", 8)
    collector = DynamicFilteringDataCollector(pa.schema([("k", pa.int64())]), max_values=2)
    for first in (0, 100):
        collector.add(pa.record_batch({"k": range(first, first + 3)}))
    found = collector.finish().passed_limit
    assert found == "there are at least 3 keys, more than filter_max_values (2)"


def test_sizes_that_look_equal_are_named_in_bytes():
    found = passed_limit(1, 2**20 + 1, None, 2**20)
    assert found == (
        "the keys have 1,048,577 bytes, more than filter_threshold_bytes (1,048,576 bytes)"
    )


def test_fields_with_values_of_their_own_are_named():
    collector = DynamicFilteringDataCollector(
        pa.schema([("a", pa.int64()), ("b", pa.int64())]), max_values=2
    )
    collector.add(pa.record_batch({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2]}))
    limit = "there are 4 keys, more than filter_max_values (2)"
    assert f"values of each column because {limit}; raise" in collector.finish().describe()


def test_a_field_with_few_values_keeps_them_even_if_they_are_long():
    schema = pa.schema([("a", pa.int64()), ("day", pa.string()), ("u", pa.string())])
    collector = DynamicFilteringDataCollector(schema, max_values=100)
    days, texts = (
        [f"2024-01-{n % 30 + 1:02}" for n in range(101)],
        ["x" * (n % 60) for n in range(101)],
    )
    collector.add(pa.table({"a": list(range(101)), "day": days, "u": texts}))
    found = collector.finish()
    assert [type(domain) for domain in found.domains] == [ValueDomain, ValueDomain, RangeDomain]
    assert not found.contains({"a": 5, "day": "2024-02-01", "u": "x"})
    assert found.contains({"a": 5, "day": "2024-01-30", "u": "x"})


@pytest.mark.parametrize(
    ("kind", "keys", "is_exact"),
    [
        (pa.float32(), pa.array([0.1, None]), False),
        (pa.float32(), pa.array([0.5, None, float("nan")]), True),
        (pa.float64(), pa.array([0.1], pa.float32()), True),
        (pa.float64(), pa.array([Decimal("0.10000000000000000001")]), False),
        (pa.float64(), pa.array([Decimal("0.10"), None]), True),
        (pa.float64(), pa.array([2**53 + 1]), False),
        (pa.float64(), pa.array([2**53, None]), True),
    ],
)
def test_keys_are_not_rounded(kind, keys, is_exact):
    collector = DynamicFilteringDataCollector(pa.schema([("d", kind)]))
    batch = pa.table({"d": keys})
    if is_exact:
        collector.add(batch)
        assert collector.finish().contains({"d": float(keys[0].as_py())})
    else:
        with pytest.raises(InvalidFilter):
            collector.add(batch)


def test_types_that_arrow_compares_in_part():
    half = DynamicFilteringData.from_arrow(pa.table({"d": pa.array(np.array([1.5], np.float16))}))
    assert half.contains({"d": 1.5})
    schema = pa.schema([("d", pa.duration("us"))])
    collector = DynamicFilteringDataCollector(schema, max_values=1)
    collector.add(pa.table({"d": pa.array([5, 9], pa.duration("us"))}))
    assert collector.finish().contains({"d": timedelta(microseconds=7)})


@pytest.mark.parametrize(
    ("values", "size"),
    [
        (pa.array([1, None, 3], pa.int64()), 24),
        (pa.array([1, 2, 3], pa.int8()), 3),
        (pa.array([Decimal("1.5"), None]), 32),
        (pa.array([True, False, None]), 3),
        (pa.array(["a", "é", None, ""]), 4 * 4 + 3),
        (pa.array([b"ab", b"cde"]), 2 * 4 + 5),
        (pa.array([None, None], pa.string()), 8),
        (pa.array([], pa.binary()), 0),
    ],
    ids=str,
)
def test_sizes_of_values(values, size):
    """The size does not depend on how Arrow stores them. Twice the values are twice as large."""
    column = pa.chunked_array([values])
    assert values_nbytes(pa.table([column], ["k"])) == size
    twice = pa.chunked_array([values, values])
    assert values_nbytes(pa.table([twice, twice], ["k", "l"])) == 4 * size
    padded = pa.concat_arrays([values, values]).slice(len(values))
    assert values_nbytes(pa.table([padded], ["k"])) == size
