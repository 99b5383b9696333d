"""``ReadableTable``, an open table that returns its partitions, files and rows.

Its public name is ``splitlib.Table``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from splitlib import page
from splitlib.arrow.values import shown
from splitlib.config import SplitConfig
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.errors import UnsupportedTable
from splitlib.filtering.data import DynamicFilteringData
from splitlib.hive.partition_values import name_of, parse_exactly, table_fields
from splitlib.model import PartitionBatch
from splitlib.redaction import redact, redact_path
from splitlib.table import Table
from splitlib.telemetry import reported

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow.dataset as ds


class ReadableTable(Table):
    """One open table. Its partitions, files and rows can be read without Spark.

    Methods that take ``filters`` combine them with AND. :meth:`partitions` and :meth:`files` may
    return partitions and files without matching rows, because they check only partition values and
    statistics. The other methods return exactly the matching rows. A row matches if, for every
    filter, its values are among the filter's keys or in its ranges. Null equals null; for a join by
    ``=``, pass ``data.without_nulls()``.
    """

    def partitions(
        self, *filters: DynamicFilteringData, config: SplitConfig | None = None
    ) -> pa.Table:
        """List the partitions that may have matching rows, including those without files.

        Returns:
            One row per partition: its name in column ``partition``, such as ``k=1/s=a`` (empty for
            an unpartitioned table), and its typed values in the struct ``values``.

        Raises:
            UnsupportedTable: if the text of a partition value is ambiguous in the key's type.
            SplitlibError: see :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
        """
        enumerator = DynamicFileEnumerator(self, self.settings(config), filters=filters)
        found = []
        with enumerator.progress():
            if not enumerator.predicate.matches_nothing:
                for batch, mask in enumerator.match_partitions():
                    found.append(_named(self, batch, pc.indices_nonzero(mask)))
        return _joined(found, {"partition": pa.string(), "values": _struct(self)})

    def files(self, *filters: DynamicFilteringData, config: SplitConfig | None = None) -> pa.Table:
        """List the data files that may have matching rows, without empty files.

        Returns:
            One row per file: ``path``, ``size`` in bytes, ``modified`` (null means unknown),
            ``format``, ``delete_files`` (number of delete files that apply to it), and
            ``partition`` and ``values`` as in :meth:`partitions`.

        Raises:
            UnsupportedTable: if the text of a partition value is ambiguous in the key's type.
            SplitlibError: see :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
        """
        enumerator = DynamicFileEnumerator(self, self.settings(config), filters=filters)
        found = []
        with enumerator.progress():
            for selected in enumerator.select_files():
                files = selected.files
                rows = files.files["partition"]
                used = pc.unique(rows)
                of_each = _named(self, selected.partitions, used)
                at = pc.index_in(rows, value_set=used)
                paths = [redact_path(path) for path in files.files["path"].to_pylist()]
                modified = files.files["modified"]
                modified = pc.if_else(pc.equal(modified, 0), None, modified)
                deletes = [len(of_file) for of_file in files.deletes_of_each()]
                columns = {
                    "path": pa.array(paths, pa.string()),
                    "size": files.files["size"],
                    "modified": modified.cast(pa.timestamp("ms", "UTC")),
                    "format": pa.array([files.read_format.name] * len(files), pa.string()),
                    "delete_files": pa.array(deletes, pa.int64()),
                    **{name: of_each[name].take(at) for name in of_each.column_names},
                }
                found.append(pa.table(columns))
            reported(enumerator.explain)
        kinds = {
            "path": pa.string(),
            "size": pa.int64(),
            "modified": pa.timestamp("ms", "UTC"),
            "format": pa.string(),
            "delete_files": pa.int64(),
            "partition": pa.string(),
            "values": _struct(self),
        }
        return _joined(found, kinds)

    def to_arrow_dataset(
        self, *filters: DynamicFilteringData, config: SplitConfig | None = None
    ) -> ds.Dataset:
        """Return the matching rows as a pyarrow dataset, with the columns of :attr:`schema`.

        This method lists the files and reads Parquet footers, to leave out row groups without
        matching rows. Rows are read later, when the dataset is scanned. Arrow itself reads most
        Parquet files. Other files are converted when they are opened, with all columns: ORC files,
        files with deleted rows (by position or vector), and files whose columns have another name
        or case, or a type that Arrow would cast differently.

        Do not call ``to_reader`` of the dataset's scanners, which may block forever (PyArrow 26).
        DuckDB calls it, so use :meth:`to_duckdb` for DuckDB.

        Raises:
            InvalidFilter: if a filter cannot be compared with the columns exactly.
            UnsupportedTable: if rows might differ from those that Spark reads, such as in text
                files, files with equality deletes, and files older than a column with a default.
            SplitlibError: see :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`. Scans raise
                FileChanged or MissingFile if a file has changed or is missing.
        """
        from splitlib.rows.dataset import DatasetMaker

        settings = self.settings(config)
        # A filter may also be a dict.
        given = [self.in_its_time_zone(DynamicFilteringData.of(data)) for data in filters]
        return DatasetMaker(self, given, settings, partial(self._checked, settings)).make()

    def to_polars(
        self, *filters: DynamicFilteringData, config: SplitConfig | None = None
    ) -> pl.LazyFrame:
        """Return the matching rows as a Polars lazy frame.

        A query reads only the columns that it uses. Its conditions do not skip files or row groups,
        so pass keys and ranges as ``filters``.

        Raises:
            ConnectorNotInstalled: if Polars is missing; install the extra ``polars``.
            SplitlibError: see :meth:`to_arrow_dataset`.
        """
        from splitlib.rows.dataset import lazy_frame

        return lazy_frame(self.to_arrow_dataset(*filters, config=config))

    def to_duckdb(
        self,
        *filters: DynamicFilteringData,
        connection: duckdb.DuckDBPyConnection | None = None,
        config: SplitConfig | None = None,
    ) -> duckdb.DuckDBPyRelation:
        """Return the matching rows as a DuckDB relation, to query or to register as a view.

        A query reads only the columns that it uses. Its conditions do not skip files or row groups,
        so pass keys and ranges as ``filters``. Conditions are not passed to Arrow, because DuckDB
        1.5 would then lose rows with NaN, and raise an error for a join's Bloom filter.

        Args:
            filters: Filters on the rows, combined with AND.
            connection: DuckDB connection to use; by default a new one, in memory. Only relations
                of the same connection can be joined.
            config: Settings; by default those of the table.

        Raises:
            ConnectorNotInstalled: if DuckDB is missing; install the extra ``duckdb``.
            SplitlibError: see :meth:`to_arrow_dataset`.
        """
        from splitlib.rows.dataset import relation

        return relation(self.to_arrow_dataset(*filters, config=config), connection)

    def _repr_html_(self) -> str:
        """Return the table's columns as HTML, for notebooks. This lists no partitions or files."""
        rows = [
            (column.name, str(column.type), "partition key" * (column.name in self.partition_keys))
            for column in self.schema
        ]
        columns = page.table(("column", "type", ""), rows)
        return page.widget(page.section(f"{self.connector_name}: {redact(self.name)}", columns))

    @contextmanager
    def _checked(self, config: SplitConfig) -> Iterator[None]:
        """In the ``with`` block, allow only ``allowed_locations``, and name the table in errors."""
        with self._context(), self._only_allowed(config):
            yield


def _named(table: Table, batch: PartitionBatch, rows: pa.Array) -> pa.Table:
    """Return the names and typed values of the partitions at the indexes ``rows``, as a table."""
    kept = batch.take(rows)
    names = [name_of(kept, row) for row in range(len(kept))]
    fields = table_fields(kept.values.schema, kept.fields, table.metadata.filter_schema)
    columns = []
    for field, column in zip(fields, kept.values.columns, strict=True):
        typed = parse_exactly(column, field)
        if typed.undecided is not None:
            text = shown(column.filter(typed.undecided)[0])
            raise UnsupportedTable(
                f"Partition value {text!r} of {field.name!r} is ambiguous as {field.type}.",
                connector=table.connector_name,
                table=table.name,
            )
        columns.append(typed.values)
    plain = [pa.field(f.name, column.type) for f, column in zip(fields, columns, strict=True)]
    if columns:
        values = pa.StructArray.from_arrays(columns, fields=plain)
    else:
        values = pa.array([{}] * len(kept), pa.struct([]))
    return pa.table({"partition": pa.array(names, pa.string()), "values": values})


def _struct(table: Table) -> pa.DataType:
    return pa.struct([field.remove_metadata() for field in table.metadata.partition_schema])


def _joined(found: Iterable[pa.Table], kinds: dict[str, pa.DataType]) -> pa.Table:
    found = [one for one in found if len(one)]
    if not found:
        return pa.schema(list(kinds.items())).empty_table()
    values = pa.unify_schemas([pa.schema(list(one.schema.field("values").type)) for one in found])
    return pa.concat_tables([_with_all(one, values) for one in found])


def _with_all(found: pa.Table, fields: pa.Schema) -> pa.Table:
    """Add nulls for the partition values that an older partition spec does not have."""
    place = found.schema.get_field_index("values")
    kind = found.schema.field(place).type
    if kind == pa.struct(list(fields)):
        return found
    column = found.column(place).combine_chunks()
    arrays = [
        column.field(field.name)
        if kind.get_field_index(field.name) >= 0
        else pa.nulls(len(column), field.type)
        for field in fields
    ]
    values = pa.StructArray.from_arrays(arrays, fields=list(fields))
    return found.set_column(place, "values", values)
