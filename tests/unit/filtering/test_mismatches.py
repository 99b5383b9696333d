"""A filter that can never prune causes a warning, or an error in strict mode."""

from __future__ import annotations

import logging
import threading

import pyarrow as pa
import pytest

from splitlib import DynamicFileEnumerator, DynamicFilteringData, InvalidFilter
from splitlib.checks import mismatches
from splitlib.model import ReadFormat, TableMetadata
from splitlib.table import Table
from tests.support.memory_connector import MemoryConnector, enumerator_of, ks

from_values = DynamicFilteringData.from_values
# Filters that cannot prune. The table has a data column a (int64) and a partition key k (int32).
WRONG = {
    "kk": (from_values({"kk": [1]}), "no column 'kk'", "did you mean 'k'?"),
    "day": (from_values({"day": [1]}), "no column 'day'", "available: a, k."),
    "text": (from_values({"K": ["1"]}), "'K' is string, .* with int32", "values of type int32"),
    "range": (
        DynamicFilteringData.from_range({"k": ("a", "b")}),
        "'k' is string, .* with int32",
        "values of type int32",
    ),
    "pair": (from_values({"k": [1], "x": [2]}), "no column 'x'", "available: a, k."),
}
RIGHT = {
    "key": from_values({"k": [1]}),
    "other integers": from_values({"K": pa.array([1], pa.int64())}),
    "no statistics": from_values({"a": [1], "k": [1]}),
    "of a struct": from_values({"a.b": [1]}),
    "nothing said": DynamicFilteringData.from_range({"a": (None, None)}),
    "too many": DynamicFilteringData.exceeded(pa.schema([("k", pa.string())])),
}


def enumerator(**options):
    return DynamicFileEnumerator(Table("t", "memory", MemoryConnector(3)), **options)


@pytest.mark.parametrize("name", WRONG)
def test_it_warns_once_an_enumeration_and_reports(name, caplog):
    data, _, hint = WRONG[name]
    lenient = enumerator()
    lenient.set_dynamic_filtering_data(data)
    lenient.set_dynamic_filtering_data(data)
    for times in (1, 2):
        with caplog.at_level(logging.WARNING):
            assert list(lenient.enumerate_splits())
        (*_, record) = caplog.records
        assert len(caplog.records) == times
        assert (record.levelname, record.name) == ("WARNING", "splitlib.enumeration")
        assert hint in record.getMessage()
    (note,) = lenient.explain().notes
    assert hint in note
    assert note in str(lenient.explain())


@pytest.mark.parametrize("name", WRONG)
def test_strict_raises(name):
    data, message, hint = WRONG[name]
    with pytest.raises(InvalidFilter, match=message) as caught:
        enumerator(strict=True).set_dynamic_filtering_data(data)
    assert hint in str(caught.value.hint)
    assert (caught.value.connector, caught.value.table) == ("memory", "t")


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_what_cannot_be_used_for_another_reason_is_no_mistake(name, strict, caplog):
    scan = enumerator(strict=strict)
    scan.set_dynamic_filtering_data(RIGHT[name])
    with caplog.at_level(logging.WARNING):
        list(scan.enumerate_splits())
    assert not caplog.records
    assert not scan.explain().notes


def test_a_filter_that_comes_late_is_warned_of(caplog):
    scan = enumerator()
    splits = scan.enumerate_splits()
    next(splits)
    scan.set_dynamic_filtering_data(WRONG["day"][0])
    assert list(splits)
    assert len(caplog.records) == 1


def test_a_name_alone_announces_a_filter():
    """If the fields are a string, it is one column name and not a sequence of letters."""
    scan = enumerator_of(MemoryConnector(3), filter_wait_seconds=30)
    scan.announce_dynamic_filter("p", "day")
    scan.announce_dynamic_filter("q", "k")
    arrival = threading.Timer(0.05, scan.set_dynamic_filtering_data, (RIGHT["key"], "q"))
    arrival.start()
    assert ks(scan.enumerate_splits()) == [1, 1], "it waited for q alone"


def test_a_column_with_a_dot_in_its_name_is_not_missing():
    schema = pa.schema([("x.y", pa.int64()), ("k", pa.int32())])
    metadata = TableMetadata(schema, ("k",), ReadFormat("parquet"))
    assert not mismatches(from_values({"x.y": [1]}), metadata)
    assert mismatches(from_values({"y.x": [1]}), metadata)
