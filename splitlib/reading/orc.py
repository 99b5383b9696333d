"""Read the rows of an ORC file that belong to a split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import orc

from splitlib.errors import UnsupportedTable
from splitlib.model import FileSplit
from splitlib.reading.columns import NATIVE, fit, found_columns


def read_orc(
    file: pa.NativeFile, split: FileSplit, fields: Sequence[pa.Field], batch_rows: int
) -> Iterator[tuple[int, dict[str, pa.Array]]]:
    """Yield the number of rows and the columns of ``fields`` in the file, batch by batch.

    pyarrow does not expose the positions of stripes. They are assumed to be spread evenly over the
    file, so each stripe belongs to exactly one of the splits that cover the file.

    Raises:
        UnsupportedTable: for timestamps, whose instants depend on the time zone of Spark's JVM,
            and for types that :func:`splitlib.reading.columns.fit` cannot convert.
    """
    reader = orc.ORCFile(file)
    stored = reader.schema
    if stored.names and all(name.startswith("_col") for name in stored.names):
        raise UnsupportedTable(
            "The ORC file of an old version of Hive has no column names.", hint=NATIVE
        )
    found = found_columns(stored.names, [field.name for field in fields])
    wanted = {field.name: field.type for field in fields if field.name in found}
    for name, kind in wanted.items():
        _refuse_inexact(name, stored.field(found[name]).type, kind)
    for stripe in range(reader.nstripes):
        middle = (2 * stripe + 1) * split.file_size // (2 * reader.nstripes)
        if not split.start <= middle < split.start + split.length:
            continue
        # pyarrow returns no row count without any column.
        names = list(found.values()) or stored.names[:1]
        for batch in pa.table(reader.read_stripe(stripe, names)).to_batches(batch_rows):
            # The writer's calendar is recorded in the file, but pyarrow does not expose it.
            columns = {
                name: fit(batch.column(found[name]), kind, hybrid_calendar=True)
                for name, kind in wanted.items()
            }
            yield batch.num_rows, columns


def _refuse_inexact(name: str, stored: pa.DataType, kind: pa.DataType) -> None:
    if "timestamp" in f"{stored} {kind}":
        raise UnsupportedTable(
            f"Column {name!r} holds ORC timestamps, whose time zone is unknown.", hint=NATIVE
        )
    if not pa.types.is_nested(kind) and stored != kind:
        # ORC readers convert between almost any two types, by rules of their own.
        widened = pa.types.is_integer(stored) and pa.types.is_integer(kind)
        if not (widened and stored.bit_width <= kind.bit_width):
            raise UnsupportedTable(
                f"Column {name!r} has type {stored} in the ORC file, not {kind}.", hint=NATIVE
            )
