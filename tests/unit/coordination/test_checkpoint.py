"""A coordinator that is restored from a checkpoint of an earlier one."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import struct
import subprocess
import sys
import zlib
from decimal import Decimal
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitlib import DynamicFilteringData, SplitlibError
from splitlib.coordination.checkpoint import Checkpoint, TrackedSplit, decode, encode
from splitlib.coordination.coordinator import (
    AssignedSplit,
    DynamicFileSplitEnumerator,
    NoMoreSplits,
    RequestIgnored,
)
from splitlib.enumeration.splitting import SelectedFiles
from splitlib.errors import InvalidCheckpoint
from splitlib.filtering.data import DynamicFilteringEvent
from splitlib.model import (
    FILE_SCHEMA,
    DeleteFile,
    FileBatch,
    FileSplit,
    PartitionBatch,
    PartitionField,
    ReadFormat,
    TableMetadata,
    Transform,
)
from tests.support.coordinators import ask, coordinator_of, keys, read_all, take
from tests.support.memory_connector import PARQUET, MemoryConnector, enumerator_of, ks

KEYS = pa.schema([("k", pa.int32())])


def restore(state, connector, **more):
    restored = DynamicFileSplitEnumerator.restore(state, enumerator_of(connector, **more))
    restored.register_reader("r")
    return restored


def interrupted(connector, *, requests, acknowledged, event=None):
    """Run a coordinator for some requests, and take a checkpoint.

    Returns:
        The checkpoint, the acknowledged splits, and the splits that were only assigned.
    """
    with coordinator_of(connector) as coordinator:
        coordinator.register_reader("r")
        taken = [take(coordinator) for _ in range(requests)]
        coordinator.acknowledge(taken[:acknowledged], "r")
        if event is not None:
            coordinator.handle_source_event(event)
        return coordinator.snapshot_state(), taken[:acknowledged], taken[acknowledged:]


def test_what_was_not_acknowledged_is_handed_out_again_first_and_the_rest_once():
    state, done, lost = interrupted(MemoryConnector(300), requests=10, acknowledged=7)
    with restore(state, MemoryConnector(300)) as restored:
        rest = read_all(restored)
        assert restored.finished
    assert rest[:3] == lost
    assert done + rest == list(enumerator_of(MemoryConnector(300)).enumerate_splits())


def test_before_the_first_request_there_is_everything_to_do():
    with coordinator_of(MemoryConnector()) as coordinator:
        state = coordinator.snapshot_state()
    with restore(state, MemoryConnector()) as restored:
        assert len(read_all(restored)) == 20


def test_filters_come_along():
    event = keys(0, 7, producer="join")
    state, done, lost = interrupted(MemoryConnector(), requests=3, acknowledged=1, event=event)
    connector = MemoryConnector()
    with restore(state, connector) as restored:
        restored.handle_source_event(event)
        with pytest.raises(SplitlibError, match="different"):
            restored.handle_source_event(keys(1, producer="join"))
        rest = read_all(restored)
    assert ks(done) + ks(rest) == [0, 0, 7, 7]
    assert lost[0] in rest  # the other lost split has k = 1, and does not match the new filter
    assert set(connector.listed) <= {0, 7}


def test_a_filter_that_comes_after_the_restore_drops_what_was_restored():
    state, _, _ = interrupted(MemoryConnector(), requests=5, acknowledged=0)
    with restore(state, MemoryConnector()) as restored:
        restored.handle_source_event(keys(1, 9))
        assert ks(read_all(restored)) == [1, 1, 9, 9]


def test_nothing_is_listed_again_once_all_was_enumerated():
    with coordinator_of(MemoryConnector(3)) as coordinator:
        coordinator.register_reader("r")
        coordinator.register_reader("other")
        held = take(coordinator, "other")
        assert len(read_all(coordinator)) == 5
        state = coordinator.snapshot_state()
    connector = MemoryConnector(3)
    with restore(state, connector) as restored:
        assert read_all(restored) == [held]
        assert ask(restored) == NoMoreSplits()
        assert restored.finished
    assert connector.batches == 0


def test_readers_have_to_register_again():
    state, _, _ = interrupted(MemoryConnector(), requests=1, acknowledged=0)
    restored = DynamicFileSplitEnumerator.restore(state, enumerator_of(MemoryConnector()))
    assert isinstance(restored.handle_split_request("r"), RequestIgnored)


def test_a_file_is_read_once_even_if_it_has_grown_since():
    state, done, _ = interrupted(MemoryConnector(2, 1), requests=1, acknowledged=1)
    with restore(state, MemoryConnector(2, 1, size=500)) as restored:
        assert done[0].path not in [split.path for split in read_all(restored)]


def test_it_is_restored_as_often_as_it_fails():
    done = []
    state = coordinator_of(MemoryConnector(20, 3)).snapshot_state()
    while True:
        with restore(state, MemoryConnector(20, 3)) as coordinator:
            answers = [ask(coordinator) for _ in range(7)]
            splits = [each.split for each in answers if isinstance(each, AssignedSplit)]
            coordinator.acknowledge(splits[:4], "r")
            done += splits[:4]
            state = coordinator.snapshot_state()
            if not splits:
                break
    assert done == list(enumerator_of(MemoryConnector(20, 3)).enumerate_splits())


def test_a_state_of_another_scan_is_refused():
    state = coordinator_of(MemoryConnector(snapshot="1")).snapshot_state()

    class OtherKeys(MemoryConnector):
        def describe(self):
            return dataclasses.replace(
                super().describe(), schema=pa.schema([("a", pa.int64()), ("k", pa.string())])
            )

    for another, what in [
        (enumerator_of(MemoryConnector(snapshot="2")), "snapshot: 1, not 2"),
        (enumerator_of(MemoryConnector(snapshot="1"), name="u"), "table: t, not u"),
        (enumerator_of(OtherKeys(snapshot="1")), "partition keys"),
    ]:
        with pytest.raises(InvalidCheckpoint, match=what):
            DynamicFileSplitEnumerator.restore(state, another)
    DynamicFileSplitEnumerator.restore(state, enumerator_of(MemoryConnector(snapshot="1")))


JOIN = keys(0, 1, producer="join")
STATE = interrupted(MemoryConnector(), requests=5, acknowledged=2, event=JOIN)[0]


@given(st.integers(0, len(STATE) - 1), st.integers(1, 255))
def test_a_damaged_state_is_refused(place, flip):
    damaged = bytearray(STATE)
    damaged[place] ^= flip
    with pytest.raises(InvalidCheckpoint, match="damaged"):
        DynamicFileSplitEnumerator.restore(bytes(damaged), enumerator_of(MemoryConnector()))


@given(st.binary(max_size=40) | st.integers(0, len(STATE) - 1).map(lambda n: STATE[:n]))
def test_what_is_no_state_is_refused(data):
    with pytest.raises(InvalidCheckpoint, match="not a checkpoint"):
        DynamicFileSplitEnumerator.restore(data, enumerator_of(MemoryConnector()))


def test_a_state_of_another_version_is_refused():
    body = STATE[:-8]
    with pytest.raises(InvalidCheckpoint, match="this version"):
        DynamicFileSplitEnumerator.restore(
            body + struct.pack("<4sI", b"SLC2", zlib.crc32(body)), enumerator_of(MemoryConnector())
        )


IN_ANOTHER_PROCESS = """
import sys
from splitlib.coordination.coordinator import DynamicFileSplitEnumerator
from tests.support.coordinators import read_all
from tests.support.memory_connector import MemoryConnector, enumerator_of, ks
state = bytes.fromhex(sys.stdin.read())
with DynamicFileSplitEnumerator.restore(state, enumerator_of(MemoryConnector())) as restored:
    restored.register_reader("r")
    print(ks(read_all(restored)))
"""


def test_another_process_goes_on():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS]
    run = subprocess.run(
        command, input=STATE.hex(), capture_output=True, text=True, check=True, env=env
    )
    assert run.stdout == "[1, 1]\n"


def test_no_password_is_written():
    class Open(MemoryConnector):
        def list_files(self, partitions, predicate):
            for batch in super().list_files(partitions, predicate):
                paths = pa.array(
                    [f"ftp://me:secret@host{p}" for p in batch.files["path"].to_pylist()]
                )
                yield dataclasses.replace(batch, files=batch.files.set_column(0, "path", paths))

    with coordinator_of(Open()) as coordinator:
        coordinator.register_reader("r")
        take(coordinator)
        with pytest.raises(InvalidCheckpoint, match="credentials") as caught:
            coordinator.snapshot_state()
        assert "secret" not in str(caught.value)
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.handle_source_event(keys(1, producer="ftp://me:secret@host/t"))
        with pytest.raises(InvalidCheckpoint, match="producer contains credentials") as caught:
            coordinator.snapshot_state()
        assert "secret" not in str(caught.value)
    named = DynamicFileSplitEnumerator(
        enumerator_of(MemoryConnector(), name="ftp://me:secret@host/t")
    )
    assert b"secret" not in named.snapshot_state()


def test_a_producer_needs_a_name_that_can_be_written():
    with coordinator_of(MemoryConnector()) as coordinator:
        coordinator.handle_source_event(keys(1, producer=("join", 1)))
        with pytest.raises(InvalidCheckpoint, match="name of type tuple"):
            coordinator.snapshot_state()


# A split that has a value for every attribute.
FULL = FileSplit(
    split_id="id",
    path="/t/d=2024-02-29/é %20",
    start=5,
    length=7,
    file_size=50,
    modified=1_700_000_000_000,
    partition_values={"d": datetime.date(2024, 2, 29), "path": None, "n": Decimal("1.50")},
    read_format=ReadFormat.of("orc", {"b": "2", "a": "1"}, {3: "x", 1: "y"}),
    deletes=(
        DeleteFile("vector", "/d", 9, "puffin", 4, 5),
        DeleteFile("equality", "/e", 9, "avro", field_ids=(1, 2)),
    ),
    hosts=("a", "b"),
)


def tracked(split, values, row=0, fields=None):
    partitions = PartitionBatch(values, pa.nulls(values.num_rows), fields=fields)
    columns = [[split.path], [split.file_size], [split.modified], [row]]
    files = pa.record_batch(
        [pa.array(c, f.type) for c, f in zip(columns, FILE_SCHEMA, strict=True)], schema=FILE_SCHEMA
    )
    return TrackedSplit(split, SelectedFiles(partitions, FileBatch(files, split.read_format)), 0)


def round_trip(splits, keys):
    """Write and read a checkpoint twice, as a job does that is restarted twice."""
    once = round_trip_once(splits, keys)
    again = round_trip_once(once.splits, keys)
    assert [one.split for one in again.splits] == [one.split for one in once.splits]
    return once


def round_trip_once(splits, keys):
    written = encode(Checkpoint({"table": "t"}, False, [], splits, b""))
    return decode(written, {"table": "t"}, TableMetadata(keys, tuple(keys.names), PARQUET))


def test_every_field_of_a_split_survives():
    plain = dict.fromkeys(["split_id", "path", "start", "length", "file_size", "modified"])
    known = {*plain, "partition_values", "read_format", "deletes", "hosts"}
    assert {f.name for f in dataclasses.fields(FileSplit)} == known, "write the new one as well"
    schema = pa.schema([("d", pa.date32()), ("path", pa.string()), ("n", pa.decimal128(9, 2))])
    text = pa.record_batch(
        {"d": ["2020-01-01", "2024-02-29"], "path": ["x", None], "n": [None, "1.5"]},
        schema=pa.schema([(name, pa.string()) for name in schema.names]),
    )
    other = dataclasses.replace(FULL, split_id="other", read_format=PARQUET, deletes=(), hosts=())
    (again, without) = round_trip([tracked(FULL, text, 1), tracked(other, text, 1)], schema).splits
    assert (again.split, again.split.hosts) == (FULL, FULL.hosts)
    assert (without.split, without.split.hosts) == (other, ())


def test_no_password_of_a_delete_file_is_written():
    deletes = (DeleteFile("position", "ftp://me:secret@host/d", 9, "parquet"),)
    split = dataclasses.replace(FULL, deletes=deletes)
    values = pa.record_batch({"k": pa.array([1], pa.int32())})
    with pytest.raises(InvalidCheckpoint, match="credentials") as caught:
        round_trip_once([tracked(split, values)], KEYS)
    assert "secret" not in str(caught.value)


class Year:
    def __call__(self, values):
        return pc.year(values)


def test_the_order_is_kept_across_kinds_of_partitions():
    year = pa.record_batch({"K": pa.array([7], pa.int32()), "year": [2024]})
    plain = pa.record_batch({"k": pa.array([1, 2, 3], pa.int32())})
    fields = (PartitionField("K", "k"), PartitionField("year", "ts", cast(Transform, Year())))
    splits = []
    for i, name in enumerate("abcd"):
        values = {"k": 7, "year": 2024} if i % 2 else {"k": 3 - i // 2}
        split = dataclasses.replace(FULL, split_id=name, partition_values=values)
        origin = tracked(split, year, 0, fields) if i % 2 else tracked(split, plain, 2 - i // 2)
        splits.append(origin)
    again = round_trip(splits, KEYS).splits
    assert [one.split for one in again] == [one.split for one in splits]
    # A checkpoint keeps values of partition columns for pruning, but not results of transforms.
    assert again[1].origin.partitions.fields == (PartitionField("K", "k"),)


def test_filters_of_all_kinds_come_along():
    events = [
        DynamicFilteringEvent(DynamicFilteringData.from_values({"k": [1, None]}), "a"),
        DynamicFilteringEvent(DynamicFilteringData.from_range({"k": (1, None)}), 2),
        DynamicFilteringEvent(DynamicFilteringData.exceeded(KEYS)),
    ]
    written = encode(Checkpoint({}, True, events, [], b"x" * 32))
    again = decode(written, {}, TableMetadata(KEYS, ("k",), PARQUET))
    assert (again.filters, again.complete, again.known_files) == (events, True, b"x" * 32)


def test_values_that_do_not_parse_are_kept_after_a_restore_too():
    class Odd(MemoryConnector):
        def list_partitions(self, predicate):
            yield PartitionBatch(
                pa.record_batch({"k": ["1", "one", None]}), pa.array(["0", "1", "2"])
            )

    state, _, _ = interrupted(Odd(files=1), requests=3, acknowledged=0)
    with restore(state, Odd(files=1)) as restored:
        restored.handle_source_event(keys(5))
        read = read_all(restored)
    # The value "one" is not a number, so it may match. A null never equals 5.
    assert [split.path for split in read] == ["/t/k=1/00000"]


def test_an_unpartitioned_table():
    class Whole(MemoryConnector):
        def describe(self):
            return TableMetadata(pa.schema([("a", pa.int64())]), (), PARQUET)

        def list_partitions(self, predicate):
            yield PartitionBatch.whole(pa.array(["0"]))

    state, _, lost = interrupted(Whole(files=5), requests=2, acknowledged=0)
    with restore(state, Whole(files=5)) as restored:
        restored.handle_source_event(keys(5))
        read = read_all(restored)
    assert len(read) == 5
    assert read[:2] == lost


def test_the_size_of_a_state():
    with coordinator_of(MemoryConnector(100, 50)) as coordinator:
        coordinator.register_reader("r")
        read_all(coordinator)
        state = coordinator.snapshot_state()
    header = json.loads(state[8 : 8 + struct.unpack_from("<Q", state)[0]])
    assert header["complete"] is True
    assert len(state) < 100 * 50 * 16 + 1000
