"""Checkpoints with a valid checksum and invalid contents are refused."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from splitlib import InvalidCheckpoint
from splitlib.arrow import ipc as wire
from splitlib.coordination.checkpoint import decode
from splitlib.model import TableMetadata
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
    with pytest.raises(InvalidCheckpoint):
        decode(with_header(**changes), SCAN, METADATA)


def test_a_deep_header_is_refused():
    _, *rest = sections_of(wire.unseal(sample(), FORMAT))
    with pytest.raises(InvalidCheckpoint, match="not a checkpoint"):
        decode(sealed([b"[" * 100_000, *rest]), SCAN, METADATA)


@pytest.mark.parametrize("keys", [pa.schema([("other", pa.int32())]), pa.schema([])])
def test_other_keys_are_refused(keys):
    with pytest.raises(InvalidCheckpoint, match="not a checkpoint"):
        decode(sample(), SCAN, TableMetadata(keys, tuple(keys.names), METADATA.read_format))
