"""Serialize filters as an Arrow IPC stream of one row, with a checksum.

A filter consists of parts, one per domain. Each part has one column per field, and the column's
only row is a list of all values. The schema's metadata records which columns belong to which part.
Text that is not valid UTF-8 is stored as binary, because Arrow's readers reject it as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow import ipc
from splitlib.arrow.ipc import Unreadable
from splitlib.arrow.utf8 import are_valid

_FORMAT = b"SLF1"
_DOMAINS = b"splitlib.domains"
_EXCEEDED = b"splitlib.exceeded"
_SCHEMA = b"splitlib.schema"


class Part(NamedTuple):
    """The serialized form of one filter domain."""

    kind: str
    """Kind of domain, such as ``values`` or ``range``."""
    rows: pa.Table
    """The values, with one column per field. For ranges, all lower ends, then all upper ends."""


class Parts(NamedTuple):
    """The serialized form of a complete filter."""

    schema: pa.Schema
    """The key fields."""
    parts: Sequence[Part]
    exceeded: bool
    """Whether there were too many keys to keep all of them."""


def encode(filtering: Parts) -> bytes:
    """Serialize a filter. Equal filters have equal bytes."""
    names = [name for part in filtering.parts for name in part.rows.column_names]
    columns = [_stored(column) for part in filtering.parts for column in part.rows.columns]
    arrays = [pa.LargeListArray.from_arrays([0, len(column)], column) for column in columns]
    kinds = [f"{part.kind}:{part.rows.num_columns}" for part in filtering.parts]
    metadata = {
        _DOMAINS: ",".join(kinds).encode(),
        _EXCEEDED: b"1" if filtering.exceeded else b"0",
        _SCHEMA: filtering.schema.serialize().to_pybytes(),
    }
    fields = [pa.field(n, a.type) for n, a in zip(names, arrays, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=metadata))
    return ipc.seal(ipc.write_batch(batch), _FORMAT)


def decode(data: bytes) -> Parts:
    """Deserialize the bytes that :func:`encode` returned. Safe for untrusted bytes.

    Raises:
        Unreadable: if the bytes were not written by :func:`encode`.
    """
    batch = ipc.read_batch(ipc.unseal(data, _FORMAT))
    metadata = batch.schema.metadata or {}
    try:
        schema = ipc.read_schema(metadata[_SCHEMA])
        kinds = [kind.split(":") for kind in metadata[_DOMAINS].decode().split(",") if kind]
        exceeded = {b"0": False, b"1": True}[metadata[_EXCEEDED]]
        counts = [(kind, int(count)) for kind, count in kinds]
        parts = _parts(batch, counts, schema)
    except (KeyError, ValueError, pa.ArrowException) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return Parts(schema, parts, exceeded)


def _parts(batch: pa.RecordBatch, counts: list[tuple[str, int]], schema: pa.Schema) -> list[Part]:
    fits = sum(count for _, count in counts) == batch.num_columns
    if not fits or any(count < 1 for _, count in counts):
        raise Unreadable("the columns do not match the metadata")
    columns = zip(batch.schema.names, batch.columns, strict=True)
    parts = []
    for kind, count in counts:
        values = {
            name: _only_list(column) for name, column in (next(columns) for _ in range(count))
        }
        fields = pa.schema([schema.field(name) for name in values])
        for field in fields:
            if pa.types.is_string(field.type) and pa.types.is_binary(values[field.name].type):
                values[field.name] = values[field.name].view(field.type)
        if fields.types != [column.type for column in values.values()]:
            raise Unreadable(f"{', '.join(values)} have other types than the fields")
        parts.append(Part(kind, pa.table(list(values.values()), schema=fields)))
    return parts


def _stored(column: pa.ChunkedArray) -> pa.Array:
    """Return a column's values as one array, with invalid texts as binary."""
    values = column.combine_chunks()
    if pa.types.is_string(values.type) and not pc.all(are_valid(values), min_count=0).as_py():
        return values.view(pa.binary())
    return values


def _only_list(column: pa.Array) -> pa.Array:
    """Return the list's values from a column whose only row is a list."""
    if not pa.types.is_large_list(column.type) or len(column) != 1 or column.null_count:
        raise Unreadable(f"a column of {len(column)} {column.type} is not a single list of values")
    return column.flatten()
