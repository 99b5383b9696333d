"""The rows of a dataset in Polars and DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import dataset as ds

from splitlib.errors import ConnectorNotInstalled

if TYPE_CHECKING:
    import duckdb
    import polars as pl

# DuckDB does not push conditions below a limit, but columns.
_ALL_ROWS = 2**63 - 1


def lazy_frame(dataset: ds.Dataset) -> pl.LazyFrame:
    """Return a lazy frame of the rows, which reads only the columns of a query.

    Polars itself evaluates the conditions of a query. As conditions of Arrow, they would lose rows:
    for Polars, NaN equals NaN and is greater than all numbers, for Arrow it is not.
    """
    try:
        import polars as pl
        from polars.io.plugins import register_io_source
    except ImportError as error:
        raise ConnectorNotInstalled(
            "to_polars needs Polars.", hint="pip install 'splitlib[polars]'"
        ) from error

    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        more = {} if batch_size is None else {"batch_size": batch_size}
        left = n_rows
        for batch in dataset.to_batches(columns=with_columns or None, **more):
            frame = _frame(pl, batch if left is None else batch[:left], with_columns)
            left = None if left is None else max(0, left - batch.num_rows)
            yield frame if predicate is None else frame.filter(predicate)
            if left == 0:
                return

    empty = pl.from_arrow(dataset.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return register_io_source(frames, schema=empty.schema)


def _frame(pl: Any, batch: pa.RecordBatch, columns: list[str] | None) -> Any:
    frame = pl.from_arrow(pa.Table.from_batches([batch]))
    return frame if columns is None else frame.select(columns)


def relation(
    dataset: ds.Dataset, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyRelation:
    """Return a relation of DuckDB with the rows, which reads only the columns of a query.

    DuckDB itself evaluates the conditions and joins of a query. As conditions of Arrow, they would
    lose rows with NaN (DuckDB 1.5: ``v > 1``), and a Bloom filter of a join would raise an error.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConnectorNotInstalled(
            "to_duckdb needs DuckDB.", hint="pip install 'splitlib[duckdb]'"
        ) from error
    used = duckdb.connect() if connection is None else connection
    return used.from_arrow(_ForDuckDB(dataset)).limit(_ALL_ROWS)


class _ForDuckDB(ds.InMemoryDataset):  # type: ignore[misc] # pyarrow has no types
    """A dataset whose scans never block a thread that holds Python's global lock.

    DuckDB calls ``to_reader`` of a scanner. PyArrow's own starts the scan with the global lock held
    (PyArrow 26), and may wait there for a thread that needs the lock to open a file.
    """

    def __init__(self, source: ds.Dataset) -> None:
        super().__init__([], source.schema)
        self._source = source

    def scanner(self, **options: Any) -> _Scan:
        return _Scan(self._source.scanner(**options))


@dataclass(frozen=True)
class _Scan:
    _scanner: ds.Scanner

    def to_reader(self) -> pa.RecordBatchReader:
        schema, batches = self._scanner.projected_schema, self._scanner.to_batches()
        return pa.RecordBatchReader.from_batches(schema, batches)
