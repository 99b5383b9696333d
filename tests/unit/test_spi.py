"""The engine calls a connector in the right order, within its limits and with right arguments."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import splitlib
from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.spi import (
    Connector,
    Requests,
    check_options,
    deleted_positions,
    integer,
    milliseconds,
)
from splitlib.table import Table
from tests.support.memory_connector import DetailedConnector


class Noting(DetailedConnector):
    """A connector that records its calls, with the number of partitions or files in each call."""

    partitions_per_listing = 3

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.calls: list[tuple[str, int]] = []

    def load_details(self, partitions):
        self.calls.append(("load_details", len(partitions)))
        return super().load_details(partitions)

    def list_files(self, partitions, predicate):
        self.calls.append(("list_files", len(partitions)))
        return super().list_files(partitions, predicate)

    def hosts(self, paths):
        self.calls.append(("hosts", len(paths)))
        return [["h"] for _ in paths]

    def close(self):
        self.calls.append(("close", 0))


def test_no_call_is_given_more_than_the_connector_takes():
    connector = Noting(11, files=2)
    enumerator = DynamicFileEnumerator(Table("t", "memory", connector))
    assert len(list(enumerator.enumerate_splits())) == 22
    given = {name: sorted(n for each, n in connector.calls if each == name) for name in ("hosts",)}
    assert sorted(n for name, n in connector.calls if name == "load_details") == [3, 4, 4]
    # Each call lists up to three partitions of one batch of details.
    assert sorted(n for name, n in connector.calls if name == "list_files") == [1, 1, 3, 3, 3]
    # Hosts are requested once for each partition, for its two files.
    assert given == {"hosts": [2] * 11}


def test_nothing_is_asked_of_a_connector_that_was_closed():
    connector = Noting(200, on_list=lambda k: time.sleep(0.001))
    with Table("t", "memory", connector) as table:
        enumerator = DynamicFileEnumerator(table, SplitConfig(listing_threads=4))
        splits = enumerator.select_files()
        next(splits)
        splits.close()
    known = list(connector.calls)
    time.sleep(0.05)
    assert connector.calls == known
    assert known[-1] == ("close", 0)


class Pinned(Noting):
    """Has loaded its snapshot by seven requests."""

    def describe(self):
        return replace(super().describe(), snapshot_id="1", requests=Requests(2, 5))


def test_requests_of_open_are_in_the_report():
    enumerator = DynamicFileEnumerator(Table("t", "memory", Pinned(3)))
    assert len(list(enumerator.select_files())) == 3
    notes = enumerator.explain().notes
    assert "7 requests loaded the snapshot when the table was opened" in notes


def test_an_unknown_option_is_refused_by_its_name():
    check_options(["a"], ["a", "b"])
    with pytest.raises(splitlib.ConfigError, match=r"Unknown option c, d\..*are a, b"):
        check_options(["a", "d", "c"], ["b", "a"])


def test_a_connector_is_four_methods():
    assert Connector.__abstractmethods__ == {"open", "describe", "list_partitions", "list_files"}


@pytest.mark.parametrize("given", [7, "7", " 7 "])
def test_a_number_is_a_number_or_text(given):
    assert integer("version", given) == 7


@pytest.mark.parametrize("given", ["seven", "", "1.5", 1.9, 7.0, True, None, []])
def test_what_is_no_number_is_refused(given):
    with pytest.raises(splitlib.ConfigError, match="version must be a whole number"):
        integer("version", given)


@pytest.mark.parametrize(
    "given",
    [
        "2024-01-31T12:00:00Z",
        "2024-01-31T13:00:00+01:00",
        "1706702400000",
        1706702400000,
        datetime(2024, 1, 31, 12, tzinfo=UTC),
    ],
)
def test_a_time_is_in_milliseconds(given):
    assert milliseconds("timestamp", given) == 1706702400000


@pytest.mark.parametrize("given", ["yesterday", "2024-01-31T12:00:00", datetime(2024, 1, 31), []])
def test_what_is_no_time_is_refused(given):
    with pytest.raises(splitlib.ConfigError, match="timestamp"):
        milliseconds("timestamp", given)


MAGIC = b"\xd1\xd3\x39\x64"
BITMAP = MAGIC + BitMap64([1, 5, 1 << 40]).serialize()
FRAME = len(BITMAP).to_bytes(4, "big") + BITMAP + zlib.crc32(BITMAP).to_bytes(4, "big")


@pytest.mark.parametrize("vector", [BITMAP, FRAME])
def test_a_bitmap_becomes_positions(vector):
    assert deleted_positions(vector) == pa.array([1, 5, 1 << 40], pa.int64())
    assert deleted_positions(vector, 3).to_pylist() == [1, 5, 1 << 40]


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        *((vector, 4) for vector in (BITMAP, FRAME)),
        *((vector, None) for vector in (b"", b"PAR1", MAGIC, BITMAP[:-1], FRAME[:-1])),
        (FRAME.replace(b"\x05", b"\x06"), None),
    ],
)
def test_what_is_no_bitmap_is_refused(vector, expected):
    with pytest.raises(splitlib.CorruptMetadata):
        deleted_positions(vector, expected)
