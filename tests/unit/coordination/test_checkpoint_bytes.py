"""Checkpoints with a valid checksum and invalid contents are refused."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from splitlib import InvalidCheckpoint
from splitlib.arrow import ipc as wire
from splitlib.coordination.checkpoint import decode
from splitlib.model import PartitionField, TableMetadata
from tests.fuzzing.targets.checkpoints import FORMAT, METADATA, SCAN, sample, sealed, sections_of


def with_header(**changes):
    header, *rest = sections_of(wire.unseal(sample(), FORMAT))
    return sealed([json.dumps({**json.loads(header), **changes}).encode(), *rest])


@pytest.mark.parametrize(
    "changes",
    [
        {"read_formats": []},
        {"deletes": [[{"kind": "position"}]]},
        {"kinds": []},
        {"kinds": [None] * 3},
        {"kinds": [[["k"]]]},
        {"kinds": [[["other", "k", True]]]},
        {"producers": []},
        {"producers": [["p"]]},
        {"scan": 5},
    ],
    ids=str,
)
def test_a_header_that_does_not_fit_is_refused(changes):
    assert len(decode(with_header(), SCAN, METADATA).splits) == 6
    (old, *_) = decode(with_header(kinds=[None]), SCAN, METADATA).splits  # as older versions wrote
    assert old.origin.partitions.fields == (PartitionField("k", "k"),)
    with pytest.raises(InvalidCheckpoint):
        decode(with_header(**changes), SCAN, METADATA)


@pytest.mark.parametrize("column", ["read_format", "deletes"])
@pytest.mark.parametrize("place", [-1, 1])
def test_an_entry_outside_of_its_list_is_refused(column, place):
    header, known, stream, *rest = sections_of(wire.unseal(sample(), FORMAT))
    batch = wire.read_batch(stream)
    at = batch.schema.get_field_index(column)
    places = pa.array([place] * batch.num_rows, batch.schema.field(at).type)
    stream = wire.write_batch(batch.set_column(at, batch.schema.field(at), places))
    with pytest.raises(InvalidCheckpoint, match="not a checkpoint"):
        decode(sealed([header, known, stream, *rest]), SCAN, METADATA)


def test_a_section_that_is_cut_off_is_refused():
    body = wire.unseal(sample(), FORMAT)
    with pytest.raises(InvalidCheckpoint, match="not a checkpoint") as caught:
        decode(wire.seal(body[:-1], FORMAT), SCAN, METADATA)
    assert "a section is longer than the data" in str(caught.value.__cause__)


def test_a_deep_header_is_refused():
    _, *rest = sections_of(wire.unseal(sample(), FORMAT))
    with pytest.raises(InvalidCheckpoint, match="not a checkpoint"):
        decode(sealed([b"[" * 100_000, *rest]), SCAN, METADATA)


@pytest.mark.parametrize("keys", [pa.schema([("other", pa.int32())]), pa.schema([])])
def test_other_keys_are_refused(keys):
    with pytest.raises(InvalidCheckpoint, match="not a checkpoint"):
        decode(sample(), SCAN, TableMetadata(keys, tuple(keys.names), METADATA.read_format))


def with_batch(change, **changes):
    header, known, stream, *rest = sections_of(wire.unseal(with_header(**changes), FORMAT))
    return sealed([header, known, wire.write_batch(change(wire.read_batch(stream))), *rest])


@pytest.mark.parametrize("column", ["path", "position"])
def test_a_split_with_missing_values_is_refused(column):
    def without(batch):
        at = batch.schema.get_field_index(column)
        field = batch.schema.field(at)
        return batch.set_column(at, field, pa.nulls(batch.num_rows, field.type))

    with pytest.raises(InvalidCheckpoint) as caught:
        decode(with_batch(without), SCAN, METADATA)
    assert "a split has missing values" in str(caught.value.__cause__)


def test_fields_that_the_partitions_do_not_have_are_refused():
    data = with_header(kinds=[[["other", "k", False]]])
    with pytest.raises(InvalidCheckpoint) as caught:
        decode(data, SCAN, METADATA)
    assert "partitions have the columns ['k']" in str(caught.value.__cause__)
