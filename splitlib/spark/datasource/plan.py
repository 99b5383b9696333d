"""Parse the options of ``spark.read.format("splitlib")``, and plan the table's splits.

The driver plans the splits, and executors read their rows.
"""

from __future__ import annotations

import base64
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from splitlib.arrow.values import is_instant, shown
from splitlib.config import SPARK_PREFIX, SplitConfig, option_name, respelled
from splitlib.coordination.assigners import pack
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.footer_reads import Sample
from splitlib.enumeration.splitting import SelectedFiles
from splitlib.errors import ConfigError, InvalidFilter, SplitlibError, UnsupportedTable, nearest
from splitlib.filtering.data import DynamicFilteringData
from splitlib.hive.partition_values import parse, table_fields
from splitlib.model import INITIAL_DEFAULT, FileSplit, PartitionBatch
from splitlib.reading.columns import NATIVE
from splitlib.reading.formats import RowGroupFilter
from splitlib.reading.reader import read_split, refuse_unreadable
from splitlib.redaction import show
from splitlib.registry import SESSION, named_catalogs, open_table, refuse_reserved
from splitlib.spark.conversion import nullable, spark_schema
from splitlib.storage import AllowedLocations, Storage, option_value, options_of_text
from splitlib.table import Table

# Metadata key for a column's default, which is the value of rows in files that lack the column.
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
_FILTER = "filter."
_NEAR = 0.8
_ARGUMENT = re.compile(r"(?<![\w.])([a-z_]+)=(?:'([^']*)'|\.\.\.|…|(?=[ ,.]))")
_MAX_BYTES = 2**30


def wanted_schema(table: Table, columns: tuple[str, ...] | None) -> T.StructType:
    """Return the schema of the columns to read, with the same types as in ``spark.table``.

    Args:
        table: The table.
        columns: Names of the columns, ignoring case; None for all columns.

    Raises:
        ConfigError: if the table does not have one of the columns.
        UnsupportedTable: if a column has a type that cannot be read with Arrow.
    """
    schema = spark_schema(table.metadata)
    if columns is not None:
        by_lower = {column.name.lower(): column for column in schema}
        if missing := [name for name in columns if name.lower() not in by_lower]:
            raise ConfigError(
                f"There is no column {missing[0]!r}.", hint=f"the columns are {schema.names}."
            )
        names = dict.fromkeys(name.lower() for name in columns)
        schema = T.StructType([by_lower[name] for name in names])
    for column in schema:
        if not _is_readable(column.dataType):
            raise UnsupportedTable(
                f"Column {column.name!r} is {column.dataType}, which cannot be read with Arrow.",
                hint=NATIVE,
            )
    return T.StructType([nullable(column) for column in schema])


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the schema of the Arrow batches that Spark accepts for ``schema``."""
    # In newer PySpark versions, the time zone of timestamps is a required argument. Older versions
    # do not have this argument and use UTC.
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


def _option_call(name: str, value: str | None) -> str:
    key = option_name(name) if name in SplitConfig.__dataclass_fields__ else name
    return f'.option("{key}", …)' if value is None else f'.option("{key}", "{value}")'


@contextmanager
def _hints_as_options() -> Iterator[None]:
    """In hints of errors from the ``with`` block, replace Python arguments by options."""
    try:
        yield
    except SplitlibError as error:
        if error.hint:
            hint = _ARGUMENT.sub(lambda found: _option_call(*found.groups()), error.hint)
            error.hint = respelled(hint, _option_call)
        raise


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Parsed data source options. The ``repr`` omits values that may be secret."""

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
        """Parse the options that Spark passes. Names are not case-sensitive, and values are text.

        Raises:
            ConfigError: if an option is missing, unknown or malformed.
            InvalidFilter: if a filter cannot be decoded.
        """
        settings = {option_name(spec.name).lower(): spec.name for spec in fields(SplitConfig)}
        own = {name.lower() for name in _OWN}
        known = [*_OWN, *map(option_name, settings.values())]
        arguments, filters, others = {}, [], {}
        options = {key.lower(): value for key, value in options.items()}
        for name, value in sorted(options.items()):
            if name in settings:
                arguments[settings[name]] = value
            elif name == "filter" or name.startswith(_FILTER):
                filters.append(_filter(name, value))
            elif name not in own and name != "path":
                option = re.sub(r"^storage\.", "storage_options.", name)
                if not option.startswith("storage_options."):
                    _refuse_misspelt(name, known)
                if option in others:
                    raise ConfigError(f"Option {option!r} is given twice.")
                others[option] = value
        refuse_reserved(others)
        if options.get("connector") == SESSION:
            raise ConfigError(
                'format("splitlib") cannot read the tables of the session.',
                hint="use splitlib.read(spark).table('db.t').load().",
            )
        table, path = options.get("table"), options.get("path")
        if not (table or path) or (table and path and table != path):
            raise ConfigError(
                "The options must name exactly one table.",
                hint='use .option("table", "db.t"), or load("db.t").',
            )
        columns, connector = options.get("columns"), options.get("connector")
        others = options_of_text(others)
        # Executors open files with these options, and cannot look up a named catalog.
        storage: Any = others.pop("storage_options", None)
        if storage is None and connector is None:
            catalog = str(table or path).partition(".")[0]
            storage = named_catalogs({}).get(catalog, {}).get("storage_options")
        return cls(
            table=str(table or path),
            connector=connector,
            columns=None if columns is None else tuple(c.strip() for c in columns.split(",")),
            filters=tuple(filters),
            time_zone=options.get("timezone"),
            max_bytes_per_trigger=_byte_count(options, "maxBytesPerTrigger", _MAX_BYTES),
            config=SplitConfig.resolve(arguments),
            storage=storage or {},
            others={name: option_value(value) for name, value in others.items()},
        )

    def open(self) -> Table:
        """Open the table. Timestamp keys are converted to local times in the zone ``timeZone``.

        Raises:
            ConfigError: if partitions or filters contain timestamps and ``timeZone`` is missing.
            SplitlibError: in the same cases as :func:`splitlib.load_table`.
        """
        given = {"storage_options": self.storage} if self.storage else {}
        with _hints_as_options():
            # No session settings are passed, because a Python data source cannot read them.
            table = open_table(
                self.table,
                self.connector,
                config=self.config,
                session_settings={},
                **{**self.others, **given},
            )
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
                hint='add .option("timeZone", spark.conf.get("spark.sql.session.timeZone")).',
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


_ALLOWED: Final = f"{SPARK_PREFIX}{option_name('allowed_locations')}"
LOAD_AGAIN: Final = (
    "do not pass a schema; choose columns with the option 'columns'. If the table was altered, "
    "load it again."
)


class SplitsPartition(InputPartition):
    """The splits that one Spark task reads."""

    def __init__(self, splits: Iterable[FileSplit]) -> None:
        self.splits = tuple(splits)


class SplitReader:
    """Reads splits on the executors. It needs no access to the catalog."""

    def __init__(
        self,
        schema: pa.Schema,
        storage: Mapping[str, Any],
        row_groups: RowGroupFilter,
        config: SplitConfig,
    ) -> None:
        self._schema = schema
        self._storage = storage
        self._row_groups = row_groups
        self._config = config

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task's splits, as Arrow batches."""
        assert isinstance(partition, SplitsPartition)
        storage, allowed = Storage(self._storage), self._config.allowed_locations
        if allowed is None:
            allowed = _allowed_by_session()
        if allowed is not None:
            # The paths are checked again, because a symbolic link may have changed after planning.
            paths = [split.path for split in partition.splits]
            AllowedLocations(allowed).refuse_outside(paths)
        for split in partition.splits:
            yield from read_split(
                split,
                self._schema,
                storage,
                row_groups=self._row_groups,
                verify=self._config.verify_files,
            )


def _allowed_by_session() -> tuple[str, ...] | None:
    """Return the session's setting ``allowed_locations``, or None if it is not set.

    On the driver, a Python data source cannot read the session's settings. In a task it can,
    because Spark passes the settings to each task as local properties.
    """
    task = TaskContext.get()
    value = None if task is None else task.getLocalProperty(_ALLOWED)
    if value is None:
        return None
    return SplitConfig.resolve(spark_conf={_ALLOWED: value}, environ={}).allowed_locations


class Planned(NamedTuple):
    """The splits to read, and the filter that selects row groups in their files."""

    splits: list[FileSplit]
    """Splits to read. If the table has not changed, planning again returns the same list."""
    row_groups: RowGroupFilter


class SplitPlanner(ABC):
    """Plans the splits that a DataFrame reads. It is pickled as a :class:`SplitReader`.

    The table is open only while splits are planned, because Spark does not always report when it
    no longer needs a reader.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @abstractmethod
    def row_groups(self) -> RowGroupFilter:
        """Return the filter that selects the row groups to read in each file."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task's splits, as :meth:`SplitReader.read` does."""
        kind, arguments = self.__reduce__()
        return kind(*arguments).read(partition)

    def __reduce__(self) -> tuple[type[SplitReader], tuple[Any, ...]]:
        return SplitReader, (
            arrow_schema(self._schema),
            self._options.storage,
            self.row_groups(),
            self._options.config,
        )

    def plan(self) -> Planned:
        """Open the table, enumerate its splits, and close the table.

        Raises:
            ConfigError: if the DataFrame's schema differs from the table's columns.
            UnsupportedTable: if files or partition values cannot be read exactly.
            SplitlibError: in the same cases as :func:`splitlib.load_table` and
                :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
        """
        with _hints_as_options(), self._options.open() as table:
            if wanted_schema(table, self._options.columns) != self._schema:
                raise ConfigError(
                    "The DataFrame's schema differs from the table's columns.", hint=LOAD_AGAIN
                )
            filters = self._options.filters_in_zone()
            enumerator = _ExactEnumerator(table, self._options.config, filters=filters)
            splits = list(enumerator.enumerate_splits())
            return Planned(splits, RowGroupFilter(table.metadata.data_schema, filters))

    def tasks(self, splits: Iterable[FileSplit]) -> list[SplitsPartition]:
        """Pack the splits into tasks, or return one empty task if there are no splits."""
        packed = pack(splits, self._options.config.target_split_bytes)
        return [SplitsPartition(task) for task in packed] or [SplitsPartition(())]


class _ExactEnumerator(DynamicFileEnumerator):
    """An enumerator that rejects files and partition values that Spark may read differently."""

    def select_files(
        self,
        *,
        hosts: bool = False,
        sample: Sample | None = None,
        cancelled: Future[None] | None = None,
    ) -> Generator[SelectedFiles, None, None]:
        checked: PartitionBatch | None = None
        found = super().select_files(hosts=hosts, sample=sample, cancelled=cancelled)
        for selected in found:
            refuse_unreadable(selected.files.read_format)
            if selected.partitions is not checked:
                checked = selected.partitions
                refuse_inexact(checked, self.table.metadata.partition_schema)
            yield selected


def refuse_inexact(partitions: PartitionBatch, keys: pa.Schema) -> None:
    """Reject partition values that Spark may parse differently from :func:`parse`.

    Raises:
        UnsupportedTable: if there is such a value. The message contains the value.
    """
    values = partitions.values
    parsed_as = table_fields(values.schema, partitions.fields, keys)
    for key, column in zip(parsed_as, values.columns, strict=True):
        doubtful = parse(column, key).undecided
        if doubtful is not None:
            text = shown(column.filter(doubtful)[0])
            raise UnsupportedTable(
                f"Partition value {text!r} of {key.name!r} is ambiguous as {key.type}.", hint=NATIVE
            )
