"""Options of ``spark.read.format("splitlib")``, checked and typed."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from splitlib.arrow.time_zones import is_instant
from splitlib.config import SplitConfig, option_name
from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.redaction import show
from splitlib.registry import open_table
from splitlib.storage import nested_options, option_value
from splitlib.suggestions import nearest
from splitlib.table import Table

_OWN = ("table", "connector", "columns", "filter", "timeZone", "maxBytesPerTrigger")
_STORAGE = ("storage_options.", "storage.")
_FILTER = "filter."
_NEAR = 0.8
_MAX_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Parsed options of the data source. ``repr`` leaves out values that may be secret."""

    table: str
    connector: str | None
    columns: tuple[str, ...] | None
    """Names of the columns to read, in this order; None = all columns."""
    filters: tuple[DynamicFilteringData, ...] = field(repr=False)
    time_zone: str | None
    max_bytes_per_trigger: int
    config: SplitConfig
    storage: Mapping[str, Any] = field(repr=False)
    others: Mapping[str, Any] = field(repr=False)
    """Options of the connector."""

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
        """Open the table, with its timestamp keys in the time zone of the session.

        Raises:
            ConfigError: if the table needs a time zone and ``timeZone`` is missing.
            SplitlibError: as :func:`splitlib.load_table`.
        """
        given = {"storage_options": dict(self.storage)} if self.storage else {}
        # A Python data source cannot read the settings of the Spark session.
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
        columns = (*table.metadata.schema, *table.metadata.filterable)
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
        """Return the filters, with timestamps as local times of the session's time zone."""
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
