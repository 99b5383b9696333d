"""Derive how to read a table's files from its entry in Hive's metastore or Spark's catalog."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import UnsupportedTable
from splitlib.model import FileBatch, ReadFormat, Requests
from splitlib.storage import SELECTING_OPTIONS, Storage, local_path, of_rows

# Spark's built-in data sources that can read a list of files.
_SOURCES = ("parquet", "orc", "json", "csv", "text")
_SERDES = {
    "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe": "parquet",
    "parquet.hive.serde.ParquetHiveSerDe": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.OrcSerde": "orc",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe": "hive-text",
    "org.apache.hadoop.hive.serde2.OpenCSVSerde": "hive-csv",
}
# Properties that the text SerDes read. Other properties, such as statistics, are dropped, because
# with them every partition would have a different read format.
_TEXT_PROPERTIES = (
    "colelction.delim",  # Hive misspells this property
    "collection.delim",
    "escape.delim",
    "escapeChar",
    "field.delim",
    "hive.serialization.extend.additional.nesting.levels",
    "hive.serialization.extend.nesting.levels",
    "mapkey.delim",
    "quoteChar",
    "separatorChar",
    "serialization.encoding",
    "serialization.format",
    "serialization.last.column.takes.rest",
    "serialization.null.format",
    "textinputformat.record.delimiter",
    "timestamp.formats",
)
_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_KNOWN = "Spark's parquet, orc, json, csv and text can be read, and Hive's parquet, orc and text."
REF: Final = pa.struct([("location", pa.string()), ("read_format", pa.int32())])
"""Type of a partition's handle: its location, and the number of its read format."""


def refuse_unreadable(
    kind: str, provider: str, input_format: str, parameters: Mapping[str, str]
) -> None:
    """Reject views, transactional tables, and tables of other systems such as Iceberg.

    Args:
        kind: Kind of table, such as ``EXTERNAL_TABLE`` or ``VIRTUAL_VIEW``.
        provider: Spark's name of the data source, if Spark created the table.
        input_format: Class of Hive's input format.
        parameters: Parameters of the table.

    Raises:
        UnsupportedTable: for such a table; the hint says how to read it, if this is possible.
    """
    by = parameters.get("table_type", "").upper()
    provider, input_format = provider.lower(), input_format.lower()
    if kind.endswith("VIEW"):
        raise UnsupportedTable(
            "The table is a view.",
            hint="query it with splitlib.sql in Spark, or read the tables that it uses.",
        )
    if parameters.get("transactional", "").lower() == "true":
        raise UnsupportedTable(
            "The table is transactional (ACID): its files contain changes to rows.",
            hint="read it with Hive, or copy it into a table that is not transactional.",
        )
    if by == "ICEBERG" or provider == "iceberg":
        raise UnsupportedTable("The table is an Iceberg table.", hint="use connector='iceberg'.")
    if by == "DELTA" or provider == "delta":
        raise UnsupportedTable(
            "The table is a Delta table.", hint="read it with Spark's delta source."
        )
    if provider == "hudi" or "hudi" in input_format or "hoodie" in input_format:
        raise UnsupportedTable(
            "The table is a Hudi table.", hint="read it with Spark's hudi source."
        )
    if parameters.get("storage_handler"):
        raise UnsupportedTable("A storage handler keeps the table's rows, not files.")
    if "symlinktextinputformat" in input_format:
        raise UnsupportedTable(
            "The table consists of symlinks.", hint="read the tables that it links to."
        )


def source_format(provider: str, options: Mapping[str, str], *, is_partitioned: bool) -> ReadFormat:
    """Return how Spark's own data source reads a table's files.

    Args:
        provider: Spark's name of the data source.
        options: Options of the table in the catalog. Hive's own options are ignored.
        is_partitioned: Whether the catalog stores the table's partitions. In this case, Spark
            ignores options that select files.

    Raises:
        UnsupportedTable: for other data sources, and for options that select files.
    """
    name = provider.lower()
    if name not in _SOURCES:
        raise UnsupportedTable(f"The data source {name!r} is not supported.", hint=_KNOWN)
    options = {k: v for k, v in options.items() if k not in ("path", "serialization.format")}
    selecting = [name for name in options if name.lower() in SELECTING_OPTIONS]
    if selecting and not is_partitioned:
        raise UnsupportedTable(f"Options select only some of the files: {', '.join(selecting)}.")
    return ReadFormat.of(name, {k: v for k, v in options.items() if k not in selecting})


def serde_format(
    serde: str | None, input_format: str | None, properties: Mapping[str, str]
) -> ReadFormat:
    """Return how to read files that were written through one of Hive's SerDes.

    Args:
        serde: Class of the SerDe.
        input_format: Class of Hive's input format.
        properties: Properties of the SerDe.

    Raises:
        UnsupportedTable: for a SerDe or input format that Spark's readers do not support.
    """
    name = _SERDES.get(serde or "")
    if name is None or (name.startswith("hive-") and input_format != _TEXT_INPUT):
        raise UnsupportedTable(
            f"The SerDe {serde or 'unknown'} over {input_format} is not supported.", hint=_KNOWN
        )
    if name.startswith("hive-"):
        given = {key: properties[key] for key in _TEXT_PROPERTIES if key in properties}
        return ReadFormat.of(name, given)
    return ReadFormat.of(name)


def is_recursive(form: ReadFormat) -> bool:
    """Return whether subdirectories may contain files of the table too."""
    options = {name.lower(): value for name, value in form.options}
    return options.get("recursivefilelookup", "false").lower() == "true"


def is_read_by_hive(form: ReadFormat) -> bool:
    """Return whether Spark uses Hive's reader for these files; it fails on subdirectories."""
    return form.name.startswith("hive-")


class PartitionFiles:
    """Lists files, and makes the handles of partitions. Thread-safe.

    Args:
        storage: The storage of the partitions.
        location: Location of the table; None if it has none.
        below: Whether files in subdirectories belong to a partition, whatever Spark does.
    """

    def __init__(self, storage: Storage, location: str | None, *, below: bool = False) -> None:
        self._storage = storage
        self._below = below
        self.files_per_page = storage.files_per_page(location) if location else 0
        """See :attr:`splitlib.spi.Connector.files_per_page`."""
        # Handles store an index in this list, because nearly all partitions share one format.
        self._formats: list[ReadFormat] = []
        self._lock = threading.Lock()

    def ref(self, location: str | None, form: ReadFormat) -> dict[str, Any]:
        """Return the handle of a partition, as a value of type :data:`REF`."""
        return {"location": location, "read_format": self.number(form)}

    def number(self, form: ReadFormat) -> int:
        """Return the number that stands for a read format in handles."""
        with self._lock:
            if form not in self._formats:
                self._formats.append(form)
            return self._formats.index(form)

    def list_files(self, refs: pa.StructArray) -> Iterator[FileBatch]:
        """Yield the files of some partitions, in one batch per read format.

        Args:
            refs: Handles of the partitions.

        Raises:
            MissingPartition: if a partition's directory does not exist.
            UnsupportedTable: for a file in a subdirectory, if Spark uses Hive's reader.
        """
        numbers = refs.field("read_format")
        distinct = pc.unique(numbers).to_pylist()
        if self.files_per_page and len(distinct) == 1:
            form = self._formats[distinct[0]]
            locations = refs.field("location").to_pylist()
            below = self._below or is_recursive(form) or is_read_by_hive(form)
            files, requests, listed = self._storage.list_first(locations, below=below)
            self._refuse_below(files, locations, form)
            took = Requests(storage=requests)
            yield FileBatch(files, form, took, partitions_listed=listed)
            return
        for number in distinct:
            rows = pc.indices_nonzero(pc.equal(numbers, number))
            locations = refs.field("location").take(rows).to_pylist()
            form = self._formats[number]
            below = self._below or is_recursive(form) or is_read_by_hive(form)
            files, requests = self._storage.list_files(locations, below=below)
            self._refuse_below(files, locations, form)
            yield FileBatch(of_rows(files, rows), form, Requests(storage=requests))

    def _refuse_below(
        self, files: pa.RecordBatch, locations: Sequence[str], form: ReadFormat
    ) -> None:
        """Reject files in subdirectories of a partition if Spark uses Hive's reader.

        Hive's reader fails on subdirectories.

        Raises:
            UnsupportedTable: if there is such a file; the message names it.
        """
        if self._below or not is_read_by_hive(form):
            return  # Spark's own readers follow the table's setting for subdirectories
        depths = pa.array([local_path(each).rstrip("/").count("/") + 1 for each in locations])
        slashes = pc.count_substring(files["path"], "/")
        below = files["path"].filter(pc.not_equal(slashes, depths.take(files["partition"])))
        if len(below):
            raise UnsupportedTable(
                f"File {below[0].as_py()!r} lies in a directory below its partition, where Spark "
                "fails and Hive on Tez reads it.",
                hint="move it up, or query the table with splitlib.sql in a session that sets "
                "mapreduce.input.fileinputformat.input.dir.recursive.",
            )
