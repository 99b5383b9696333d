"""``splitlib.read(spark)``: read a table as a DataFrame, pruned by conditions and join keys.

``splitlib.analyze`` reads column statistics from the footers of a table's files, so that later
reads can prune files without reading footers.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType, YearMonthIntervalType

from splitlib.checks import column_named, given_pairs, refuse_other_than_session
from splitlib.config import SplitConfig, respelled
from splitlib.enumeration.analyze import Analysis, analyze_table, refuse_data_columns
from splitlib.errors import ConfigError, InvalidFilter, SplitlibError, did_you_mean
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.redaction import redact
from splitlib.registry import SESSION, open_table, refuse_reserved
from splitlib.remote.calls import BoundedCalls
from splitlib.report import FilterUse, respelled_report
from splitlib.spark.allowed_scans import refuse_condition, refuse_query
from splitlib.spark.conversion import session_time_zone, spark_schema, unquoted
from splitlib.spark.dimension import given_keys, keys_of_table
from splitlib.spark.footer_job import FooterJobs
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.keys import collect_keys, key_columns
from splitlib.spark.predicates.row_filters import (
    checked_condition,
    compared_by_spark,
    condition_column,
    tested_columns,
)
from splitlib.spark.predicates.where import StaticCondition, static_filters
from splitlib.spark.read.pruned_rows import (
    named_by_its_table,
    pruned_scan,
    relation_of_table,
    saying_its_table,
)
from splitlib.spark.session import SessionState, remember, settings_of
from splitlib.table import Table
from splitlib.telemetry import traced

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression


def read(spark: SparkSession) -> TableReader:
    """Start reading a table: ``read(spark).table(…).filtered_by(…).load()``."""
    refuse_other_than_session(spark, "splitlib.read(spark)")
    return TableReader(spark)


@dataclass(frozen=True, slots=True)
class _Dimension:
    source: DataFrame | DynamicFilteringData | pa.Table
    on: Mapping[str, str]
    null_safe: bool


@dataclass(frozen=True, slots=True)
class TableReader:
    """Builder for a pruned read. It is immutable: each method returns a new reader.

    Attributes:
        spark: Session that reads the table.
    """

    spark: SparkSession
    _name: str | None = None
    _connector: str | None = None
    _options: Mapping[str, Any] = field(default_factory=dict)
    _settings: Mapping[str, Any] = field(default_factory=dict)
    _conditions: tuple[str | Column | BooleanExpression, ...] = ()
    _dimensions: tuple[_Dimension, ...] = ()

    if not TYPE_CHECKING:  # type checkers should still report unknown attributes

        def __getattr__(self, name: str) -> Any:
            """Raise an error that suggests :meth:`load` if a DataFrame has this attribute."""
            if hasattr(DataFrame, name) and not name.startswith("_"):
                raise AttributeError(
                    f"A TableReader has no {name!r}. Call .load() first, which returns a "
                    f"DataFrame: read(spark).table(…).load().{name}"
                )
            near = did_you_mean(name, _METHODS)
            raise AttributeError(f"A TableReader has no {name!r}; {near}")

    def __repr__(self) -> str:
        given = ", ".join(sorted(self._options))
        text = f"TableReader({self._name!r}, connector={self._connector!r}, options=[{given}])"
        return redact(text)

    def table(
        self, name: str | os.PathLike[str], connector: str | None = None, **options: Any
    ) -> TableReader:
        """Set the table to read, with the same arguments as :func:`splitlib.load_table`."""
        name = os.fspath(name) if isinstance(name, os.PathLike) else name
        if not isinstance(name, str):
            raise ConfigError(
                f"Expected the name of a table, not a {type(name).__name__}.",
                hint="read(spark).table('db.t')",
            )
        refuse_reserved(options, "pass settings to .config(…), such as .config(max_partitions=10).")
        return replace(self, _name=name, _connector=connector, _options=options)

    def config(self, **settings: Any) -> TableReader:
        """Override :class:`splitlib.SplitConfig` settings for this read only."""
        return replace(self, _settings={**self._settings, **settings})

    def where(self, condition: str | Column | BooleanExpression) -> TableReader:
        """Keep only the rows that satisfy a condition. Several conditions are combined with AND.

        Conditions on partition columns prune partitions. Conditions on a single other column prune
        files if the catalog has statistics for the column.

        Args:
            condition: An SQL expression over the table's columns, without the table's name; a
                ``Column`` built from column names, such as ``F.col("day") > "2024-01-05"``; or a
                PyIceberg row filter.

        Raises:
            InvalidFilter: if the condition has another type.
        """
        return replace(self, _conditions=(*self._conditions, checked_condition(condition)))

    def filtered_by(
        self,
        dimension: Any,
        on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str | None = None,
        *,
        null_safe: bool = False,
    ) -> TableReader:
        """Keep only the data that can match in an inner or semi join with ``dimension``.

        Join keys for partition columns prune partitions. Join keys for other columns prune files or
        parts of files if there are statistics, and drop most rows without a matching key. The
        method can be called several times; all filters apply.

        Args:
            dimension: The small side of the join: a DataFrame, whose distinct keys are collected by
                :meth:`load`; or the keys as an Arrow table, an object with ``__arrow_c_stream__``
                (pandas, Polars), a dict of lists, or :class:`splitlib.DynamicFilteringData`. Text
                in an Arrow table is parsed if the fact column is a date or an integer.
            on: Fact columns and dimension columns, as a mapping or as pairs; one name instead of a
                pair if both columns have the same name. ``a.b`` is a field of a struct in the
                dimension. The argument may be omitted if the keys are not a DataFrame and have the
                names of the fact columns.
            null_safe: Whether the join uses ``<=>``, so that null keys match null values.

        Raises:
            InvalidFilter: if an argument has an unsupported type.
        """
        source = given_keys(dimension)
        if on is None:
            if isinstance(source, DataFrame):
                raise InvalidFilter(
                    "The join columns are missing.", hint="on={'fact_column': 'dim_column'}"
                )
            on = source.schema.names
        added = _Dimension(source, given_pairs(on), null_safe)
        return replace(self, _dimensions=(*self._dimensions, added))

    @in_its_session
    @traced("load")
    def load(self) -> DataFrame:
        """Collect the keys, prune partitions and files, and return the matching files' rows.

        The schema is the same as for ``spark.table``: data columns, then partition columns. Each
        run of the DataFrame uses the same keys and files. :func:`splitlib.replan` collects and
        lists them again. :func:`splitlib.explain` reports the pruned partitions and files. Spark's
        own errors, such as for an unknown column in ``where``, are raised unchanged.

        Raises:
            InvalidFilter: if a join column does not exist.
            NonDeterministicDimension: if the keys may change. Pass the dimension to
                :func:`splitlib.freeze` first.
            SplitlibError: in the same cases as :func:`splitlib.load_table` and
                :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
        """
        if self._name is None:
            raise ConfigError("No table is given.", hint="read(spark).table('db.t')")
        refuse_other_than_session(self.spark, "splitlib.read(spark)")
        try:
            return self._load(self._name)
        except SplitlibError as error:
            error.hint = error.hint and _with_config(error.hint)
            raise

    def _load(self, name: str) -> DataFrame:
        state = SessionState.of(self.spark, self._texts())
        spark_conf = settings_of(self.spark)
        config = SplitConfig.resolve(self._settings, spark_conf=spark_conf)
        opened = open_table(
            name,
            self._connector,
            spark=self.spark,
            spark_conf=spark_conf,
            config=config,
            **self._options,
        )
        with opened, BoundedCalls(config, Future()) as calls:
            table = opened.in_time_zone(session_time_zone(self.spark))
            # Look up the relation in Spark's catalog in a thread, while the keys are collected.
            looking = calls.submit(partial(relation_of_table, self.spark, table))
            schema = spark_schema(table.metadata)
            with traced("collect_keys"):
                found = [
                    keys
                    for dimension in self._dimensions
                    for keys in self._comparable_keys(dimension, schema, table, config)
                ]
            conditions = [condition_column(condition, schema) for condition in self._conditions]
            for condition in conditions:
                refuse_condition(self.spark, condition, schema, config)
            filters = [keys for keys in found if isinstance(keys, DynamicFilteringData)]
            unused = [keys for keys in found if isinstance(keys, FilterUse)]
            static = [
                static_filters(self.spark, condition, schema, table.metadata, config.spark_scan)
                for condition in conditions
            ]
            used = [part for parts in static for part in parts.used]
            used += [keys for keys in found if isinstance(keys, StaticCondition)]
            df, report = pruned_scan(self.spark, table, config, filters, used)
            df = saying_its_table(self.spark, df, calls.result(looking))
            df = named_by_its_table(reduce(DataFrame.where, conditions, df), table)
            unused += [part for parts in static for part in parts.unused]
            report = replace(report, filters=(*report.filters, *unused))
            report = respelled_report(report, _with_config)
            catalog = table.connector_name == SESSION
            database = catalog and "." not in name
            again = partial(self._load_again, state, catalog=catalog, database=database)
            remember(df, report, again)
        return df

    def _load_again(
        self, state: SessionState, _: DataFrame, *, catalog: bool, database: bool
    ) -> DataFrame:
        state.check(self.spark, self._texts(), catalog=catalog, database=database)
        return self.load()

    def _texts(self) -> str:
        """Return the conditions as text, to search it for temporary views and functions."""
        return "\n".join(map(str, self._conditions))

    def _comparable_keys(
        self, dimension: _Dimension, schema: StructType, table: Table, config: SplitConfig
    ) -> Iterator[DynamicFilteringData | FilterUse | StaticCondition]:
        """Yield the keys of one dimension. Keys that only Spark can compare become a condition."""
        for keys in self._keys_of(dimension, schema, table, config):
            if isinstance(keys, DynamicFilteringData):
                by_spark, rest = compared_by_spark(
                    self.spark, keys, schema, table.metadata, null_safe=dimension.null_safe
                )
                if by_spark is not None:
                    yield by_spark
                if rest is not None:
                    yield rest
            else:
                yield keys

    def _keys_of(
        self,
        dimension: _Dimension,
        schema: StructType,
        table: Table,
        config: SplitConfig,
    ) -> Iterator[DynamicFilteringData | FilterUse]:
        """Yield the keys of one dimension. For keys that cannot prune, yield a report entry."""
        on = {
            column_named(_bare(name, schema.names), schema.names): column
            for name, column in dimension.on.items()
        }
        names = Counter(name.lower() for name in schema.names)
        ambiguous = tuple(name for name in on if names[name.lower()] > 1)
        if ambiguous:  # pruning ignores case, so these columns are ambiguous
            reason = "Several columns of the table differ only in case. Rename one of them."
            yield FilterUse(ambiguous, "keys", unused_because=reason)
            return
        source = dimension.source
        if isinstance(source, pa.Table):
            on = {name: _bare(column, source.column_names) for name, column in on.items()}
            keys = keys_of_table(source, on, table.schema)
            source = DynamicFilteringData.from_arrow(keys)
            on = {name: name for name in on}
        if isinstance(source, DynamicFilteringData):
            for data in _renamed(source, on):
                yield data if dimension.null_safe else data.without_nulls()
            return
        refuse_query(source, config)
        for column, key in key_columns(source, on.values()).items():
            by_it = tuple(name for name in on if on[name] == column)
            why = key.why_no_keys
            if why is None and key.is_of_months:
                months = {f.name for f in schema if isinstance(f.dataType, YearMonthIntervalType)}
                months &= set(table.partition_keys)
                by_it = tuple(name for name in by_it if name not in months)
                kind = key.field.dataType.simpleString()
                why = f"is {kind}, which prunes only partition keys of that type."
            if why is not None and by_it:
                reason = f"{column} {why} Use another column, or cast it to the type of the fact's."
                yield FilterUse(by_it, "keys", unused_because=reason)
                on = {name: other for name, other in on.items() if name not in by_it}
        accepted = table.list_accepted_filter_fields()
        tested = tested_columns(self.spark, table.metadata)
        useful = {name: column for name, column in on.items() if name in accepted}
        in_rows = {name: column for name, column in on.items() if name in tested - set(accepted)}
        for keys in filter(None, (useful, in_rows)):
            yield collect_keys(source, keys, schema, config, null_safe=dimension.null_safe)
        # The other keys are not collected, because they cannot prune. They get a filter without
        # bounds, so that the report mentions them.
        others = {name: (None, None) for name in on if name not in useful and name not in in_rows}
        if others:
            yield DynamicFilteringData.from_range(others)


def _renamed(data: DynamicFilteringData, on: Mapping[str, str]) -> Iterator[DynamicFilteringData]:
    """Yield filters on the fields in ``on``, renamed to the fact's columns.

    If several fact columns are joined with the same field, each of them is in another filter.

    Raises:
        InvalidFilter: if a field does not exist.
    """
    open_ = [(name, column_named(_bare(c, data.fields), data.fields)) for name, c in on.items()]
    while open_:
        names = {field: name for name, field in reversed(open_)}
        yield data.only(names).renamed(names)
        open_ = [(name, field) for name, field in open_ if names[field] != name]


def _with_config(text: str) -> str:
    """Return a text with its settings written as calls of ``.config(…)``."""
    return respelled(text, _config_call)


def _config_call(name: str, value: str | None) -> str:
    given = "…" if value is None else repr(value)
    given = given.strip("'").capitalize() if value in ("true", "false") else given
    return f".config({name}={given})"


_METHODS = ("table", "config", "where", "filtered_by", "load")


def _bare(name: str, columns: Collection[str]) -> str:
    """Remove backticks from a name, unless they are part of a column's name."""
    return name if name in columns else unquoted(name)


def analyze(
    spark: SparkSession,
    table: str,
    columns: Iterable[str] | None = None,
    *,
    where: str | Column | None = None,
    connector: str | None = None,
    progress: Callable[[Analysis], object] = lambda so_far: None,
    **options: Any,
) -> Analysis:
    """Read the footers of a table's Parquet files, and keep each column's minimum and maximum.

    Later queries in this process use these statistics to prune files and row groups without reading
    footers. With the setting ``statistics_location``, other processes use them too. Calling this is
    optional and only improves speed: footers of new and changed files are read when a query needs
    them. The driver reads the first few thousand footers, with ``listing_threads`` threads. Spark
    jobs read the remaining footers. For this, executors need PyArrow, and credentials that
    PyArrow's filesystems find. The driver also reads the footers that the executors cannot read.

    Args:
        spark: The session.
        table: Name of the table, as for :func:`splitlib.load_table`.
        columns: Names of columns; by default all columns whose statistics can be trusted.
        where: Condition on partition columns. Files in other partitions are skipped.
        connector: Name of the connector; by default the session's own catalog.
        progress: Function that is called with the counts so far.
        options: Connector options.

    Raises:
        UnsupportedTable: if the footers have no usable statistics for the table or for one of
            ``columns``, if the catalog already has statistics, or if ``learn_statistics`` is off.
        InvalidFilter: if a column does not exist, or the condition reads other columns.
        SplitlibError: see :mod:`splitlib.errors`.
    """
    refuse_other_than_session(spark, "splitlib.analyze(spark, 'db.t')")
    refuse_reserved(options, "set settings in the session, such as spark.splitlib.listingThreads.")
    settings = settings_of(spark)
    config = SplitConfig.resolve(spark_conf=settings)
    with open_table(
        table, connector, spark=spark, spark_conf=settings, config=config, **options
    ) as opened:
        filters = () if where is None else partitions_where(spark, where, opened, config)
        jobs = FooterJobs(spark)
        return analyze_table(opened, columns, filters, config, progress, jobs.read)


def partitions_where(
    spark: SparkSession, where: str | Column, table: Table, config: SplitConfig
) -> list[PartitionFilter | DynamicFilteringData]:
    """Return partition filters for a condition, as ``splitlib.read(…).where`` builds them.

    Raises:
        InvalidFilter: if the condition reads columns that are not partition columns.
    """
    schema = spark_schema(table.metadata)
    condition = condition_column(checked_condition(where), schema)
    refuse_condition(spark, condition, schema, config)
    parts = static_filters(spark, condition, schema, table.metadata, config.spark_scan)
    for part in parts.unused:
        refuse_data_columns(table, part.fields)
        raise InvalidFilter(
            f"{part.description} cannot select files to analyze: {part.unused_because}"
        )
    return list(parts.used)
