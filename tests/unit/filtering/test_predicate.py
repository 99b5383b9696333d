"""The predicate agrees with a model: a partition is kept if its values are among the keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import DynamicFilteringData
from splitlib.filtering.domains import RangeDomain, Ranges
from splitlib.filtering.matchers import coerce
from splitlib.filtering.predicate import Predicate
from splitlib.model import COLLATED, LOGICAL_TYPE, PartitionField

from_values = DynamicFilteringData.from_values
UTC = dt.UTC


def kept(schema, batch, *filters):
    return Predicate(schema, filters).match(batch).to_pylist()


keys = st.tuples(st.integers(0, 4) | st.none(), st.sampled_from(["a", "b", "c", None]))
SCHEMA = pa.schema([("d", pa.int32()), ("s", pa.string())])


@pytest.mark.parametrize("value", [1, "a", 1.5, True, dt.date(2024, 1, 1)])
def test_a_key_that_is_null_everywhere_equals_only_null(value):
    schema = pa.schema([("k", pa.null())])
    batch = pa.record_batch([pa.nulls(2)], schema=schema)
    assert kept(schema, batch, from_values({"k": [value]})) == [False, False]
    assert kept(schema, batch, from_values({"k": [value, None]})) == [True, True]
    assert kept(schema, batch, from_values({"k": [None]})) == [True, True]


@given(st.lists(keys), st.lists(keys), st.lists(st.integers(0, 4) | st.none()))
def test_filters_are_a_conjunction_of_tuples(partitions, tuples, single):
    batch = pa.record_batch(
        [
            pa.array([None if d is None else f"{d:02}" for d, _ in partitions], pa.string()),
            pa.array([s for _, s in partitions], pa.string()),
        ],
        names=["d", "s"],
    )
    both = from_values({"D": [d for d, _ in tuples], "s": [s for _, s in tuples]})
    one = from_values({"d": single})
    expected = [p in tuples and p[0] in single for p in partitions]
    assert kept(SCHEMA, batch, both, one) == expected


@given(st.lists(st.integers(0, 9) | st.none()), st.integers(0, 9), st.integers(0, 9))
def test_ranges(partitions, low, high):
    batch = pa.record_batch([pa.array(partitions, pa.int32())], names=["d"])
    data = DynamicFilteringData.from_range({"d": (low, high)})
    expected = [p is not None and low <= p <= high for p in partitions]
    assert kept(SCHEMA, batch, data) == expected


def test_the_date_of_an_instant_depends_on_the_zone():
    schema = pa.schema([("d", pa.date32())])
    batch = pa.record_batch({"d": ["2020-01-01", "2020-01-02"]})
    midnight = dt.datetime(2020, 1, 1, 5, tzinfo=UTC)  # this is midnight in New York
    data = from_values({"d": [midnight]})
    assert kept(schema, batch, data) == [False, False]
    assert kept(schema, batch, data.in_time_zone("America/New_York")) == [True, False]


def test_many_fields_do_not_overflow():
    names = [f"k{i}" for i in range(8)]
    rows = {name: list(range(1000)) for name in names}  # more combinations than an int64 can count
    schema = pa.schema([(name, pa.int64()) for name in names])
    batch = pa.record_batch({**rows, "k7": [*range(999), 0]})
    assert kept(schema, batch, from_values(rows)) == [True] * 999 + [False]


def test_what_cannot_be_decided_is_kept_and_reported():
    batch = pa.record_batch({"d": ["1", "x", "2"], "s": ["a", "b", "c"]})
    assert kept(SCHEMA, batch, from_values({"d": [2]})) == [False, True, True]
    predicate = Predicate(SCHEMA, [from_values({"d": ["2"]})])
    assert predicate.match(batch).to_pylist() == [True] * 3
    assert str(predicate.filters[0].unused_because) == (
        "d has the type int32, which cannot be compared with string exactly. Cast the keys to "
        "int32."
    )
    # Field d cannot be compared, but field s of the same filter still prunes.
    part = Predicate(SCHEMA, [from_values({"d": ["2"], "s": ["c"]})])
    assert part.match(batch).to_pylist() == [False, False, True]
    assert part.filters[0].used_fields == ("s",)


def test_fields_that_are_no_keys_are_ignored_and_reported():
    predicate = Predicate(SCHEMA, [from_values({"x": [1]})])
    assert predicate.match(pa.record_batch({"d": ["1"], "s": ["a"]})).to_pylist() == [True]
    assert predicate.filters[0].unused_because == (
        "The table has no partition key and no statistics for x. Partition or cluster the table "
        "by x if such filters are frequent."
    )


def test_an_unused_filter_names_the_reasons_of_its_key_and_of_its_learnable_column():
    learnable = pa.schema([("x", pa.int32())])
    predicate = Predicate(SCHEMA, [from_values({"d": ["2"], "x": ["2"]})], learnable=learnable)
    assert predicate.filters[0].unused_because == " ".join(
        f"{name} has the type int32, which cannot be compared with string exactly. Cast the keys "
        "to int32."
        for name in "dx"
    )


def test_the_marker_prunes_nothing_and_empty_everything():
    batch = pa.record_batch({"d": ["1", "x", None], "s": ["a"] * 3})
    schema = pa.schema([("d", pa.int32())])
    assert kept(SCHEMA, batch, DynamicFilteringData.exceeded(schema)) == [True] * 3
    empty = DynamicFilteringData.from_arrow(schema.empty_table())
    assert kept(SCHEMA, batch, empty) == [False] * 3
    assert Predicate(SCHEMA, [empty]).matches_nothing


def test_a_prefix_of_the_keys_keeps_what_needs_more():
    batch = pa.record_batch({"d": ["1", "2"]})
    both = from_values({"d": [1], "s": ["a"]})
    assert kept(SCHEMA, batch, both) == [True, True]
    assert kept(SCHEMA, batch, both, from_values({"d": [1]})) == [True, False]


@pytest.mark.parametrize(
    ("target", "given_keys", "expected"),
    [
        (pa.int8(), pa.array([1, 300]), [1, None]),
        (pa.int64(), pa.array([1, 2], pa.uint8()), [1, 2]),
        (pa.int32(), pa.array([Decimal("5.00"), Decimal("5.50")]), [5, None]),
        (pa.decimal128(10, 2), pa.array([5, 2**40]), [Decimal("5.00"), None]),
        (
            pa.decimal128(10, 2),
            pa.array([Decimal("1.5"), Decimal("1.555")]),
            [Decimal("1.50"), None],
        ),
        (pa.float32(), pa.array([0.5, 0.1]), [0.5, None]),
        (pa.float64(), pa.array([0.5], pa.float32()), [0.5]),
        (
            pa.date32(),
            pa.array([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 1)]),
            [dt.date(2020, 1, 1), None],
        ),
        (
            pa.timestamp("us", "UTC"),
            pa.array([dt.date(2020, 1, 1)]),
            [dt.datetime(2020, 1, 1, tzinfo=UTC)],
        ),
        (
            pa.timestamp("us", "Asia/Tokyo"),
            pa.array([dt.datetime(2020, 1, 1)]),
            [dt.datetime(2019, 12, 31, 15, tzinfo=UTC)],
        ),
    ],
)
def test_exact_conversions(target, given_keys, expected):
    coerced = coerce(given_keys, pa.field("k", target))
    assert coerced is not None
    assert coerced.values.to_pylist() == expected
    assert coerced.matchable.to_pylist() == [value is not None for value in expected]


def test_the_date_of_an_instant_after_2037_is_undecidable_in_daylight_saving():
    """After 2037, dates of instants are not used in zones with daylight saving time.

    In July 2050, midnight in New York is 04:00 UTC. Arrow ignores daylight saving time after 2037
    and computes 23:00 of the day before.
    """
    key = pa.field("d", pa.date32())
    late = pa.array([dt.datetime(2050, 7, 1, 4, tzinfo=UTC)])
    assert coerce(late.cast(pa.timestamp("us", "America/New_York")), key) is None
    without = coerce(late.cast(pa.timestamp("us", "America/Caracas")), key)
    assert without is not None
    assert without.values.to_pylist() == [dt.date(2050, 7, 1)]


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (pa.int32(), pa.string()),
        (pa.string(), pa.int32()),
        (pa.date32(), pa.string()),
        (pa.int64(), pa.float64()),
        (pa.bool_(), pa.int8()),
        (pa.decimal128(38, 18), pa.decimal128(38, 0)),
        (pa.timestamp("us"), pa.timestamp("us", "America/New_York")),
    ],
)
def test_undecidable_pairs(target, source):
    assert coerce(pa.nulls(1, source), pa.field("k", target)) is None


@pytest.mark.parametrize("logical", [b"char(5)", b"char(2)"])
def test_char_never_collapses_to_nothing(logical):
    field = pa.field("c", pa.string(), metadata={b"splitlib.logical_type": logical})
    batch = pa.record_batch({"c": ["ab   ", "ab", "abc"]})
    assert kept(pa.schema([field]), batch, from_values({"c": ["ab"]})) == [True, True, False]
    ranged = DynamicFilteringData.from_range({"c": ("ab", "ab")})
    assert kept(pa.schema([field]), batch, ranged) == [True] * 3


class Static:
    """A condition that returns a fixed result for each partition."""

    def __init__(self, fields, answers):
        self.fields, self.answers = fields, answers

    def match(self, values):
        assert set(self.fields) <= set(values.schema.names)
        return pa.array(self.answers, pa.bool_())

    def describe(self):
        return "static"


def test_a_static_condition_drops_only_where_it_is_false():
    batch = pa.record_batch({"d": ["1", "2", "3"], "s": ["a", "b", "c"]})
    predicate = Predicate(SCHEMA, (), [Static(("d",), [True, None, False])])
    assert predicate.match(batch).to_pylist() == [True, True, False]


@pytest.mark.parametrize("fields", [("d", "s"), ("s",)])
def test_a_static_condition_over_a_key_that_is_not_known_yet_keeps(fields):
    batch = pa.record_batch({"d": ["1", "2"]})
    predicate = Predicate(SCHEMA, (), [Static(fields, [False, False])])
    assert predicate.match(batch).to_pylist() == [True, True]


class Half:
    """A transform that halves a number."""

    preserves_order = True

    def __call__(self, values):
        return pc.divide(values, pa.scalar(2, values.type))

    def mistaken(self, results):
        return None


HALVED = (PartitionField("half", "d", Half()), PartitionField("e", "s"))


@pytest.mark.parametrize("fields", [None, (PartitionField("d", "d"),), (PartitionField("d", "D"),)])
def test_text_is_parsed_with_the_type_of_its_column(fields):
    batch = pa.record_batch({"d": ["1", "01", "2", "one"]})
    predicate = Predicate(SCHEMA, [from_values({"d": [1]})])
    assert predicate.match(batch, fields).to_pylist() == [True, True, False, True]


def test_a_column_under_another_name_has_the_type_of_its_source():
    schema = pa.schema([("d", pa.int32()), ("e", pa.string())])
    # The partition field e has values of column d, not of the table's column e.
    batch = pa.record_batch({"e": ["1", "01", "2", "one"]})
    for data in (from_values({"d": [1]}), DynamicFilteringData.from_range({"d": (0, 1)})):
        kept = Predicate(schema, [data]).match(batch, (PartitionField("e", "d"),))
        assert kept.to_pylist() == [True, True, False, True]


def test_the_result_of_a_transform_has_its_own_type():
    batch = pa.record_batch({"half": pa.array([1, 2, 3], pa.int32()), "e": ["x", "y", "z"]})
    both = from_values({"d": [2, 4], "s": ["x", "x"]})
    assert Predicate(SCHEMA, [both]).match(batch, HALVED).to_pylist() == [True, False, False]
    ends = DynamicFilteringData.from_range({"d": (4, 5)})
    assert Predicate(SCHEMA, [ends]).match(batch, HALVED).to_pylist() == [False, True, False]


def test_static_conditions_see_columns_under_their_own_names():
    batch = pa.record_batch({"half": pa.array([1, 2], pa.int32()), "e": ["x", "y"]})
    for fields, expected in [
        (("s",), [True, False]),
        (("e",), [True, True]),  # e is the name of a partition field here, and not of a column
        (("d",), [True, True]),  # the partition has only the result of a transform of d
        (("d", "s"), [True, True]),
    ]:
        predicate = Predicate(SCHEMA, (), [Static(fields, [True, False])])
        assert predicate.match(batch, HALVED).to_pylist() == expected


def test_a_static_condition_never_sees_the_result_of_a_transform():
    fields = (PartitionField("d", "d", Half()),)
    predicate = Predicate(SCHEMA, (), [Static(("d",), [False, False])])
    assert predicate.match(pa.record_batch({"d": [1, 2]}), fields).to_pylist() == [True, True]


def test_a_code_of_many_fields_does_not_wrap_around():
    """Tuples of many fields are not confused by an overflow.

    With 256 values in nine fields, the weight of the first field is 2^64. As an int64, it would be
    0.
    """
    names = [f"k{i}" for i in range(9)]
    data = from_values({name: list(range(256)) for name in names})
    schema = pa.schema([(name, pa.int64()) for name in names])
    batch = pa.record_batch({name: [0, 1 if name == "k0" else 0] for name in names})
    assert kept(schema, batch, data) == [True, False]


def test_nan_of_a_double_is_that_of_a_float():
    keys = pa.array([float("nan"), 0.1, 0.5])
    coerced = coerce(keys, pa.field("k", pa.float32()))
    assert coerced is not None
    assert coerced.matchable.to_pylist() == [True, False, True]
    schema = pa.schema([("k", pa.float32())])
    batch = pa.record_batch({"k": ["NaN", "0.1", "0.5"]})
    assert kept(schema, batch, from_values({"k": keys})) == [True, False, True]


def test_a_local_time_that_is_skipped_decides_nothing():
    """Times that the change to daylight saving time skips do not prune.

    Spark moves such a time by the skipped hour, so it may equal another time.
    """
    target = pa.field("k", pa.timestamp("us", "America/New_York"))
    skipped, plain = dt.datetime(2020, 3, 8, 2, 30), dt.datetime(2020, 3, 8, 3, 30)
    assert coerce(pa.array([plain]), target) is not None
    assert coerce(pa.array([plain, skipped]), target) is None
    batch = pa.record_batch({"k": ["2020-03-08 03:30:00"]})
    assert kept(pa.schema([target]), batch, from_values({"k": [skipped]})) == [True]


def test_a_range_of_a_collated_key_says_nothing():
    key = pa.field("s", pa.string(), metadata={LOGICAL_TYPE: f"{COLLATED} UTF8_LCASE"})
    predicate = Predicate(pa.schema([key]), [DynamicFilteringData.from_range({"s": ("a", "b")})])
    assert predicate.match(pa.record_batch({"s": ["A", "x"]})).to_pylist() == [True, True]
    (applied,) = predicate.filters
    assert "s has a collation" in str(applied.unused_because)


def test_values_of_a_collated_key_say_nothing():
    key = pa.field("s", pa.string(), metadata={LOGICAL_TYPE: f"{COLLATED} UTF8_LCASE"})
    schema = pa.schema([key, ("n", pa.int32())])
    predicate = Predicate(schema, [from_values({"s": ["a", "b"], "n": [1, 2]})])
    found = predicate.match(
        pa.record_batch({"s": ["A", "x", "a"], "n": pa.array([1, 2, 3], "int32")})
    )
    assert found.to_pylist() == [True, True, False]
    (applied,) = predicate.filters
    assert applied.used_fields == ("n",)
    assert "s has a collation" in str(applied.unused_because)


def test_text_keys_of_a_time_say_nothing():
    """Spark compares them as times, and '9:00' is the time 09:00:00."""
    key = pa.field("t", pa.string(), metadata={LOGICAL_TYPE: "time(6)"})
    predicate = Predicate(pa.schema([key]), [from_values({"t": ["9:00"]})])
    assert predicate.match(pa.record_batch({"t": ["09:00:00", "10:00:00"]})).to_pylist() == [
        True,
        True,
    ]
    (applied,) = predicate.filters
    assert "t has a collation or the type TIME" in str(applied.unused_because)


@pytest.mark.parametrize("big", [2**40, -(2**40)])
def test_ranges_of_which_an_end_between_does_not_fit_are_one(big):
    """The ends of the whole are kept, because other ends cannot be compared."""
    ends = sorted([(1, 2), (8, 9), (big, big + 1)])
    lower, upper = (pa.array(each, pa.int64()) for each in zip(*ends, strict=True))
    field = pa.field("d", pa.int64())
    domain = RangeDomain(field, Ranges(lower, upper))
    data = DynamicFilteringData(pa.schema([field]), [domain], exceeds_threshold=False)
    days = pa.record_batch({"d": pa.array([-9, 1, 5, 9, 20], pa.int32())})
    found = Predicate(pa.schema([("d", pa.int32())]), [data]).match(days).to_pylist()
    assert found == (
        [False, True, True, True, True] if big > 0 else [True, True, True, True, False]
    )


class Mistaken(Half):
    """A transform for which faulty writers stored results that are too high by 1."""

    def mistaken(self, results):
        return pc.add(results, pa.scalar(1, results.type))


def test_what_faulty_writers_made_of_a_value_is_kept():
    halves = pa.record_batch({"half": pa.array([0, 1, 2, 3], pa.int32())})
    fields = (PartitionField("half", "d", Mistaken()),)
    found = Predicate(SCHEMA, [from_values({"d": [2]})]).match(halves, fields).to_pylist()
    assert found == [False, True, True, False]


def test_what_faulty_writers_made_of_a_range_is_kept():
    ends = DynamicFilteringData.from_range({"d": (2, 8)})
    halves = pa.record_batch({"half": pa.array([0, 1, 3, 4, 5, 6], pa.int32())})
    fields = (PartitionField("half", "d", Mistaken()),)
    found = Predicate(SCHEMA, [ends]).match(halves, fields).to_pylist()
    assert found == [False, True, True, True, True, False]


def test_what_faulty_writers_made_of_values_is_kept():
    """Each transform may have gone wrong by itself, in any column."""
    fields = (PartitionField("half", "d", Mistaken()), PartitionField("e", "s"))
    values = from_values({"d": [2, 8], "s": ["x", "y"]})
    rows = {"half": [1, 2, 4, 5, 3, 2], "e": ["x", "x", "y", "y", "x", "y"]}
    kept = Predicate(SCHEMA, [values]).match(pa.record_batch(rows), fields).to_pylist()
    assert kept == [True, True, True, True, False, False]
    schema = pa.schema([("d", pa.int32()), ("n", pa.int32())])
    fields = (PartitionField("half", "d", Mistaken()), PartitionField("N", "n", Mistaken()))
    rows = {"half": [1, 2, 1, 2, 1, 3], "N": [4, 4, 5, 5, 3, 4]}
    both = Predicate(schema, [from_values({"d": [2], "n": [8]})])
    kept = both.match(pa.record_batch(rows), fields).to_pylist()
    assert kept == [True, True, True, True, False, False]
