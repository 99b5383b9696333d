"""``splitlib.read(spark)``: from a table and its dimensions to a DataFrame over explicit files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from splitlib.config import SplitConfig
from splitlib.errors import ConfigError, InvalidFilter
from splitlib.filtering import DynamicFilteringData
from splitlib.redaction import redact
from splitlib.registry import load_table
from splitlib.spark.collect import collect_keys
from splitlib.spark.explained import remember
from splitlib.spark.iceberg_conditions import condition_sql
from splitlib.spark.pruned_rows import pruned_rows
from splitlib.spark.row_conditions import tested_columns
from splitlib.spark.settings import settings_of
from splitlib.spark.static import static_filters
from splitlib.spark.types import spark_schema
from splitlib.table import Table

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression


def read(spark: SparkSession) -> TableReader:
    """Start reading a table: ``read(spark).table(…).filtered_by(…).load()``."""
    return TableReader(spark)


@dataclass(frozen=True, slots=True)
class _Dimension:
    source: DataFrame | DynamicFilteringData
    on: Mapping[str, str]
    null_safe: bool


@dataclass(frozen=True, slots=True)
class TableReader:
    """What to read. Immutable: each method returns a reader that knows more."""

    spark: SparkSession
    _name: str | None = None
    _connector: str | None = None
    _options: Mapping[str, Any] = field(default_factory=dict)
    _settings: Mapping[str, Any] = field(default_factory=dict)
    _conditions: tuple[str | BooleanExpression, ...] = ()
    _dimensions: tuple[_Dimension, ...] = ()

    def __repr__(self) -> str:
        given = ", ".join(sorted(self._options))
        told = f"TableReader({self._name!r}, connector={self._connector!r}, options=[{given}])"
        return redact(told)

    def table(self, name: str, connector: str | None = None, **options: Any) -> TableReader:
        """The fact table; arguments as for :func:`splitlib.load_table`."""
        return replace(self, _name=name, _connector=connector, _options=options)

    def config(self, **settings: Any) -> TableReader:
        """Settings of :class:`splitlib.SplitConfig` for this scan alone."""
        return replace(self, _settings={**self._settings, **settings})

    def where(self, condition: str | BooleanExpression) -> TableReader:
        """Only rows for which a condition holds. Repeatable; all hold together.

        What it says of partition keys alone prunes partitions, and what it says of one column
        prunes files where the catalog keeps statistics of them.

        Args:
            condition: SQL, or a row filter of PyIceberg's.
        """
        return replace(self, _conditions=(*self._conditions, condition))

    def filtered_by(
        self,
        dimension: DataFrame | DynamicFilteringData,
        on: Mapping[str, str] | Sequence[str] | str | None = None,
        *,
        null_safe: bool = False,
    ) -> TableReader:
        """Only what an inner or semi join with ``dimension`` can need. Repeatable.

        Keys of partitions drop those; keys of other columns, where files have statistics of them,
        drop files or parts of files, and most rows that have none of the keys.

        Args:
            dimension: A DataFrame, whose distinct keys are collected by :meth:`load`; or keys.
            on: Fact column to dimension column, or the name where it is the same. May be left out
                for keys whose fields are the fact's columns.
            null_safe: The join is ``<=>``: null keys match null partitions.
        """
        if on is None:
            if isinstance(dimension, DataFrame):
                raise InvalidFilter("Which columns join?", hint="on={'fact_column': 'dim_column'}")
            on = dimension.fields
        names = [on] if isinstance(on, str) else on
        pairs = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
        if not pairs:
            raise InvalidFilter("'on' names no column.", hint="on={'fact_column': 'dim_column'}")
        added = _Dimension(dimension, pairs, null_safe)
        return replace(self, _dimensions=(*self._dimensions, added))

    def load(self) -> DataFrame:
        """Collect the keys, prune, list what is left, and return a DataFrame over those files.

        Its schema is that of ``spark.table``: data columns, then partition columns. Nothing is
        fetched or listed again when it runs: see :func:`splitlib.replan`. See :func:`explain` for
        what was pruned.

        Raises:
            InvalidFilter: if a join column does not exist.
            NonDeterministicDimension: see :func:`splitlib.freeze`.
            SplitlibError: as :func:`splitlib.load_table` and
                :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
        """
        if self._name is None:
            raise ConfigError("No table is given.", hint="read(spark).table('db.t', connector=…)")
        config = SplitConfig.resolve(self._settings, spark_conf=settings_of(self.spark))
        opened = load_table(
            self._name, self._connector, spark=self.spark, config=config, **self._options
        )
        zone = str(self.spark.conf.get("spark.sql.session.timeZone"))
        with opened.in_time_zone(zone) as table:
            schema = spark_schema(table.metadata)
            filters = [
                data
                for dimension in self._dimensions
                for data in self._keys_of(dimension, schema, table, config)
            ]
            conditions = [condition_sql(condition, schema) for condition in self._conditions]
            static = [
                part
                for condition in conditions
                for part in static_filters(self.spark, condition, schema, table.metadata)
            ]
            df, report = pruned_rows(self.spark, table, config, filters, static)
            for condition in conditions:
                df = df.where(condition)
            remember(df, report, lambda _: self.load())
        return df

    def _keys_of(
        self,
        dimension: _Dimension,
        schema: StructType,
        table: Table,
        config: SplitConfig,
    ) -> Iterator[DynamicFilteringData]:
        """The keys of one dimension; of columns that cannot prune, only that they were given."""
        columns = {name.lower(): name for name in schema.names}
        for name in dimension.on:
            if name.lower() not in columns:
                near = difflib.get_close_matches(name, schema.names, n=1)
                raise InvalidFilter(
                    f"The table has no column {name!r}.",
                    hint=f"did you mean {near[0]!r}?" if near else f"it has {schema.names}.",
                )
        on = {columns[name.lower()]: column for name, column in dimension.on.items()}
        source = dimension.source
        if isinstance(source, DynamicFilteringData):
            data = source.renamed({column: name for name, column in on.items()})
            yield data if dimension.null_safe else data.without_nulls()
            return
        accepted, tested = table.list_accepted_filter_fields(), tested_columns(table.metadata)
        useful = {name: column for name, column in on.items() if name in accepted}
        in_rows = {name: column for name, column in on.items() if name in tested - set(accepted)}
        for keys in filter(None, (useful, in_rows)):
            yield collect_keys(source, keys, schema, config, null_safe=dimension.null_safe)
        # not worth a job, but worth a word in the report
        others = {name: (None, None) for name in on if name not in useful and name not in in_rows}
        if others:
            yield DynamicFilteringData.from_range(others)
