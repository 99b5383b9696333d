"""What several readers need together: the union of what each keeps, and never less."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from splitlib.filtering.any_of import AnyOf
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate

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


def test_says_what_each_says():
    both = AnyOf(
        [predicate_of([1], None), predicate_of(None, ["a", "b"]), predicate_of(None, None)]
    )
    assert both.describe() == "(1 value) or (2 values) or (all)"
    assert both.fields == ("k", "s")
