"""Serialize a coordinator's state to versioned, checksummed bytes, without pickle.

The bytes consist of sections, each preceded by its length in 8 bytes (little-endian). After the
sections come the format's name and a CRC-32 of all sections. The first section is JSON, and the
second contains the ids of the listed files. Then there is an Arrow stream for each schema of
partition values, with one row per split. The last sections are the filters.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from splitlib.arrow import ipc
from splitlib.checks import check_value_types, checked_partitions
from splitlib.enumeration.splitting import SelectedFiles, typed_values
from splitlib.errors import InvalidCheckpoint, SplitlibError
from splitlib.filtering.data import DynamicFilteringData, DynamicFilteringEvent
from splitlib.model import (
    FILE_SCHEMA,
    DeleteFile,
    FileBatch,
    FileSplit,
    PartitionBatch,
    PartitionField,
    ReadFormat,
    TableMetadata,
)
from splitlib.redaction import redact_path, without_credentials

_FORMAT = b"SLC1"
_LENGTH = struct.Struct("<Q")
_COLUMNS = pa.schema(
    [
        ("position", pa.int64()),  # position among all splits of the checkpoint
        ("split_id", pa.string()),
        ("path", pa.string()),
        ("start", pa.int64()),
        ("length", pa.int64()),
        ("file_size", pa.int64()),
        ("modified", pa.int64()),
        ("read_format", pa.int64()),  # index into the list "read_formats" in the JSON section
        ("deletes", pa.int64()),  # index into the list "deletes" in the JSON section
        ("hosts", pa.list_(pa.string())),
    ]
)
# Errors that decoding untrusted bytes can raise.
_WRONG = (
    SplitlibError,
    ipc.Unreadable,
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)
_T = TypeVar("_T")
_Kind = tuple[pa.Schema, tuple[PartitionField, ...]]


class TrackedSplit(NamedTuple):
    """A split, and its file in the selected files. Later filters are matched with this file."""

    split: FileSplit
    origin: SelectedFiles
    row: int
    """Row of the split's file in :attr:`origin`."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The complete state that another process needs to continue the scan."""

    scan: Mapping[str, Any]
    """Identity of the scan, from
    :meth:`splitlib.enumeration.enumerator.DynamicFileEnumerator.identity`."""
    complete: bool
    """Whether the enumeration is complete, so that no more files have to be listed."""
    filters: Sequence[DynamicFilteringEvent]
    splits: Sequence[TrackedSplit]
    """Splits that no reader has acknowledged, in the order in which they are handed out."""
    known_files: bytes
    """Ids of all enumerated files, whether or not their splits are acknowledged."""


def encode(checkpoint: Checkpoint) -> bytes:
    """Serialize a checkpoint.

    Raises:
        InvalidCheckpoint: if a producer's name is neither text nor an integer, or a producer's name
            or a path contains credentials.
    """
    names = [event.producer for event in checkpoint.filters]
    for name in names:
        if not isinstance(name, str | int | None):
            raise InvalidCheckpoint(
                f"A producer's name of type {type(name).__name__} cannot be serialized.",
                hint="use names of type str or int.",
            )
        if without_credentials(str(name)) != str(name):
            raise _with_credentials("The name of a producer")
    formats: dict[ReadFormat, int] = {}
    deletes: dict[tuple[DeleteFile, ...], int] = {}
    kinds: list[Any] = []
    streams: list[bytes] = []
    for (schema, fields), positions in _by_kind(checkpoint.splits).items():
        some = [checkpoint.splits[i] for i in positions]
        streams.append(_to_stream(positions, some, formats, deletes))
        # Transforms are not serialized. After a restore, the values of transformed columns are
        # known, but not the table columns from which they derive.
        sources = {f.name: f.source for f in fields if f.transform is None}
        kinds.append([[n, sources.get(n, n), n in sources] for n in schema.names])
    _refuse_credentials(file.path for each in deletes for file in each)
    header = {
        "scan": checkpoint.scan,
        "complete": checkpoint.complete,
        "producers": names,
        "read_formats": [asdict(each) for each in formats],
        "deletes": [[asdict(file) for file in each] for each in deletes],
        "kinds": kinds,
    }
    filters = [event.data.to_bytes() for event in checkpoint.filters]
    sections = [json.dumps(header).encode(), checkpoint.known_files, *streams, *filters]
    body = b"".join(_LENGTH.pack(len(section)) + section for section in sections)
    return ipc.seal(body, _FORMAT)


def decode(data: bytes, scan: Mapping[str, Any], metadata: TableMetadata) -> Checkpoint:
    """Deserialize a checkpoint that :func:`encode` wrote. Safe for untrusted bytes.

    Args:
        data: The bytes to read.
        scan: Identity of the scan that continues from the checkpoint.
        metadata: Metadata of the scan's table.

    Raises:
        InvalidCheckpoint: if the bytes are damaged, belong to another scan, or are not a
            checkpoint.
    """
    try:
        return _decoded(list(_sections(ipc.unseal(data, _FORMAT))), scan, metadata)
    except InvalidCheckpoint:
        raise
    except _WRONG as error:
        raise InvalidCheckpoint(
            "The bytes are not a checkpoint of this version, or are damaged.",
            hint="pass the result of snapshot_state() unchanged.",
        ) from error


def _decoded(
    sections: Sequence[bytes], scan: Mapping[str, Any], metadata: TableMetadata
) -> Checkpoint:
    header_bytes, known_files, *rest = sections
    header = json.loads(header_bytes)
    for what, value in scan.items():
        if header["scan"].get(what) != value:
            raise InvalidCheckpoint(
                f"The checkpoint has another {what}: {header['scan'].get(what)}, not {value}.",
                hint="open the table as it was when the checkpoint was made.",
            )
    formats = [_read_format(each) for each in header["read_formats"]]
    deletes = [
        tuple(DeleteFile(**{**file, "field_ids": tuple(file["field_ids"])}) for file in each)
        for each in header["deletes"]
    ]
    kinds, filters = header["kinds"], rest[len(header["kinds"]) :]
    splits: dict[int, TrackedSplit] = {}
    for fields, stream in zip(kinds, rest[: len(kinds)], strict=True):
        splits.update(_from_stream(stream, fields, metadata, formats, deletes))
    if any(not isinstance(name, str | int | None) for name in header["producers"]):
        raise ipc.Unreadable("a producer's name has an unsupported type")
    return Checkpoint(
        scan=header["scan"],
        complete=header["complete"] is True,
        filters=[
            DynamicFilteringEvent(DynamicFilteringData.from_bytes(each), producer)
            for each, producer in zip(filters, header["producers"], strict=True)
        ],
        splits=[splits[position] for position in range(len(splits))],
        known_files=known_files,
    )


def _refuse_credentials(paths: Iterable[str]) -> None:
    if any(redact_path(path) != path for path in paths):
        raise _with_credentials("A path")


def _with_credentials(what: str) -> InvalidCheckpoint:
    return InvalidCheckpoint(
        f"{what} contains credentials, which must not be in a checkpoint.",
        hint="pass credentials in the options of the table.",
    )


def _sections(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        (length,) = _LENGTH.unpack_from(body, start)
        start += _LENGTH.size
        if length > len(body) - start:
            raise ipc.Unreadable("a section is longer than the data")
        yield body[start : start + length]
        start += length


def _by_kind(splits: Sequence[TrackedSplit]) -> dict[_Kind, list[int]]:
    """Return the splits' positions, grouped by schema and fields of their partition values."""
    kinds: dict[_Kind, list[int]] = {}
    for position, tracked in enumerate(splits):
        partitions = tracked.origin.partitions
        kinds.setdefault((partitions.values.schema, partitions.fields), []).append(position)
    return kinds


def _to_stream(
    positions: Sequence[int],
    some: Sequence[TrackedSplit],
    formats: dict[ReadFormat, int],
    deletes: dict[tuple[DeleteFile, ...], int],
) -> bytes:
    rows = [
        {
            "position": position,
            "split_id": split.split_id,
            "path": split.path,
            "start": split.start,
            "length": split.length,
            "file_size": split.file_size,
            "modified": split.modified,
            "read_format": formats.setdefault(split.read_format, len(formats)),
            "deletes": deletes.setdefault(split.deletes, len(deletes)),
            "hosts": split.hosts,
        }
        for position, split in zip(positions, (t.split for t in some), strict=True)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=_COLUMNS)
    _refuse_credentials(tracked.split.path for tracked in some)
    values = _values_of(some)
    fields = [*batch.schema, *values.schema]
    whole = pa.RecordBatch.from_arrays([*batch.columns, *values.columns], schema=pa.schema(fields))
    return ipc.write_batch(whole)


def _values_of(some: Sequence[TrackedSplit]) -> pa.RecordBatch:
    """Return a batch of the partition values as the connector returned them, one row per split."""
    batches: dict[int, pa.RecordBatch] = {}
    rows: dict[int, list[int]] = {}
    places: list[tuple[int, int]] = []
    for tracked in some:
        origin = tracked.origin
        values = origin.partitions.values
        row = origin.files.files["partition"][tracked.row].as_py()
        batches[id(values)] = values
        taken = rows.setdefault(id(values), [])
        places.append((id(values), len(taken)))
        taken.append(row)
    first = next(iter(batches.values()))
    if not first.num_columns:
        return first
    offsets, offset = {}, 0
    for key, taken in rows.items():
        offsets[key], offset = offset, offset + len(taken)
    table = pa.concat_tables(
        pa.table(batch.take(pa.array(rows[key], pa.int64()))) for key, batch in batches.items()
    )
    order = pa.array([offsets[key] + nth for key, nth in places], pa.int64())
    (ordered,) = table.take(order).combine_chunks().to_batches()
    return ordered


def _from_stream(
    stream: bytes,
    fields: Sequence[tuple[str, str, bool]] | None,
    metadata: TableMetadata,
    formats: Sequence[ReadFormat],
    deletes: Sequence[tuple[DeleteFile, ...]],
) -> Iterator[tuple[int, TrackedSplit]]:
    batch = ipc.read_batch(stream)
    # Select columns by position, because a partition key may have a name that is in _COLUMNS.
    own, values = (
        batch.select(list(places))
        for places in (range(len(_COLUMNS)), range(len(_COLUMNS), batch.num_columns))
    )
    if own.schema.types != _COLUMNS.types or own.schema.names != _COLUMNS.names:
        raise ipc.Unreadable(f"splits have the columns {own.schema.names}")
    if any(column.null_count for column in own.columns):
        raise ipc.Unreadable("a split has missing values")
    every = pa.array(range(batch.num_rows), pa.int64())
    if fields is None:  # Older versions wrote no fields if there were no transforms.
        fields = [(name, name, True) for name in values.schema.names]
    # Transforms are not serialized, so filters can no longer be applied to transformed columns.
    known = tuple(PartitionField(name, source) for name, source, plain in fields if plain)
    partitions = PartitionBatch(values, pa.nulls(batch.num_rows), fields=known)
    if len(known) == values.num_columns:
        checked_partitions(partitions, metadata)
    elif {name for name, _, _ in fields} <= set(values.schema.names):
        check_value_types(partitions, metadata.filter_schema)
    else:
        raise ipc.Unreadable(f"partitions have the columns {values.schema.names}")
    columns = [own["path"], own["file_size"], own["modified"], every]
    files = pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)
    origin = SelectedFiles(partitions, FileBatch(files, ReadFormat("")))
    typed = typed_values(partitions, metadata.partition_schema)
    for row, stored in enumerate(own.to_pylist()):
        position = stored.pop("position")
        split = FileSplit(
            **stored
            | {
                "partition_values": {name: column[row] for name, column in typed.items()},
                "read_format": _one_of(formats, stored["read_format"]),
                "deletes": _one_of(deletes, stored["deletes"]),
                "hosts": tuple(stored["hosts"]),
            }
        )
        yield position, TrackedSplit(split, origin, row)


def _one_of(known: Sequence[_T], place: int) -> _T:
    if not 0 <= place < len(known):
        raise ipc.Unreadable(f"there is no entry {place}")
    return known[place]


def _read_format(stored: Mapping[str, Any]) -> ReadFormat:
    columns: Any = stored["columns"]
    if not isinstance(columns, str):
        columns = tuple((number, name) for number, name in columns)
    options = tuple((key, value) for key, value in stored["options"])
    return ReadFormat(stored["name"], options, columns)
