"""Convert manifest contents to batches of partitions, and partitions to batches of data files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import UnsupportedTable
from splitlib.model import (
    FILE_SCHEMA,
    ColumnStatistics,
    DeleteFile,
    Manifests,
    PartitionBatch,
    Requests,
)
from splitlib.spi import Predicate
from splitlib_iceberg.delete_index import DeleteIndex, key_values, partition_key
from splitlib_iceberg.manifest_contents import Contents, Integers, group
from splitlib_iceberg.partition_specs import Spec
from splitlib_iceberg.schema import Column

# A partition's handle is a list with one integer per file of the partition. The upper bits of this
# integer are the manifest's index in the manifest list. The lower 32 bits are the file's row in the
# manifest.
_ROW_BITS = 32
_ROW_MASK = (1 << _ROW_BITS) - 1


class Refs(NamedTuple):
    """The files of some partitions, decoded from the partitions' handles. One row is one file."""

    partition: Integers
    """Row of the file's partition in the batch of partitions."""
    manifest: Integers
    """Index in the manifest list of the manifest that lists the file."""
    row: Integers
    """Index of the file's entry in its manifest, from 0."""


class Chosen(NamedTuple):
    """The files that were selected from one manifest."""

    contents: Contents
    """All data files of the manifest."""
    rows: Integers
    """Rows of the selected files in ``contents``."""
    partition: Integers
    """For each selected file, the row of its partition in the requested batch."""


def needs_statistics(predicate: Predicate, spec: Spec) -> bool:
    """Return whether the predicate uses columns other than partition keys without a transform."""
    return not predicate.keys <= spec.identities.keys()


def no_partitions(requests: Requests, manifests: Manifests) -> PartitionBatch:
    """Return a batch without partitions, which only reports the requests and manifest counts."""
    nothing = pa.RecordBatch.from_arrays([], names=[])
    refs = pa.array([], pa.list_(pa.int64()))
    return PartitionBatch(nothing, refs, requests, (), refs.value_lengths(), manifests)


def partition_batch(
    spec: Spec, contents: Mapping[int, Contents], requests: Requests, manifests: Manifests
) -> PartitionBatch:
    """Return the distinct partitions of some manifests, in the order of their first files.

    Args:
        spec: The partition specification that all these manifests use.
        contents: Contents of the manifests, by their index in the manifest list.
        requests: Number of requests that were made to read the manifests.
        manifests: Counts of the manifests that were opened and skipped, for reports.
    """
    every = list(contents.items())
    columns = [pa.concat_arrays([c.partitions[i] for _, c in every]) for i in range(len(spec.keys))]
    known = [c.partition_count for _, c in every]
    code_of, first = group(columns, sum(known))
    start = np.cumsum([0, *known])
    codes = np.concatenate([code_of[start[i] + c.partition_of] for i, (_, c) in enumerate(every)])
    refs = np.concatenate([(number << _ROW_BITS) + np.arange(len(c.files)) for number, c in every])
    counts = np.bincount(codes, minlength=len(first))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    in_order = refs[np.argsort(codes, kind="stable")]
    shown = {
        key.field: column.take(pa.array(first))
        for key, column in zip(spec.keys, columns, strict=True)
        if key.meaning is not None
    }
    values = pa.RecordBatch.from_arrays(list(shown.values()), schema=pa.schema(list(shown)))
    return PartitionBatch(
        values,
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(in_order)),
        requests,
        spec.fields,
        pa.array(counts),
        manifests,
    )


def resolve(partitions: PartitionBatch) -> Refs:
    """Decode a batch's partition handles to the files that they refer to."""
    lengths = pc.list_value_length(partitions.refs).to_numpy()
    refs = partitions.refs.flatten().to_numpy()
    owner = np.repeat(np.arange(len(partitions)), lengths)
    return Refs(owner, refs >> _ROW_BITS, refs & _ROW_MASK)


def choose(contents: Mapping[int, Contents], refs: Refs) -> list[Chosen]:
    """Group the files in ``refs`` by the manifest that lists them."""
    chosen = []
    for number, found in contents.items():
        at = np.flatnonzero(refs.manifest == number)
        chosen.append(Chosen(found, refs.row[at], refs.partition[at]))
    return chosen


def files_of(chosen: list[Chosen]) -> pa.RecordBatch:
    """Return a batch with the path, size and sequence number of each selected file.

    Raises:
        UnsupportedTable: for a file that is encrypted or not Parquet.
    """
    files = pa.Table.from_batches([c.contents.files.take(pa.array(c.rows)) for c in chosen])
    # Concatenate the batches. pa.concat_batches would do this, but requires pyarrow 19.
    arrays = [column.combine_chunks() for column in files.columns]
    found = pa.RecordBatch.from_arrays(arrays, schema=files.schema)
    refused = found["refused"]
    if refused.null_count < len(found):
        first = pc.indices_nonzero(pc.is_valid(refused))[0].as_py()
        raise UnsupportedTable(
            f"Data file {found['path'][first]} {refused[first]}.",
            hint="read the table with Spark's own Iceberg reader.",
        )
    return found


def file_batch(found: pa.RecordBatch, chosen: list[Chosen]) -> pa.RecordBatch:
    """Return the files as a batch with the schema :data:`splitlib.model.FILE_SCHEMA`."""
    owner = np.concatenate([c.partition for c in chosen])
    unknown = np.zeros(len(owner), np.int64)
    columns = [found["path"], found["size"], pa.array(unknown), pa.array(owner)]
    return pa.RecordBatch.from_arrays(columns, schema=FILE_SCHEMA)


def statistics_of(
    columns: list[Column], spec: Spec, partitions: PartitionBatch, chosen: list[Chosen]
) -> dict[str, ColumnStatistics]:
    """Return the statistics of some columns by column name, with one row per file.

    Statistics of a partition key are derived from the partition values. Statistics of other columns
    come from the manifests.
    """
    found = {}
    owner = pa.array(np.concatenate([c.partition for c in chosen]))
    for column in columns:
        key = spec.identities.get(column.name.lower())
        if key is not None:
            found[column.name] = _constant(partitions.values[key].take(owner))
        else:
            found[column.name] = ColumnStatistics.concatenated(
                [_statistics(c, column).take(pa.array(c.rows)) for c in chosen]
            )
    return found


def apply_deletes(
    index: DeleteIndex, spec: Spec, chosen: list[Chosen], files: pa.RecordBatch
) -> tuple[pa.Array | None, tuple[tuple[DeleteFile, ...], ...]]:
    """Find the delete files of each data file.

    Returns:
        An array, and a tuple of all distinct sets of delete files. The array has the index of each
        data file's set in this tuple, or null for a file without deletes. If no file has deletes,
        the result is None and an empty tuple.
    """
    if not index:
        return None, ()
    keys = []
    for c in chosen:
        used, position = np.unique(c.contents.partition_of[c.rows], return_inverse=True)
        values = [key_values(column.take(pa.array(used))) for column in c.contents.partitions]
        of_used = [partition_key(spec, row) for row in zip(*values, strict=True)]
        of_used = of_used or [partition_key(spec, ())]
        keys += [of_used[i] for i in position.tolist()]
    sets: dict[tuple[DeleteFile, ...], int] = {}
    applied = []
    paths, sequences = files["path"].to_pylist(), files["sequence"].to_pylist()
    for path, sequence, key in zip(paths, sequences, keys, strict=True):
        deletes = index.of(path, sequence, key)
        applied.append(sets.setdefault(deletes, len(sets)) if deletes else None)
    return (pa.array(applied, pa.int64()), tuple(sets)) if sets else (None, ())


def _statistics(chosen: Chosen, column: Column) -> ColumnStatistics:
    assert chosen.contents.statistics is not None
    return chosen.contents.statistics.of(column)


def _constant(values: pa.Array) -> ColumnStatistics:
    """Return the statistics of a column that has the same value in all rows of each file.

    Args:
        values: One value per file.
    """
    null = pc.is_null(values)
    if not pa.types.is_floating(values.type):
        return ColumnStatistics(values, values, null, pa.repeat(False, len(null)), pc.invert(null))
    nan = pc.fill_null(pc.is_nan(values), False)
    plain = pc.if_else(nan, pa.scalar(None, values.type), values)
    return ColumnStatistics(plain, plain, null, nan, pc.is_valid(plain))
