"""Collect the files of many listings that one scan can read."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.model import FILE_SCHEMA


@dataclass(slots=True)
class FileGroup:
    """The files of one scan, with the partition values of their rows."""

    _files: list[pa.Table] = field(default_factory=list)
    _values: list[pa.Table] = field(default_factory=list)
    _partitions: int = 0

    def add(self, files: pa.RecordBatch, values: pa.RecordBatch) -> None:
        """Add files whose ``partition`` is a row of ``values``.

        Without columns in ``values``, all files of the group share one partition.
        """
        used = pc.unique(files["partition"])
        if values.num_columns:
            row = pc.index_in(files["partition"], value_set=used).cast(pa.int64())
            row = pc.add(row, self._partitions)
            self._partitions += len(used)
            self._values.append(pa.table(values.take(used)))
        else:
            row = pa.repeat(pa.scalar(0, pa.int64()), len(files))
        self._files.append(pa.table([*files.columns[:3], row], schema=FILE_SCHEMA))

    def files(self) -> pa.Table:
        """Return all files. Their ``partition`` is a row of :meth:`values`."""
        return pa.concat_tables([FILE_SCHEMA.empty_table(), *self._files])

    def values(self, none: pa.Table) -> pa.Table:
        """Return one row per partition in use, or ``none`` if there are no partitions."""
        return pa.concat_tables(self._values) if self._values else none
