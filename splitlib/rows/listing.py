"""The partitions and files of a table as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.pipeline import name_of
from splitlib.errors import UnsupportedTable
from splitlib.hive.partition_values import parse, table_fields
from splitlib.model import PartitionBatch
from splitlib.redaction import redact
from splitlib.table import Table


def partitions_of(enumerator: DynamicFileEnumerator) -> pa.Table:
    """Return the matching partitions; see :meth:`splitlib.rows.table.ReadableTable.partitions`."""
    found = []
    if not enumerator.predicate.matches_nothing:
        for batch, mask in enumerator.match_partitions():
            found.append(_named(enumerator.table, batch, pc.indices_nonzero(mask)))
    return _joined(found, {"partition": pa.string(), "values": _struct(enumerator.table)})


def files_of(enumerator: DynamicFileEnumerator) -> pa.Table:
    """Return the matching files; see :meth:`splitlib.rows.table.ReadableTable.files`."""
    found = []
    for selected in enumerator.select_files():
        files = selected.files
        rows = files.files["partition"]
        used = pc.unique(rows)
        of_each = _named(enumerator.table, selected.partitions, used)
        at = pc.index_in(rows, value_set=used)
        paths = [redact(path) for path in files.files["path"].to_pylist()]
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
    kinds = {
        "path": pa.string(),
        "size": pa.int64(),
        "modified": pa.timestamp("ms", "UTC"),
        "format": pa.string(),
        "delete_files": pa.int64(),
        "partition": pa.string(),
        "values": _struct(enumerator.table),
    }
    return _joined(found, kinds)


def _named(table: Table, batch: PartitionBatch, rows: pa.Array) -> pa.Table:
    """Return names and typed values of some partitions.

    Raises:
        UnsupportedTable: for text that may not be a value of the key's type.
    """
    kept = batch.take(rows)
    names = [name_of(kept, row) for row in range(len(kept))]
    fields = table_fields(kept.values.schema, kept.fields, table.metadata.filter_schema)
    columns = []
    for field, column in zip(fields, kept.values.columns, strict=True):
        typed = parse(column, field)
        if typed.undecided is not None:
            text = column.filter(typed.undecided)[0].as_py()
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
    return pa.concat_tables(found)
