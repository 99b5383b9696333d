"""Prunable scans and their sites: base classes, and scans that are pruned by a condition.

A scan site is a position in the optimized plan at which a scan is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from splitlib.arrow.values import is_east, is_instant, is_known
from splitlib.config import SplitConfig
from splitlib.remote.calls import cached_property
from splitlib.report import FilterUse, Report
from splitlib.spark.conversion import (
    char_length,
    column_text,
    has_variable,
    is_char_or_varchar,
    session_time_zone,
    sql_type,
)
from splitlib.spark.join_condition import ConditionWriter, Operand, all_of, any_of
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.relations import Source
from splitlib.spark.jvm.spark_handles import CatalystExpression, LogicalPlan
from splitlib.spark.jvm.table_plans import is_orc_table
from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.eligibility import Ids, Reason, ScanSite, parts_of
from splitlib.spark.planner.join_graph import Comparison, JoinFilter
from splitlib.spark.planner.keys import Collected, Keys, Unusable

_EXACT_DIGITS: Final = 15
ALSO_WITHOUT_KEYS: Final = "the same scan also occurs in a place without join keys."
"""Reason why a scan is not pruned if only some of its sites have keys."""
S = TypeVar("S", bound="Site")


@dataclass(eq=False, kw_only=True)
class PlannedScan(ABC, Generic[S]):
    """A leaf of the analyzed plan that can be pruned. It may occur in the plan several times."""

    is_listed: ClassVar[bool] = False
    """Whether splitlib lists the scan's partitions. Other scans are pruned by a condition."""
    is_placeholder: ClassVar[bool] = False
    """Whether the leaf is a placeholder for a table of a named catalog, which Spark cannot read."""

    catalyst: Catalyst
    leaf: LogicalPlan
    """The leaf node of the analyzed plan, in the JVM."""
    ids: Ids
    config: SplitConfig
    paths: list[Path] = field(default_factory=list)
    """Paths of the leaf in the analyzed plan."""
    qualifier: tuple[str, ...] = ()
    """Qualifier of columns in conditions, such as a MERGE target's alias. Empty for a query."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the table."""

    @property
    @abstractmethod
    def schema(self) -> StructType:
        """Columns by which the scan can be pruned."""

    @cached_property
    def names(self) -> Mapping[int | None, str]:
        """Names of the leaf's columns, by attribute id."""
        return {i: name for name, i in self.ids.items()}

    @abstractmethod
    def at(self, site: ScanSite, plan: LogicalPlan) -> S:
        """Return the scan's site at a position in ``plan``, before any keys are collected."""

    @abstractmethod
    def pruned_for(self, sites: Sequence[S], report: Report) -> ScanOutcome:
        """Prune the scan to the rows that its sites need, and return the planning outcome.

        Args:
            sites: All sites of the scan in the optimized plan.
            report: Report with the keys of the sites, and the reasons why other joins do not prune.
        """

    def left_alone(self, report: Report) -> ScanOutcome:
        """Return the planning outcome of a scan that is not pruned."""
        return ScanOutcome(self, None, report)

    def prepare(self, *, by_name: bool) -> None:
        """Fetch the metadata of the table in advance, while join keys are collected.

        Args:
            by_name: Whether the partitions that the query needs can later be requested by name.
        """

    def fixed(self, sites: Sequence[S], plan: LogicalPlan) -> LogicalPlan | None:
        """Return a plan that reads the files that exist now, without pruning by join keys.

        Return None if Spark cannot read a fixed list of this table's files.

        Args:
            sites: All sites of the scan in the optimized plan.
            plan: The optimized plan.
        """
        return None

    def empty_scan(self) -> LogicalPlan | None:
        """Return a plan of a scan without files, which can replace the leaf.

        The optimizer cannot see that this scan is empty, and cannot merge it with other scans of
        the table. Return None if such a scan is not possible, or if it saves nothing.
        """
        return None

    def where(self, condition: str) -> LogicalPlan:
        """Return a plan that filters the leaf by a SQL condition with unqualified columns."""
        return analyzed_plan(self.catalyst.execution.dataframe(self.leaf).where(condition))


Scan: TypeAlias = PlannedScan[Any]
"""A prunable scan of any kind of table."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanOutcome:
    """The result of planning one scan."""

    scan: Scan
    """The scan in the original query."""
    instead: LogicalPlan | None
    """Plan node that replaces the scan, or None if the scan stays, with or without a condition."""
    report: Report
    """Report on the scan."""
    rows: CatalystExpression | None = None
    """Catalyst expression that filters the rows of the scan, or None if all rows are read."""

    @property
    def is_other(self) -> bool:
        """Whether planning replaces the scan or adds a condition to it."""
        return self.instead is not None or self.rows is not None or self.report.is_pruned


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Site(ABC):
    """A scan site with the join keys that have been collected for it so far."""

    scan: Scan
    """The scan at the site."""
    site: ScanSite
    """The position in the optimized plan."""
    used: tuple[FilterUse, ...] = ()
    """The keys that prune the site, as report entries."""

    @property
    def has_keys(self) -> bool:
        """Whether the site has join keys."""
        return bool(self.used)

    @property
    def is_named(self) -> bool:
        """Whether the partitions that the site needs can be requested by name."""
        return False

    def with_conditions(self, plan: LogicalPlan) -> Self:
        """Return a copy of this site that also has the query's own conditions.

        This default returns the site unchanged, because Spark itself applies the conditions.
        """
        return self

    @abstractmethod
    def pruned_by(self, plan: LogicalPlan, collected: Sequence[Collected]) -> Self:
        """Return a copy of this site that is also pruned by the keys in ``collected``."""

    def without_keys(self, reason: Unusable, join_filter: JoinFilter) -> Self:
        """Return a copy of this site with the reason why a join filter's keys cannot prune it."""
        wants_same_rows = reason.not_deterministic
        why = Reason(f"{reason}.", parts_of(join_filter.comparisons))
        site = self.site.without_keys(why, wants_same_rows=wants_same_rows)
        return replace(self, site=site)

    def keys_of(self, plan: LogicalPlan, comparisons: Sequence[Comparison]) -> Keys | None:
        """Return the partition values that remain at this site, as keys for another site.

        Return None if these values cannot be determined.

        Args:
            plan: The plan that contains the comparisons.
            comparisons: Comparisons whose keys come from this site only.
        """
        return None


COMPUTED: Final = "keys are compared with a computed value."
"""Reason why collected keys cannot be compared with the columns of a table."""


@dataclass(eq=False, kw_only=True)
class FilteredScan(PlannedScan["FilteredSite"]):
    """A scan that is pruned by adding a condition on its columns."""

    source: Source
    """Kind of the data source: ``database``, ``table`` or ``files``."""

    @cached_property
    def name(self) -> str:
        """Name of the table."""
        return self.catalyst.relations.name_of(self.leaf)

    @property
    def is_database(self) -> bool:
        """Whether a database evaluates the conditions."""
        return self.source == "database"

    @cached_property
    def has_plain_strings(self) -> bool:
        """Whether the data source is known to compare strings as Spark does."""
        if self.source == "table":
            return self.catalyst.relations.has_plain_strings(self.leaf)
        return self.source == "files"

    @property
    def most_literals(self) -> int:
        """Maximum number of literals in one condition.

        For a database, the limit applies to all conditions on the table together.
        """
        config = self.config
        return config.condition_literals_jdbc if self.is_database else config.condition_literals

    def too_many_literals(self, number: int) -> str:
        """Return the reason why a database gets no condition with this number of literals."""
        limit = f"condition_literals_jdbc ({self.most_literals:,})"
        return f"the conditions have {number:,} literals, more than {limit}."

    @cached_property
    def schema(self) -> StructType:
        """Schema of the leaf."""
        return self.catalyst.execution.dataframe(self.leaf).schema

    def operand(self, column: str, kind: pa.DataType) -> Operand | None:
        """Return the SQL operand to compare a column with keys of the type ``kind``.

        Return None if the data source may compare such values differently than Spark.
        """
        if pa.types.is_floating(kind):
            return None  # engines differ in the order of NaN and -0.0
        of_table, parts = self.schema[column], (*self.qualifier, column)
        if any(has_variable(part) for part in parts):
            return None  # Spark would substitute a variable in the column name
        if char_length(of_table) is not None:
            return None  # settings decide whether CHAR is compared with padding
        if is_instant(kind) and self._misreads_instants(column):
            return None
        if self._is_delta_data(column) and _is_rounded(of_table.dataType):
            return None
        if self.is_database and not _has_standard_comparison(of_table, kind):
            return None
        name = column_text(self.catalyst.spark, *parts)
        of_keys = from_arrow_type(kind, prefer_timestamp_ntz=True)
        if of_table.dataType == of_keys:
            return Operand(name, of_keys)
        # The join condition has the same cast. For integers, Spark's optimizer removes the cast.
        return Operand(f"CAST({name} AS {sql_type(of_keys)})", of_keys)

    def _misreads_instants(self, column: str) -> bool:
        """Return whether the data source fails, or loses rows, by a condition on a TIMESTAMP.

        To skip files, Delta converts the largest possible TIMESTAMP to a local time. In time zones
        east of Greenwich, the conversion overflows. ORC's reader loses values of the hour in which
        clocks are set back.
        """
        if self.source == "table" and is_orc_table(self.leaf):
            return True
        if not self._is_delta_data(column):
            return False
        zone = session_time_zone(self.catalyst.spark)
        return not is_known(zone) or is_east(zone)

    def _is_delta_data(self, column: str) -> bool:
        """Return whether a column is a data column of a Delta table, which has statistics."""
        relations = self.catalyst.relations
        if relations.metadata_source(self.leaf) != "delta":
            return False
        return not (
            self.source == "files" and column in relations.partition_schema(self.leaf).names()
        )

    def at(self, site: ScanSite, plan: LogicalPlan) -> FilteredSite:
        """Return the scan's site at a position in ``plan``, before any keys are collected."""
        return FilteredSite(scan=self, site=site)

    def pruned_for(self, sites: Sequence[FilteredSite], report: Report) -> ScanOutcome:
        """Return the scan's outcome. If keys prune all its sites, the report has a condition."""
        keyed = [site for site in sites if site.has_keys]
        if keyed and len(keyed) < len(sites):
            report = report.because(ALSO_WITHOUT_KEYS)
        elif self.is_database and (n := sum(s.literals for s in keyed)) > self.most_literals:
            report = report.because(self.too_many_literals(n))
        elif keyed:
            report = replace(report, condition=any_of(all_of(site.conditions) for site in keyed))
        return self.left_alone(report)


def _is_rounded(column: DataType) -> bool:
    """Return whether bounds of a column may be rounded, because delta-rs stores them as doubles.

    Decimals of up to 15 digits are exact as doubles.
    """
    return isinstance(column, DecimalType) and column.precision > _EXACT_DIGITS


def _has_standard_comparison(column: StructField, kind: pa.DataType) -> bool:
    """Return whether every database compares ``column`` with keys of type ``kind`` as Spark does.

    Timestamps are excluded, as the database's time zone is unknown. Strings other than CHAR and
    VARCHAR, and bytes, are excluded too: the database type may be CLOB, UUID, JSON or BLOB. A
    database cannot compare some of these types with a literal.
    """
    if pa.types.is_string(kind):
        return is_char_or_varchar(column)
    comparable = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date)
    return any(is_one(kind) for is_one in comparable)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FilteredSite(Site):
    """A site of a :class:`FilteredScan`, with the conditions made from its keys.

    The query's own conditions are not included, because Spark passes them to the data source. The
    values that remain at the site are unknown until Spark reads the table. So they cannot be keys
    for another site.
    """

    scan: FilteredScan
    conditions: tuple[str, ...] = ()
    """SQL conditions that every row needed at this site satisfies."""
    literals: int = 0
    """Number of literals in ``conditions``."""

    def pruned_by(self, plan: LogicalPlan, collected: Sequence[Collected]) -> Self:
        """Return a copy of this site with conditions for the keys in ``collected``."""
        conditions, used, reasons = list(self.conditions), list(self.used), []
        literals = self.literals
        for one in collected:
            written = self._written(one, literals)
            if isinstance(written, str):
                reasons.append(Reason(written, parts_of(one.comparisons)))
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

    def _written(self, one: Collected, before: int) -> tuple[str, tuple[str, ...], int] | str:
        """Write collected keys as an SQL condition.

        Args:
            one: Keys that were collected for one or more columns of the scan.
            before: Number of literals in the site's other conditions. They count towards the limit
                for a database.

        Returns:
            The condition, its columns, and its number of literals; or the reason why there is no
            condition.
        """
        one = one.on_columns(self.scan.catalyst)
        data = one.keys.data
        operands: dict[str, Operand] = {}
        columns = []
        reason = COMPUTED
        for name, comparison in one.by_field.items():
            column = self.scan.names.get(comparison.lineage.column)
            if column is None:
                continue
            operand = self.scan.operand(column, data.schema.field(name).type)
            if operand is not None:
                operands[name] = operand
                columns.append(column)
            else:
                reason = self._other_order(column)
        if not operands:
            return reason
        most = self.scan.most_literals - (before if self.scan.is_database else 0)
        writer = ConditionWriter(
            operands,
            most,
            for_database=self.scan.is_database,
            plain_strings=self.scan.has_plain_strings,
            for_command=bool(self.scan.qualifier),
        )
        data = data.only(operands)
        condition = writer.of(data).sql
        if condition != "true":
            return condition, tuple(columns), writer.literals
        if data.passed_limit:
            return f"{data.passed_limit}."
        if data.num_values <= most:
            return self._other_order(columns[0])
        if self.scan.is_database:
            return self.scan.too_many_literals(before + data.num_values)
        return f"{writer.passed_limit(data)}."

    def _other_order(self, column: str) -> str:
        kind = self.scan.schema[column].dataType.simpleString()
        return f"the data source may compare keys of type {kind} in another way than Spark."
