"""Return a table's matching rows as a pyarrow dataset, Polars lazy frame or DuckDB relation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset as ds
from pyarrow import parquet as pq

from splitlib.arrow import parquet_footer
from splitlib.arrow.values import shown
from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.splitting import SelectedFiles, SplitsOfFile
from splitlib.errors import ConfigError, ConnectorNotInstalled, UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.hive.partition_values import is_char, parse_exactly, table_fields
from splitlib.model import DeleteFile, FileSplit, PartitionBatch
from splitlib.reading.columns import NATIVE, ByFieldId, Find, by_name, fit, have_same_names, padded
from splitlib.reading.formats import RowGroupFilter, has_hybrid_calendar
from splitlib.reading.reader import (
    naming,
    open_with_time,
    refuse_missing,
    refuse_missing_inside,
    refuse_unreadable,
)
from splitlib.remote.calls import BoundedCalls
from splitlib.remote.retry import source_call
from splitlib.rows.converted import Converted, ConvertedFiles, Deleted, condition_of
from splitlib.storage import OptionsByProtocol, Storage, located
from splitlib.table import Table
from splitlib.telemetry import reported

if TYPE_CHECKING:
    import duckdb
    import polars as pl


# A row limit that keeps all rows. If a relation has a limit, DuckDB passes column selections to
# Arrow, but evaluates all conditions itself.
_ALL_ROWS = 2**63 - 1


def lazy_frame(dataset: ds.Dataset) -> pl.LazyFrame:
    """Return a Polars lazy frame of the dataset. It reads only the columns that a query uses.

    Polars itself evaluates a query's conditions. If Arrow evaluated them, rows would be lost: in
    Polars, NaN equals NaN and is greater than all numbers, but not in Arrow.
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
        if with_columns == []:  # The query needs only the number of rows.
            with_columns = dataset.schema.names[-1:]
        left = n_rows
        for batch in dataset.to_batches(columns=with_columns, **more):
            table = pa.Table.from_batches([batch if left is None else batch[:left]])
            frame: Any = pl.from_arrow(table)
            frame = frame if with_columns is None else frame.select(with_columns)
            left = None if left is None else max(0, left - batch.num_rows)
            yield frame if predicate is None else frame.filter(predicate)
            if left == 0:
                return

    empty = pl.from_arrow(dataset.schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return register_io_source(frames, schema=empty.schema)


def relation(
    dataset: ds.Dataset, connection: duckdb.DuckDBPyConnection | None
) -> duckdb.DuckDBPyRelation:
    """Return a DuckDB relation of the dataset. It reads only the columns that a query uses.

    DuckDB itself evaluates a query's conditions and joins. If Arrow evaluated the conditions, rows
    with NaN would be lost (DuckDB 1.5: ``v > 1``), and a join's Bloom filter would raise an error.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConnectorNotInstalled(
            "to_duckdb needs DuckDB.", hint="pip install 'splitlib[duckdb]'"
        ) from error
    used = duckdb.connect() if connection is None else connection
    if not hasattr(used, "from_arrow"):
        raise ConfigError(
            f"connection is a {type(used).__name__}, not a DuckDB connection.",
            hint="pass connection=duckdb.connect(…).",
        )
    return used.from_arrow(_ForDuckDB(dataset)).limit(_ALL_ROWS)


class _ForDuckDB(ds.InMemoryDataset):  # type: ignore[misc] # pyarrow has no types
    """A dataset whose scans never block a thread that holds Python's global interpreter lock.

    DuckDB calls a scanner's ``to_reader``. PyArrow's own ``to_reader`` holds the lock when it
    starts the scan (PyArrow 26). Then it may wait forever for a thread that needs the lock to open
    a file.
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


T = TypeVar("T")

# Pairs of stored type and target type for which Arrow's cast does not change values.
_WIDER = {
    (pa.float32(), pa.float64()),
    (pa.large_string(), pa.string()),
    (pa.large_binary(), pa.binary()),
}


@dataclass(frozen=True)
class _File:
    """A selected data file, with its splits and partition values."""

    splits: tuple[FileSplit, ...]
    """The file's splits. None of them is empty."""
    constants: Mapping[str, pa.Scalar]
    """Values by column name, for the columns that are constant within the partition."""
    constant_fields: tuple[str, ...]
    """Names of the struct fields that are constant within the partition, such as ``s.a``."""
    deleted: Deleted | None

    @property
    def whole(self) -> FileSplit:
        """The whole file as one split, without partition values."""
        first = self.splits[0]
        return replace(first, start=0, length=first.file_size, partition_values={})


class DatasetMaker:
    """Creates a dataset of the table rows that match filters.

    Args:
        table: The table.
        filters: The filters. A row matches if it matches all of them.
        config: Settings.
        checked: Function that returns a context manager. In its block, only allowed locations can
            be opened, and errors name the table.
    """

    def __init__(
        self,
        table: Table,
        filters: Sequence[DynamicFilteringData],
        config: SplitConfig,
        checked: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._table = table
        self._config = config
        self._checked = checked
        self._schema: pa.Schema = table.schema
        with checked():
            _refuse_same_names(self._schema)
            self._condition = condition_of(filters, table.metadata)
        self._filters = filters
        self._row_groups = RowGroupFilter(self._schema, filters)
        # Files with these columns are converted, because Arrow would read other rows than Spark: it
        # does not pad CHAR values, and skips row groups by bounds of floats, which exclude NaN.
        tested = {name.lower() for data in filters for name in data.fields}
        self._converted_columns = {
            field.name
            for field in self._schema
            if is_char(field) or (pa.types.is_floating(field.type) and field.name.lower() in tested)
        }
        self._tested_decimals = {
            field.name
            for field in self._schema
            if pa.types.is_decimal(field.type) and field.name.lower() in tested
        }
        self._format = ds.ParquetFileFormat()

    def make(self) -> ds.Dataset:
        """List the files, read the footers of Parquet files, and return the dataset.

        Raises:
            SplitlibError: see :meth:`splitlib.rows.table.ReadableTable.to_arrow_dataset`.
        """
        enumerator = DynamicFileEnumerator(self._table, self._config, filters=self._filters)
        with enumerator.progress():
            found = list(self._files(enumerator))
        storage = _storage(self._table, found)
        files = ConvertedFiles(storage, self._checked)
        filesystem = files.filesystem  # keep it, so that all fragments get the same object
        with BoundedCalls(self._config, Future()) as calls:
            tasks = [
                calls.submit(partial(self._call, partial(self._fragments, file, storage, files)))
                for file in found
            ]
            fragments = [fragment for task in tasks for fragment in calls.result(task)]
        schema = pa.schema([field.remove_metadata() for field in self._schema])
        made = ds.FileSystemDataset(fragments, schema, self._format, filesystem)
        return made if self._condition is None else made.filter(self._condition)

    def _call(self, work: Callable[[], T]) -> T:
        def checked() -> T:
            with self._checked():
                return work()

        table = self._table
        return source_call(checked, self._config, connector=table.connector_name, table=table.name)

    def _files(self, enumerator: DynamicFileEnumerator) -> Iterator[_File]:
        maker = enumerator.split_maker()
        latest: PartitionBatch | None = None
        constants: dict[str, pa.Array] = {}
        for selected in enumerator.select_files():
            with self._checked():
                refuse_unreadable(selected.files.read_format, by_id=True)
                if selected.partitions is not latest:
                    latest = selected.partitions
                    constants = _constants(latest, self._schema)
                yield from self._files_of(selected, maker.splits_of(selected), constants)
        reported(enumerator.explain)

    def _files_of(
        self,
        selected: SelectedFiles,
        found: Iterable[SplitsOfFile],
        constants: Mapping[str, pa.Array],
    ) -> Iterator[_File]:
        rows = selected.files.files["partition"].to_pylist()
        columns = {name.lower() for name in self._schema.names}
        sources = [f.source for f in selected.partitions.fields if f.transform is None]
        inside = tuple(source for source in sources if source.lower() not in columns)
        for of_file, row in zip(found, rows, strict=True):
            values = {name: column[row] for name, column in constants.items()}
            splits = tuple(of_file.splits)
            if splits:  # a file without rows has none
                yield _File(splits, values, inside, self._deleted(of_file.path, splits[0].deletes))

    def _deleted(self, path: str, deletes: Sequence[DeleteFile]) -> Deleted | None:
        if not deletes:
            return None
        if any(delete.kind == "equality" for delete in deletes):
            raise UnsupportedTable(
                f"{path}: rows are deleted by their values (equality deletes), which Arrow cannot "
                "apply.",
                hint=NATIVE,
            )
        files = [delete for delete in deletes if delete.kind == "position"]
        if other := {delete.format for delete in files} - {"parquet"}:
            raise UnsupportedTable(
                f"Delete files of format {min(other)} cannot be read with Arrow.", hint=NATIVE
            )
        self._table.refuse_outside((file.path for file in files), self._config)
        vectors = [delete for delete in deletes if delete.kind == "vector"]
        positions = [self._table.read_vector(vector, self._config) for vector in vectors]
        return Deleted(path, tuple(files), tuple(positions))

    def _fragments(
        self, file: _File, storage: Storage, files: ConvertedFiles
    ) -> list[ds.FileFragment]:
        """Return a file's dataset fragments, or an empty list if no row group can match."""
        with naming(file.whole):
            if file.whole.read_format.name != "parquet":
                modified = file.whole.modified if self._config.verify_files else 0
                return self._converted(file, file.constants, files, modified)
            return self._fragments_of_parquet(file, storage, files)

    def _fragments_of_parquet(
        self, file: _File, storage: Storage, files: ConvertedFiles
    ) -> list[ds.FileFragment]:
        whole, constants = file.whole, file.constants
        find = _find(whole.read_format.columns)
        verify = self._config.verify_files
        opened, whole = open_with_time(whole, storage, verify=verify)
        with opened:
            footer = parquet_footer.read_footer(opened)
        metadata = footer.metadata
        stored = metadata.schema.to_arrow_schema()
        # As in Spark, partition values hold even if the file has a column of the same name.
        data = [field for field in self._schema if field.name not in constants]
        found = find(stored, data)
        refuse_missing(field for field in data if field.name not in found)
        refuse_missing_inside(file.constant_fields, self._schema, stored, find)
        groups = self._kept(footer, stored, find, constants)
        if not groups:
            return []
        is_exact = self._converted_columns.isdisjoint(found) and file.deleted is None
        # Arrow skips row groups by bounds of decimals even if the file does not declare their sort
        # order. Such bounds may be wrong, so the file is converted.
        tested = {found[name] for name in self._tested_decimals & found.keys()}
        is_exact = is_exact and all(
            ordered or metadata.schema.column(place).path not in tested
            for place, ordered in enumerate(footer.ordered)
        )
        is_exact = is_exact and all(
            have_same_names(stored.field(name), self._schema.field(column), find)
            for column, name in found.items()
        )
        if not is_exact or not _arrow_reads(pa.schema(data), stored, found, metadata):
            return self._converted(file, constants, files, whole.modified)
        path, guarantee = files.add(whole), _expression(constants)
        return [self._format.make_fragment(path, files.filesystem, guarantee, row_groups=groups)]

    def _converted(
        self,
        file: _File,
        constants: Mapping[str, pa.Scalar],
        files: ConvertedFiles,
        modified: int,
    ) -> list[ds.FileFragment]:
        """Return one fragment per split, for a file that :mod:`splitlib.reading` reads.

        The file must have the modification time ``modified`` when it is read; 0 means any time.
        """
        data = pa.schema([f for f in self._schema if f.name not in constants])
        find = _find(file.whole.read_format.columns)
        row_groups = self._row_groups.within(constants)
        guarantee, ipc = _expression(constants), ds.IpcFileFormat()
        parts = [
            Converted(split, data, find, row_groups, file.deleted)
            for split in (
                replace(each, partition_values={}, modified=modified) for each in file.splits
            )
        ]
        paths = [files.add_converted(part) for part in parts]
        return [ipc.make_fragment(path, files.filesystem, guarantee) for path in paths]

    def _kept(
        self,
        footer: parquet_footer.Footer,
        stored: pa.Schema,
        find: Find,
        constants: Mapping[str, pa.Scalar],
    ) -> list[int]:
        groups = list(range(footer.metadata.num_row_groups))
        if not self._row_groups:
            return groups
        to_table = partial(fit, hybrid_calendar=has_hybrid_calendar(footer.metadata))
        row_groups = self._row_groups.within(constants)
        return row_groups.keeps(footer, stored, groups, to_table, find)


def _find(columns: Any) -> Find:
    if columns == "name":
        return by_name
    return ByFieldId(None if columns == "id" else dict(columns))


def _constants(partitions: PartitionBatch, schema: pa.Schema) -> dict[str, pa.Array]:
    """Return the columns that are constant within each partition, as arrays by column name."""
    values = partitions.values
    fields = table_fields(values.schema, partitions.fields, schema)
    columns = {field.name.lower(): field for field in schema}
    sources = {f.name.lower(): f.source for f in partitions.fields if f.transform is None}
    found = {}
    for field, column in zip(fields, values.columns, strict=True):
        source = columns.get(sources.get(field.name.lower(), "").lower())
        if source is None:
            continue
        typed = parse_exactly(column, field)
        if typed.undecided is not None:
            text = shown(column.filter(typed.undecided)[0])
            raise UnsupportedTable(
                f"Partition value {text!r} of {source.name!r} is ambiguous as {source.type}.",
                hint=NATIVE,
            )
        found[source.name] = padded(typed.values.cast(source.type), source)
    return found


def _expression(constants: Mapping[str, pa.Scalar]) -> pc.Expression:
    """Return a fragment's constant columns as an Arrow partition expression."""
    conditions = [
        pc.field(name) == value if value.is_valid else pc.is_null(pc.field(name))
        for name, value in constants.items()
    ]
    return reduce(and_, conditions) if conditions else pc.scalar(True)


def _arrow_reads(
    schema: pa.Schema, stored: pa.Schema, found: Mapping[str, str], metadata: pq.FileMetaData
) -> bool:
    """Return whether Arrow's own reader returns the same values as :mod:`splitlib.reading`.

    Arrow finds each column of ``schema`` by name, and casts it to the type in ``schema``. It takes
    constant columns from the fragment's partition expression, even if the file has columns of these
    names.
    """
    if has_hybrid_calendar(metadata):
        return False
    read = {name for name in schema.names if name in stored.names}
    if read != set(found) or any(name != other for name, other in found.items()):
        return False
    return all(_same_values(stored.field(n).type, schema.field(n).type) for n in read)


def _same_values(stored: pa.DataType, target: pa.DataType) -> bool:
    """Return whether Arrow casts ``stored`` to ``target`` in the same way as Spark's reader."""
    if stored == target:
        return True
    if pa.types.is_signed_integer(stored) and pa.types.is_signed_integer(target):
        return bool(stored.bit_width <= target.bit_width)
    if pa.types.is_timestamp(stored) and pa.types.is_timestamp(target):
        return stored.unit == target.unit and bool(stored.tz) and bool(target.tz)
    return (stored, target) in _WIDER


def _refuse_same_names(schema: pa.Schema) -> None:
    names = [name.lower() for name in schema.names]
    if twice := [name for name in schema.names if names.count(name.lower()) > 1]:
        raise UnsupportedTable(f"The table has several columns named {twice[0]!r}.", hint=NATIVE)


def _storage(table: Table, files: Sequence[_File]) -> Storage:
    protocols = {located(file.splits[0].path).protocol for file in files}
    given = {protocol: table.storage_options(protocol) for protocol in sorted(protocols)}
    return Storage(OptionsByProtocol({p: options for p, options in given.items() if options}))
