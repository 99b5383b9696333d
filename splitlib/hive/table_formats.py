"""Derive how to read a table's files from its entry in Hive's metastore or Spark's catalog."""

from __future__ import annotations

from collections.abc import Mapping

from splitlib.errors import UnsupportedTable
from splitlib.model import ReadFormat
from splitlib.storage import SELECTING_OPTIONS

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
