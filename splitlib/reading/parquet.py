"""Read the rows of a Parquet file that belong to a split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyarrow import parquet as pq

from splitlib.errors import UnsupportedTable
from splitlib.model import FileSplit
from splitlib.reading.columns import NATIVE, fit, found_columns
from splitlib.reading.row_groups import RowGroupFilter, belongs


def read_parquet(
    file: pa.NativeFile,
    split: FileSplit,
    fields: Sequence[pa.Field],
    row_groups: RowGroupFilter | None,
    batch_rows: int,
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield the number of rows and the columns of ``fields`` in the file, batch by batch.

    Raises:
        UnsupportedTable: see :func:`splitlib.reading.columns.fit`.
    """
    # INT96 timestamps may be outside of the range of 64-bit nanoseconds.
    parquet = pq.ParquetFile(file, pre_buffer=True, coerce_int96_timestamp_unit="us")
    to_table = partial(fit, hybrid_calendar=_has_hybrid_calendar(parquet.metadata))
    groups = [g for g in range(parquet.num_row_groups) if belongs(parquet.metadata, g, split)]
    if row_groups:
        groups = row_groups.keeps(parquet, groups, to_table)
    found = found_columns(parquet.schema_arrow.names, [field.name for field in fields])
    wanted = {field.name: field.type for field in fields if field.name in found}
    _refuse_int96_without_zone(parquet, wanted, found)
    if not wanted:
        for group in groups:
            yield parquet.metadata.row_group(group).num_rows, {}
    elif groups:
        for batch in parquet.iter_batches(
            batch_rows, row_groups=groups, columns=list(found.values()), use_threads=False
        ):
            columns = {n: to_table(batch.column(found[n]), kind) for n, kind in wanted.items()}
            yield batch.num_rows, columns


def _has_hybrid_calendar(metadata: pq.FileMetaData) -> bool:
    """Return whether Spark would read days before October 1582 as dates of the Julian calendar.

    Spark decides this by its own metadata, and by default reads other writers' files unchanged.
    """
    own = metadata.metadata or {}
    version = own.get(b"org.apache.spark.version")
    return (
        (version is not None and version < b"3.1.0")
        or b"org.apache.spark.legacyDateTime" in own
        or b"org.apache.spark.legacyINT96" in own
    )


def _refuse_int96_without_zone(
    parquet: pq.ParquetFile, wanted: dict[str, pa.DataType], found: dict[str, str]
) -> None:
    """Reject INT96 columns read as local times: Spark reads them only as instants."""
    columns = [parquet.schema.column(i) for i in range(len(parquet.schema))]
    instants = {c.path.partition(".")[0] for c in columns if c.physical_type == "INT96"}
    for name, kind in wanted.items():
        if found[name] in instants and "timestamp[us]" in str(kind):
            raise UnsupportedTable(f"INT96 column {name!r} cannot be read as {kind}.", hint=NATIVE)
