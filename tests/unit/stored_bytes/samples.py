"""Filters and a checkpoint that each version of splitlib stores in files, in its own directory.

Before a release, ``python -m tests.unit.stored_bytes.samples`` writes the files of the new version.
Files of released versions are never written again. Samples must not change, and a new sample needs
a new name.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from splitlib import DynamicFilteringData, __version__
from splitlib.coordination.checkpoint import Checkpoint, TrackedSplit, encode
from splitlib.enumeration.splitting import SelectedFiles
from splitlib.filtering.data import DynamicFilteringEvent
from splitlib.model import (
    FILE_SCHEMA,
    DeleteFile,
    FileBatch,
    FileSplit,
    PartitionBatch,
    ReadFormat,
    TableMetadata,
)

DIRECTORY = Path(__file__).parent
Keys = DynamicFilteringData
FILTERS = {
    "values": Keys.from_values({"d": [1, None, 3], "s": ["a", "é", None]}),
    "types": Keys.from_values(
        {
            "day": [dt.date(2024, 2, 29)],
            "at": [dt.datetime(2024, 2, 29, 1, 2, 3, 456789, dt.UTC)],
            "price": [Decimal("12.30")],
            "share": [0.5],
            "raw": [b"\x00\xff"],
            "yes": [True],
        }
    ),
    "range": Keys.from_range({"d": (10, 20), "s": (None, "m")}),
    "exceeded": Keys.exceeded(pa.schema([("d", pa.int64()), ("p", pa.decimal128(10, 2))])),
    "none": Keys.from_arrow(pa.table({"d": pa.array([], pa.int64())})),
    "nested": Keys.from_arrow(pa.table({"s": [{"a": 1, "b": "x"}], "l": [[1, None]]})),
}

SCAN = {"table": "t", "snapshot": "17"}
METADATA = TableMetadata(
    pa.schema([("v", pa.int64()), ("k", pa.int32()), ("c", pa.string())]),
    ("k", "c"),
    ReadFormat.of("parquet"),
)
_DELETES = (
    DeleteFile("position", "/t/p.parquet", 100, "parquet", records=3),
    DeleteFile("vector", "/t/v.puffin", 200, "puffin", 4, 50, records=7),
    DeleteFile("equality", "/t/e.parquet", 300, "parquet", field_ids=(1, 2)),
)
SPLITS = [
    FileSplit("s0", "/t/k=1/c=é/a", 0, 64, 100, 5, {"k": 1, "c": "é"}, ReadFormat.of("parquet")),
    FileSplit("s1", "/t/k=1/c=é/a", 64, 36, 100, 5, {"k": 1, "c": "é"}, ReadFormat.of("parquet")),
    FileSplit(
        "s2",
        "/t/k=2/b c",
        0,
        9,
        9,
        0,
        {"k": 2, "c": None},
        ReadFormat.of("csv", {"header": "true"}),
        hosts=("a", "b"),
    ),
    FileSplit(
        "s3",
        "/t/d",
        0,
        8,
        8,
        0,
        {"k": None, "c": None},
        ReadFormat.of("parquet", columns={1: "v", 2: "k"}),
        _DELETES,
    ),
]
PRODUCERS = ["join", 7, None]
KNOWN_FILES = b"12345678abcdefgh"


def checkpoint() -> Checkpoint:
    """Return a checkpoint with the sample splits and some of the sample filters."""
    events = [
        DynamicFilteringEvent(FILTERS[name], producer)
        for name, producer in zip(["values", "range", "exceeded"], PRODUCERS, strict=True)
    ]
    return Checkpoint(SCAN, True, events, [_tracked(split) for split in SPLITS], KNOWN_FILES)


def _tracked(split: FileSplit) -> TrackedSplit:
    k, c = split.partition_values["k"], split.partition_values["c"]
    # Partition values may be text, as in a catalog, or typed. A checkpoint stores both unchanged.
    as_text = not split.deletes and k is not None
    keys = pa.array([str(k)]) if as_text else pa.array([k], pa.int32())
    values = pa.record_batch({"k": keys, "c": pa.array([c], pa.string())})
    file = [[split.path], [split.file_size], [split.modified], [0]]
    columns = [pa.array(each, field.type) for each, field in zip(file, FILE_SCHEMA, strict=True)]
    files = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
    partitions = PartitionBatch(values, pa.nulls(1))
    return TrackedSplit(split, SelectedFiles(partitions, FileBatch(files, split.read_format)), 0)


def files() -> dict[str, bytes]:
    """Return the contents of the files that this version writes, by file name."""
    filters = {f"{name}.filter": data.to_bytes() for name, data in FILTERS.items()}
    return {**filters, "splits.checkpoint": encode(checkpoint())}


if __name__ == "__main__":
    (DIRECTORY / __version__).mkdir(exist_ok=True)
    for name, data in files().items():
        (DIRECTORY / __version__ / name).write_bytes(data)
