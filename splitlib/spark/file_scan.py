"""``FileScan``: the validated description of a scan that reads a fixed list of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import UnsupportedTable
from splitlib.model import FILE_SCHEMA
from splitlib.redaction import redact_path
from splitlib.storage import located

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from splitlib.table import Table

# Options that select files are dropped, because the scan must read exactly the listed files. Tables
# written by Spark have such an option, `path`, among their storage properties.
_REPLACED_OPTIONS: Final = frozenset(
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
        "ignoredPathSegmentRegex",
        "ignoreMissingFiles",
    )
)
PINNED_OPTIONS: Final = {"ignoreMissingFiles": "false"}
"""Options of every scan. They override the session's settings, so a missing file is an error."""

FILE_ITSELF: Final = "binaryFile"
"""Format that returns one row per file, with the file's size and modification time."""

# fsspec protocols whose storage options a scan can pass to Spark's tasks.
_OWN_STORAGES: Final = ("s3", "abfss")

HADOOP_SPELLING: Final = ((r"^(file:)?/+", "file:/"), (r"([^:/])/{2,}", "$1/"))
"""Regular expressions and replacements that normalize a path as Hadoop does, applied in order.
``$1`` refers to a group, in Java's syntax."""

# Matches the names of marker files such as `_SUCCESS`, which Spark's readers silently skip.
_SKIPPED_NAME: Final = r"/(\.[^/]*|_[^/=]*|[^/]*\._COPYING_)$"


@dataclass(frozen=True, slots=True)
class FileScan:
    """A scan that reads a fixed list of files, each with the values of its partition.

    If a file belongs to several partitions, its rows are read once for each of them. Empty files
    are dropped, and paths are normalized by :func:`canonical_paths`.

    Raises:
        UnsupportedTable: if a data column and a partition column have the same name, ignoring case,
            or Spark would skip a file because of its name.
        ValueError: if the attributes are inconsistent, or a file is repeated within a partition.
    """

    format: str
    """Spark's short name of the format: ``parquet``, ``orc``, ``json``, ``csv``, ``text``, …"""
    options: Mapping[str, str]
    """Data source options. Options that select files are dropped."""
    data_schema: StructType
    """Columns in the files. Spark receives the column metadata unchanged, such as the lengths of
    CHAR columns and default values."""
    partition_schema: StructType
    """Partition columns; empty if the table is not partitioned."""
    partitions: pa.Table
    """Partition values, with one row per partition and one column per partition column. A value is
    either text as in a Hive directory name (unescaped, null for the null partition) or has the
    column's type. A table without columns stands for one partition."""
    files: pa.Table
    """Files with the columns of ``FILE_SCHEMA``. Paths are normalized like Hadoop's ``Path``, and
    are not URI-encoded. A path without a scheme is local. ``partition`` is a row number in
    ``partitions``."""
    by_field_id: bool = False
    """Whether Spark finds columns in files by the field ids in their metadata, not by name. Not all
    sessions support this; see :func:`splitlib.spark.scan.why_no_field_ids`."""
    row_index: str | None = None
    """Name of an additional last column with the position of each row in its file, starting at 0,
    or None to add no such column. Supported only for Parquet."""
    storage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """fsspec storage options for reading the files, by protocol; see :func:`own_storage`."""

    def __post_init__(self) -> None:
        given = {k: v for k, v in self.options.items() if k.lower() not in _REPLACED_OPTIONS}
        object.__setattr__(self, "options", given | PINNED_OPTIONS)
        _check_columns(self.data_schema, self.partition_schema, self.partitions)
        files = self.files.select(FILE_SCHEMA.names).cast(FILE_SCHEMA)
        files = files.set_column(0, FILE_SCHEMA.field("path"), canonical_paths(files["path"]))
        _check_files(files, self.partitions.num_rows if self.partition_schema.fields else 1)
        object.__setattr__(self, "files", files.filter(pc.greater(files["size"], 0)))


def own_storage(table: Table) -> dict[str, Mapping[str, Any]]:
    """Return the storage options with which Spark's tasks read the table, by protocol.

    A protocol is omitted if the table has no options for it. Tasks then use the session's settings.
    """
    found = {protocol: table.storage_options(protocol) for protocol in _OWN_STORAGES}
    return {protocol: options for protocol, options in found.items() if options}


def foreign_storage(table: Table) -> str | None:
    """Return the scheme of a table's location if a scan cannot use the table's storage options.

    The result is None if the scan can use the options, or if there are no options. A scan cannot
    use options for Google storage, for example: Hadoop's client does not accept tokens or key
    texts.
    """
    place = located(table.metadata.location or "/")
    own = (*_OWN_STORAGES, "file")
    is_foreign = place.protocol not in own and table.storage_options(place.protocol)
    return place.protocol if is_foreign else None


def canonical_paths(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Normalize paths as Hadoop's ``Path`` does. Paths without a scheme get the scheme ``file``."""
    for pattern, replacement in HADOOP_SPELLING:
        paths = pc.replace_substring_regex(paths, pattern, replacement.replace("$", "\\"))
    return paths


def _check_columns(data: StructType, keys: StructType, partitions: pa.Table) -> None:
    if partitions.column_names != keys.names:
        msg = f"Partition columns {partitions.column_names} differ from the keys {keys.names}"
        raise ValueError(msg)
    # Spark would move the partition column to the position of the data column of the same name.
    if both := {name.lower() for name in data.names} & {name.lower() for name in keys.names}:
        raise UnsupportedTable(
            f"Columns {sorted(both)} are both data columns and partition keys.",
            hint="rename one of them; names that differ only in case are not supported.",
        )


def _check_files(files: pa.Table, partitions: int) -> None:
    def refuse(bad: pa.ChunkedArray, why: str) -> None:
        if pc.any(bad).as_py():
            first = files.filter(bad).slice(0, 1).to_pylist()[0]
            raise ValueError(f"{why}: {first}")

    row = files["partition"]
    refuse(
        pc.or_(pc.less(row, 0), pc.greater_equal(row, partitions)),
        f"A file's partition number is out of range, because there are {partitions} partitions",
    )
    refuse(pc.less(files["size"], 0), "A file's size is negative")
    refuse(
        pc.invert(pc.match_substring_regex(files["path"], r"^[A-Za-z][A-Za-z0-9+.-]*:/")),
        "A file's path is not absolute",
    )
    refuse(
        pc.match_substring_regex(files["path"], r"/(\.{1,2}/|\.{0,2}$)"),
        "A file's path is not normalized",
    )
    skipped = files["path"].filter(pc.match_substring_regex(files["path"], _SKIPPED_NAME))
    if len(skipped):
        raise UnsupportedTable(
            f"Spark skips a file because of its name: {redact_path(skipped[0].as_py())}.",
            hint="write the file again under a name that begins with neither `_` nor `.`.",
        )
    pairs = files.group_by(["path", "partition"]).aggregate([([], "count_all")])
    if pairs.num_rows < files.num_rows:
        twice = pairs.filter(pc.greater(pairs["count_all"], 1)).slice(0, 1).to_pylist()[0]
        raise ValueError(f"A file occurs more than once in one partition: {twice}")
