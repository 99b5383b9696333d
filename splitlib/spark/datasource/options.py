"""Parse the options of ``spark.read.format("splitlib")``, and determine its columns."""

from __future__ import annotations

import base64
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from splitlib.arrow.time_zones import is_instant
from splitlib.config import SplitConfig, option_name
from splitlib.errors import ConfigError, InvalidFilter, UnsupportedTable, nearest
from splitlib.filtering.data import DynamicFilteringData
from splitlib.model import INITIAL_DEFAULT
from splitlib.reading.columns import NATIVE
from splitlib.redaction import show
from splitlib.registry import open_table
from splitlib.spark.schema import nullable, spark_schema
from splitlib.storage import nested_options, option_value
from splitlib.table import Table

# Metadata key of a column's initial default, which is its value in files that lack the column.
_SPARK_DEFAULT = "EXISTS_DEFAULT"
_READABLE = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.NullType,
)
_OWN = ("table", "connector", "columns", "filter", "timeZone", "maxBytesPerTrigger")
_STORAGE = ("storage_options.", "storage.")
_FILTER = "filter."
_NEAR = 0.8
_ARGUMENT = re.compile(r"\b([a-z_]+)='([^']*)'")
_MAX_BYTES = 2**30


def wanted_schema(table: Table, columns: tuple[str, ...] | None) -> T.StructType:
    """Return the columns to read, with the types that ``spark.table`` would have.

    Args:
        table: The table.
        columns: Names of the columns, in any case; None for all columns.

    Raises:
        ConfigError: if the table does not have one of the columns.
        UnsupportedTable: for a type that cannot be read with Arrow.
    """
    schema = spark_schema(table.metadata)
    if columns is not None:
        by_lower = {column.name.lower(): column for column in schema}
        if missing := [name for name in columns if name.lower() not in by_lower]:
            raise ConfigError(
                f"There is no column {missing[0]!r}.", hint=f"the columns are {schema.names}."
            )
        schema = T.StructType([by_lower[name.lower()] for name in dict.fromkeys(columns)])
    for column in schema:
        if not _is_readable(column.dataType):
            raise UnsupportedTable(
                f"Column {column.name!r} is {column.dataType}, which cannot be read with Arrow.",
                hint=NATIVE,
            )
    return T.StructType([nullable(column) for column in schema])


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the schema of the Arrow batches that Spark accepts for ``schema``."""
    # Newer versions of PySpark need the time zone of timestamps as an argument. Older versions do
    # not have this argument and use UTC.
    utc: Any = (
        {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
    )
    fields = []
    for arrow_field, column in zip(to_arrow_schema(schema, **utc), schema, strict=True):
        default = (column.metadata or {}).get(_SPARK_DEFAULT)
        metadata = {INITIAL_DEFAULT: default} if default is not None else None
        fields.append(arrow_field.with_metadata(metadata))
    return pa.schema(fields)


def _is_readable(kind: T.DataType) -> bool:
    match kind:
        case T.StructType():
            return all(_is_readable(field.dataType) for field in kind)
        case T.ArrayType():
            return _is_readable(kind.elementType)
        case T.MapType():
            return _is_readable(kind.keyType) and _is_readable(kind.valueType)
    return isinstance(kind, _READABLE)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Parsed options of the data source. Their ``repr`` omits values that may be secret."""

    table: str
    connector: str | None
    columns: tuple[str, ...] | None
    """Names of the columns to read, in this order; None for all columns."""
    filters: tuple[DynamicFilteringData, ...] = field(repr=False)
    time_zone: str | None
    max_bytes_per_trigger: int
    config: SplitConfig
    storage: Mapping[str, Any] = field(repr=False)
    others: Mapping[str, Any] = field(repr=False)
    """All other options, which are passed to the connector."""

    __repr__ = show

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """Parse the options that Spark passes: names in any case, values as text.

        Raises:
            ConfigError: for a missing, unknown or malformed option.
            InvalidFilter: for a filter that cannot be decoded.
        """
        settings = {option_name(spec.name).lower(): spec.name for spec in fields(SplitConfig)}
        own = {name.lower() for name in _OWN}
        known = [*_OWN, *map(option_name, settings.values())]
        arguments, storage, filters, others = {}, {}, [], {}
        options = {key.lower(): value for key, value in options.items()}
        for name, value in sorted(options.items()):
            if name in settings:
                arguments[settings[name]] = value
            elif prefix := next(filter(name.startswith, _STORAGE), ""):
                key = name.removeprefix(prefix)
                if key in storage:
                    raise ConfigError(f"Storage option {key!r} is given twice.")
                storage[key] = option_value(value)
            elif name == "filter" or name.startswith(_FILTER):
                filters.append(_filter(name, value))
            elif name not in own and name != "path":
                _refuse_misspelt(name, known)
                others[name] = option_value(value)
        table, path = options.get("table"), options.get("path")
        if not (table or path) or (table and path and table != path):
            raise ConfigError(
                "Exactly one table is needed.", hint='.option("table", "db.t"), or load("db.t").'
            )
        columns = options.get("columns")
        return cls(
            table=str(table or path),
            connector=options.get("connector"),
            columns=None if columns is None else tuple(c.strip() for c in columns.split(",")),
            filters=tuple(filters),
            time_zone=options.get("timezone"),
            max_bytes_per_trigger=_byte_count(options, "maxBytesPerTrigger", _MAX_BYTES),
            config=SplitConfig.resolve(arguments),
            storage=nested_options(storage),
            others=others,
        )

    def open(self) -> Table:
        """Open the table, with its timestamp keys in the time zone of the option ``timeZone``.

        Raises:
            ConfigError: if the table needs a time zone and ``timeZone`` is missing.
            SplitlibError: the same errors as :func:`splitlib.load_table`.
        """
        given = {"storage_options": dict(self.storage)} if self.storage else {}
        try:
            # A Python data source cannot read the settings of the Spark session.
            table = open_table(
                self.table,
                self.connector,
                config=self.config,
                session_settings={},
                **{**self.others, **given},
            )
        except ConfigError as error:
            if error.hint:  # it names arguments of Python
                error.hint = _ARGUMENT.sub(r'.option("\1", "\2")', error.hint)
            raise
        try:
            return self._in_zone(table)
        except BaseException:
            table.close()
            raise

    def _in_zone(self, table: Table) -> Table:
        if self.time_zone is not None:
            return table.in_time_zone(self.time_zone)
        named = {name.lower() for data in self.filters for name in data.fields}
        columns = (*table.metadata.schema, *table.metadata.filter_schema)
        compared = [column for column in columns if column.name.lower() in named]
        filters = [column for data in self.filters for column in data.schema]
        schemas = (table.metadata.partition_schema, filters, compared)
        if any(is_instant(column.type) for schema in schemas for column in schema):
            raise ConfigError(
                "Timestamps of partitions or filters need the session's time zone, which Spark "
                "does not pass to a Python data source.",
                hint='.option("timeZone", spark.conf.get("spark.sql.session.timeZone")).',
            )
        return table

    def filters_in_zone(self) -> list[DynamicFilteringData]:
        """Return the filters, with timestamps as local times in the zone of option ``timeZone``."""
        zone = self.time_zone
        return [data if zone is None else data.in_time_zone(zone) for data in self.filters]


def _byte_count(options: Mapping[str, str], name: str, default: int) -> int:
    """Parse a size such as ``512m``, by the same rules as sizes in the settings."""
    text = options.get(name.lower())
    if text is None:
        return default
    try:
        return SplitConfig.resolve({"target_split_bytes": text}, environ={}).target_split_bytes
    except ConfigError as error:
        raise ConfigError(f"Option {name} must be a size such as '512m', not {text!r}.") from error


def _refuse_misspelt(name: str, known: list[str]) -> None:
    """Reject misspelled splitlib options before the connector sees them."""
    meant = nearest(name, known, similarity=_NEAR)
    if meant:
        raise ConfigError(f"Unknown option {name!r}.", hint=f"did you mean {meant!r}?")


def _filter(name: str, value: str) -> DynamicFilteringData:
    try:
        return DynamicFilteringData.from_bytes(base64.b64decode(value, validate=True))
    except (ValueError, InvalidFilter) as error:
        raise InvalidFilter(
            f"Option {name} is not a valid filter.",
            hint="pass base64.b64encode(data.to_bytes()).decode().",
        ) from error
