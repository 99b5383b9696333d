"""Scans that get the join keys as a condition, as splitlib does not list their partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from splitlib.config import SplitConfig
from splitlib.spark.join_condition import ConditionWriter, Operand
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.relations import Source
from splitlib.spark.logical_plan import Path
from splitlib.spark.plan_report import FilterUse
from splitlib.spark.planner.join_graph import Comparison
from splitlib.spark.planner.keys import Collected, Keys, Unusable
from splitlib.spark.planner.scan_sites.scan_site import Ids, ScanSite
from splitlib.spark.schema import char_length, is_char_or_varchar
from splitlib.spark.sql_text import column_text, has_variable, sql_type

_COMPUTED: Final = "keys are compared with a computed value."
TOO_MANY_KEYS: Final = "too many keys."


@dataclass(eq=False)
class FilteredScan:
    """A scan that gets a condition. Its leaf may occur several times in the analyzed plan."""

    catalyst: Catalyst
    leaf: Any
    """The leaf in the JVM."""
    ids: Ids
    source: Source
    """Kind of the data source: ``database``, ``table`` or ``files``."""
    config: SplitConfig
    paths: list[Path] = field(default_factory=list)
    """Paths of the leaf in the analyzed plan."""
    qualifier: tuple[str, ...] = ()
    """Qualifier of columns in conditions. It is empty, except for the target of a command."""

    @cached_property
    def name(self) -> str:
        """Name of the table."""
        return self.catalyst.name_of(self.leaf)

    @property
    def is_database(self) -> bool:
        """Whether a database evaluates the conditions."""
        return self.source == "database"

    @cached_property
    def has_plain_strings(self) -> bool:
        """Whether the data source is known to compare strings as Spark does."""
        if self.source == "table":
            return self.catalyst.has_plain_strings(self.leaf)
        return self.source == "files"

    @property
    def most_literals(self) -> int:
        """Maximal number of literals in one condition.

        For a database, this is the maximal number in all conditions on the table together.
        """
        config = self.config
        return config.condition_literals_jdbc if self.is_database else config.condition_literals

    @cached_property
    def schema(self) -> StructType:
        """Schema of the leaf."""
        return self.catalyst.dataframe(self.leaf).schema

    @cached_property
    def names(self) -> Mapping[int | None, str]:
        """Names of the leaf's columns by id."""
        return {i: name for name, i in self.ids.items()}

    def operand(self, column: str, kind: pa.DataType) -> Operand | None:
        """Return the operand to compare a column with keys of a type.

        Return None if the data source may compare such values differently than Spark.
        """
        if pa.types.is_floating(kind):
            return None  # engines differ in the order of NaN and -0.0
        of_table, parts = self.schema[column], (*self.qualifier, column)
        if any(has_variable(part) for part in parts):
            return None  # Spark would substitute a variable in the column name
        if char_length(of_table) is not None:
            return None  # settings decide whether CHAR is compared with padding
        if self.is_database and not _is_compared_alike(of_table, kind):
            return None
        name = column_text(self.catalyst.spark, *parts)
        of_keys = from_arrow_type(kind, prefer_timestamp_ntz=True)
        if of_table.dataType == of_keys:
            return Operand(name, of_keys)
        # The join has the same cast. For integers, Spark's optimizer removes it.
        return Operand(f"CAST({name} AS {sql_type(of_keys)})", of_keys)

    def reading_nothing(self) -> Any:
        """Return None: the optimizer may recognize that a scan of a data source is empty."""
        return None

    def where(self, condition: str) -> Any:
        """Return a plan of the rows that meet a SQL condition with unqualified columns."""
        return analyzed_plan(self.catalyst.dataframe(self.leaf).where(condition))


def _is_compared_alike(column: StructField, kind: pa.DataType) -> bool:
    """Return whether every database compares a column with keys of a type as Spark does.

    Timestamps are excluded, as the database's time zone is unknown. Strings other than CHAR and
    VARCHAR, and bytes, are excluded too: the database type may be CLOB, UUID, JSON or BLOB. A
    database cannot compare some of these types with a literal.
    """
    if pa.types.is_string(kind):
        return is_char_or_varchar(column)
    comparable = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date)
    return any(is_one(kind) for is_one in comparable)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FilteredSite:
    """A place in the plan that reads a :class:`FilteredScan`, with the conditions from its keys."""

    scan: FilteredScan
    """The scan at the site."""
    site: ScanSite
    """The place in the optimized plan."""
    conditions: tuple[str, ...] = ()
    """SQL conditions that all rows needed at this site meet."""
    literals: int = 0
    """Number of literals in these conditions."""
    used: tuple[FilterUse, ...] = ()
    """The keys that prune the site, as shown in the report."""

    @property
    def has_keys(self) -> bool:
        """Whether the site has join keys."""
        return bool(self.conditions)

    def with_conditions(self, plan: Any) -> Self:
        """Return the same site: Spark passes the query's own conditions to the data source."""
        return self

    def pruned_by(self, plan: Any, collected: Sequence[Collected]) -> Self:
        """Return the site with conditions for more keys.

        Args:
            plan: The optimized plan that contains the comparisons.
            collected: Keys to add. Later calls may add more.
        """
        conditions, used, reasons = list(self.conditions), list(self.used), []
        literals = self.literals
        for one in collected:
            written = self._written(one, literals)
            if written is None:
                reasons.append(_COMPUTED if one.keys.data.domains else TOO_MANY_KEYS)
                continue
            condition, columns, number = written
            literals += number
            keys = one.keys
            described = keys.data.describe()
            conditions.append(condition)
            used.append(FilterUse(columns, described, keys.data.nbytes, keys.seconds))
        return replace(
            self,
            site=self.site.because(*reasons),
            conditions=tuple(conditions),
            literals=literals,
            used=tuple(used),
        )

    def without_keys(self, reason: Unusable) -> Self:
        """Return the site with the reason why some keys cannot prune it."""
        wants_same_rows = reason.not_deterministic
        site = self.site.without_keys(f"{reason}.", wants_same_rows=wants_same_rows)
        return replace(self, site=site)

    def keys_of(self, plan: Any, comparisons: Sequence[Comparison]) -> Keys | None:
        """Return None: the values that are left are unknown until Spark reads the table."""
        return None

    def _written(self, one: Collected, before: int) -> tuple[str, tuple[str, ...], int] | None:
        """Return an SQL condition for the keys, its columns, and its number of literals.

        Return None if the condition would always be true.

        Args:
            one: Keys collected from the other side of the join.
            before: Number of literals in the scan's other conditions. For a database, they count
                towards its limit.
        """
        operands: dict[str, Operand] = {}
        columns = []
        for name, comparison in one.by_field.items():
            column = self.scan.names.get(comparison.lineage.column)
            if column is None:
                continue
            operand = self.scan.operand(column, one.keys.data.schema.field(name).type)
            if operand is not None:
                operands[name] = operand
                columns.append(column)
        if not operands:
            return None
        most = self.scan.most_literals - (before if self.scan.is_database else 0)
        writer = ConditionWriter(
            operands,
            most,
            for_database=self.scan.is_database,
            plain_strings=self.scan.has_plain_strings,
            for_command=bool(self.scan.qualifier),
        )
        condition = writer.of(one.keys.data.only(operands)).sql
        return None if condition == "true" else (condition, tuple(columns), writer.literals)
