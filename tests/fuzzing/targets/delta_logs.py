"""Fuzz target: the newest commit of a Delta table, read from the local disk."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path

from splitlib import DynamicFileEnumerator, DynamicFilteringData, SplitConfig, SplitlibError
from splitlib.table import Table
from splitlib_delta import DeltaConnector
from tests.support.delta_log import add, commit, field, inline_vector, metadata, protocol, remove

TOKENS = (
    b'"add"',
    b'"remove"',
    b'"metaData"',
    b'"protocol"',
    b'"deletionVector"',
    b'"readerFeatures"',
    b'"schemaString"',
    b'"minValues"',
    b"\\u0000",
    b"null",
    b"1e999",
    b"\n",
)
_FIELDS = [field("c", "long"), field("day", "date"), field("k", "integer")]
_CONFIG = SplitConfig(retry_attempts=1)
_FILTERS = {"c": [4, 9], "k": [1, 2]}


@cache
def _table() -> Path:
    """Return the directory of a table with one commit. It is deleted when the process ends."""
    directory = tempfile.TemporaryDirectory(prefix="splitlib-fuzzing-")
    _kept.append(directory)
    root = Path(directory.name)
    commit(root, [protocol("deletionVectors"), metadata(_FIELDS, ["k"])])
    return root


_kept: list[tempfile.TemporaryDirectory[str]] = []


def seeds() -> list[bytes]:
    known = {"minValues": {"c": 1}, "maxValues": {"c": 9}, "nullCount": {"c": 0}}
    statistics = json.dumps({"numRecords": 4, **known})
    files = [
        add(f"k={k}/f", partitionValues={"k": str(k)}, size=9, stats=statistics) for k in range(4)
    ]
    vector = {"add": {**files[1]["add"], "deletionVector": inline_vector([0, 2])}}
    entries = [*files, remove("k=1/f"), vector]
    changed = [protocol("deletionVectors", "columnMapping"), metadata(_FIELDS, ["k"]), *files]
    return ["".join(json.dumps(one) + "\n" for one in some).encode() for some in (entries, changed)]


def run(data: bytes) -> bool:
    root = _table()
    (root / "_delta_log" / f"{1:020}.json").write_bytes(data)
    try:
        with Table("t", "delta", DeltaConnector.open(str(root), {}), _CONFIG) as table:
            enumerator = DynamicFileEnumerator(table, _CONFIG)
            enumerator.set_dynamic_filtering_data(DynamicFilteringData.from_values(_FILTERS))
            for split in enumerator.enumerate_splits():
                for delete in split.deletes:
                    table.read_vector(delete)
    except SplitlibError:
        return False
    return True
