"""The union of several filters keeps every row that one of them keeps."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.partition_names import plain_texts, wanted
from splitlib.filtering.predicate import AnyOf, Predicate

SCHEMA = pa.schema([("k", pa.int32()), ("s", pa.string())])
KEYS = st.lists(st.integers(0, 6), min_size=1, max_size=4)
TEXTS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3)
PARTITIONS = st.lists(
    st.tuples(st.none() | st.integers(0, 6).map(str), st.none() | st.sampled_from("abc")),
    max_size=12,
)


def predicate_of(keys, texts):
    filters = [
        DynamicFilteringData.from_values({name: values})
        for name, values in (("k", keys), ("s", texts))
        if values is not None
    ]
    return Predicate(SCHEMA, filters)


@given(st.lists(st.tuples(st.none() | KEYS, st.none() | TEXTS), min_size=1, max_size=3), PARTITIONS)
def test_union_of_what_each_keeps(readers, partitions):
    texts = [pa.array([p[i] for p in partitions], pa.string()) for i in (0, 1)]
    values = pa.record_batch(texts, names=["k", "s"])
    predicates = [predicate_of(*reader) for reader in readers]
    each = [predicate.match(values).to_pylist() for predicate in predicates]
    together = Predicate(SCHEMA, [], [AnyOf(predicates)]).match(values).to_pylist()
    assert together == [any(kept) for kept in zip(*each, strict=True)]


@given(
    st.lists(st.tuples(st.none() | KEYS, st.none() | TEXTS), min_size=1, max_size=3),
    st.none() | TEXTS,
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6).map(str)), max_size=12),
)
def test_names_of_what_one_of_them_keeps(readers, also, partitions):
    schema = pa.schema([SCHEMA.field("s"), SCHEMA.field("k")])
    either = AnyOf([predicate_of(*reader) for reader in readers])
    filters = [] if also is None else [DynamicFilteringData.from_values({"s": also})]
    predicate = Predicate(SCHEMA, filters, [either])
    values = pa.table(list(map(pa.array, zip(*partitions, strict=True))) or [[], []], ["s", "k"])
    values = values.cast(pa.schema([("s", pa.string()), ("k", pa.string())])).combine_chunks()
    (batch,) = values.to_batches() or [pa.RecordBatch.from_pylist([], values.schema)]
    kept = batch.filter(predicate.match(batch)).to_pylist()
    found = list(wanted(predicate, schema, canonical=True))
    bound = all(texts is not None for _, texts in readers) or also is not None
    assert bool(found) is bound
    for names in found:
        rows = names.to_pylist()
        assert len(rows) == len(set(map(str, rows)))
        assert all({key: row[key] for key in names.column_names} in rows for row in kept)


def test_says_what_each_says():
    both = AnyOf(
        [predicate_of([1], None), predicate_of(None, ["a", "b"]), predicate_of(None, None)]
    )
    assert both.describe() == "(1 value) or (2 values) or (all)"
    assert both.fields == ("k", "s")


def test_years_after_9999_have_two_spellings():
    """Arrow writes them without a sign, and Spark with one."""
    dates = pa.array([2932897], pa.int32()).cast(pa.date32())
    data = DynamicFilteringData.from_arrow(pa.table({"d": dates}))
    schema = pa.schema([("d", pa.date32())])
    assert plain_texts(dates) is None
    assert list(wanted(Predicate(schema, [data]), schema, canonical=True)) == []
