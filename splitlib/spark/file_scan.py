"""The input of a scan over explicit files, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import UnsupportedTable
from splitlib.model import FILE_SCHEMA
from splitlib.storage import located

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from splitlib.table import Table

# Options that tell Spark which files to look for. Here the files are known, and tables written by
# Spark carry a `path` among their storage properties.
_LISTING_OPTIONS: Final = frozenset(
    name.lower()
    for name in (
        "path",
        "paths",
        "basePath",
        "recursiveFileLookup",
        "pathGlobFilter",
        "modifiedBefore",
        "modifiedAfter",
        "__globPaths__",
    )
)

FILE_ITSELF: Final = "binaryFile"
"""The format of which a file is one row, which tells of the file itself."""

# fsspec's names of the storages that a scan may reach otherwise than its session.
_OWN_STORAGES: Final = ("s3", "abfss")

HADOOP_SPELLING: Final = ((r"^(file:)?/+", "file:/"), (r"([^:/])/{2,}", "$1/"))
"""Patterns and what replaces them, one after the other; as Java writes it, ``$1`` is a group."""

# What Spark's readers take for a marker rather than data, and leave out without a word.
_SKIPPED_NAME: Final = r"/(\.[^/]*|_[^/=]*|[^/]*\._COPYING_)$"


@dataclass(frozen=True, slots=True)
class FileScan:
    """Exactly the files to read, each with the partition whose values its rows get.

    A file may belong to several partitions: its rows then come once for each. Empty files are left
    out, and paths are rewritten to the one spelling that Hadoop has for them.

    Raises:
        UnsupportedTable: if a data column has the name of a key, or differs from it in case only.
        ValueError: if the parts contradict each other, a file is named twice for one partition, or
            Spark would skip a file because of its name.
    """

    format: str
    """Spark's short name: ``parquet``, ``orc``, ``json``, ``csv``, ``text``, …"""
    options: Mapping[str, str]
    """Options of the data source; those that select files are left out."""
    data_schema: StructType
    """Columns in the files. Field metadata goes to Spark as it is: char padding, defaults."""
    partition_schema: StructType
    """Partition columns, without fields when the table is not partitioned."""
    partitions: pa.Table
    """One row a partition, one column a key: text as in a Hive directory name (unescaped, null for
    the null partition), or values of the key's type. No columns: one implicit partition, row 0."""
    files: pa.Table
    """Columns of ``FILE_SCHEMA``: path as Hadoop spells it (not URI-encoded; without a scheme it is
    local), exact size in bytes, modification time in epoch milliseconds, row of ``partitions``."""
    by_field_id: bool = False
    """Whether columns are found by the identifiers in their metadata; see
    :func:`splitlib.spark.scan.files.why_no_field_ids`."""
    row_index: str | None = None
    """Name of a further, last column: where in its file each row lies, from 0. Parquet only."""
    storage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Options of fsspec's filesystems with which files are reached, as of :func:`own_storage`."""

    def __post_init__(self) -> None:
        options = {k: v for k, v in self.options.items() if k.lower() not in _LISTING_OPTIONS}
        object.__setattr__(self, "options", options)
        _check_columns(self.data_schema, self.partition_schema, self.partitions)
        files = self.files.select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
        files = files.set_column(0, FILE_SCHEMA.field("path"), canonical_paths(files["path"]))
        _check_files(files, self.partitions.num_rows if self.partition_schema.fields else 1)
        object.__setattr__(self, "files", files.filter(pc.greater(files["size"], 0)))


def own_storage(table: Table) -> dict[str, Mapping[str, Any]]:
    """Options with which a table's files are reached, by fsspec's protocol.

    Of a protocol without any, files are reached as the session does it.
    """
    found = {protocol: table.storage_options(protocol) for protocol in _OWN_STORAGES}
    return {protocol: options for protocol, options in found.items() if options}


def foreign_storage(table: Table) -> str | None:
    """The scheme of a table that is reached with options, of which no scan takes any; None = none.

    Hadoop's clients of Google take neither a token nor the text of a key, and no scheme but ``gs``.
    """
    place = located(table.metadata.location or "/")
    own = (*_OWN_STORAGES, "file")
    is_foreign = place.protocol not in own and table.storage_options(place.protocol)
    return place.protocol if is_foreign else None


def canonical_paths(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Paths as Hadoop's ``Path`` spells them: one file is one text, and no scheme means local."""
    for pattern, replacement in HADOOP_SPELLING:
        paths = pc.replace_substring_regex(paths, pattern, replacement.replace("$", "\\"))
    return paths


def _check_columns(data: StructType, keys: StructType, partitions: pa.Table) -> None:
    if partitions.column_names != keys.names:
        msg = f"Partition columns {partitions.column_names} are not the keys {keys.names}"
        raise ValueError(msg)
    # Spark would move such a column to its place among the data columns.
    if both := {name.lower() for name in data.names} & {name.lower() for name in keys.names}:
        raise UnsupportedTable(
            f"Columns {sorted(both)} are both in the data schema and partition keys.",
            hint="also where case counts, columns are to differ in more than case.",
        )


def _check_files(files: pa.Table, partitions: int) -> None:
    def refuse(bad: pa.ChunkedArray, why: str) -> None:
        if pc.any(bad).as_py():
            first = files.filter(bad).slice(0, 1).to_pylist()[0]
            raise ValueError(f"{why}: {first}")

    row = files["partition"]
    refuse(
        pc.or_(pc.less(row, 0), pc.greater_equal(row, partitions)),
        f"A file's partition is not among the {partitions} given",
    )
    refuse(pc.less(files["size"], 0), "A file's size is negative")
    refuse(
        pc.invert(pc.match_substring_regex(files["path"], r"^[A-Za-z][A-Za-z0-9+.-]*:/")),
        "A file's path is not absolute",
    )
    refuse(
        pc.match_substring_regex(files["path"], r"/(\.{1,2}/|\.{0,2}$)"),
        "A file's path is not normal",
    )
    refuse(
        pc.match_substring_regex(files["path"], _SKIPPED_NAME),
        "Spark skips a file of this name",
    )
    pairs = files.group_by(["path", "partition"]).aggregate([([], "count_all")])
    if pairs.num_rows < files.num_rows:
        twice = pairs.filter(pc.greater(pairs["count_all"], 1)).slice(0, 1).to_pylist()[0]
        raise ValueError(f"A file is given more than once for one partition: {twice}")
