"""The scans of a query that can be pruned, and their sites with join keys, for all kinds of tables.

A scan site is a place in the optimized plan where a scan is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar

from pyspark.sql.types import StructType

from splitlib.config import SplitConfig
from splitlib.report import FilterUse, Report
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.spark_handles import CatalystExpression, LogicalPlan
from splitlib.spark.logical_plan import Path
from splitlib.spark.planner.join_graph import Comparison, JoinFilter
from splitlib.spark.planner.keys import Collected, Keys, Unusable
from splitlib.spark.planner.scan_sites.scan_site import Ids, Reason, ScanSite, parts_of

ALSO_WITHOUT_KEYS: Final = "the same scan also occurs in a place without join keys."
"""Reason why a scan is not pruned if only some of its sites have keys."""
S = TypeVar("S", bound="Site")


@dataclass(eq=False, kw_only=True)
class PlannedScan(ABC, Generic[S]):
    """A leaf of the analyzed plan, which may occur there several times."""

    is_listed: ClassVar[bool] = False
    """Whether splitlib lists the partitions of the scan. Other scans get a condition."""
    is_placeholder: ClassVar[bool] = False
    """Whether the leaf is a placeholder for a table of a named catalog, which Spark cannot read."""

    catalyst: Catalyst
    leaf: LogicalPlan
    """The leaf in the JVM."""
    ids: Ids
    config: SplitConfig
    paths: list[Path] = field(default_factory=list)
    """Paths of the leaf in the analyzed plan."""
    qualifier: tuple[str, ...] = ()
    """Qualifier of columns in conditions. It is empty, except for the target of a command."""

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
        """Names of the leaf's columns by id."""
        return {i: name for name, i in self.ids.items()}

    @abstractmethod
    def at(self, site: ScanSite, plan: LogicalPlan) -> S:
        """Return a site of the scan, a place in the optimized plan, before keys are collected."""

    @abstractmethod
    def pruned_for(self, sites: Sequence[S], report: Report) -> ScanOutcome:
        """Return the pruned scan and its report. It reads all rows that any of its sites needs.

        Args:
            sites: All sites of the scan in the optimized plan.
            report: Report with the keys of the sites, and the reasons why other joins do not prune.
        """

    def left_alone(self, report: Report) -> ScanOutcome:
        """Return the outcome of the scan if it is not pruned."""
        return ScanOutcome(self, None, report)

    def prepare(self, *, by_name: bool) -> None:
        """Fetch the metadata of the table in advance, while join keys are collected.

        Args:
            by_name: Whether the needed partitions can be requested by name later.
        """

    def fixed(self, sites: Sequence[S], plan: LogicalPlan) -> LogicalPlan | None:
        """Return an unpruned scan with a fixed list of files: the files that exist now.

        Return None if Spark cannot read a fixed list of files of this table. The arguments are all
        sites of the scan, and the optimized plan.
        """
        return None

    def empty_scan(self) -> LogicalPlan | None:
        """Return a scan without files to replace the leaf.

        The optimizer cannot see that this scan is empty, and cannot merge it with other scans of
        the table. Return None if such a scan is not possible, or if it saves nothing.
        """
        return None

    def where(self, condition: str) -> LogicalPlan:
        """Return a plan of the rows that meet a SQL condition with unqualified columns."""
        return analyzed_plan(self.catalyst.execution.dataframe(self.leaf).where(condition))


Scan: TypeAlias = PlannedScan[Any]
"""A scan of any kind."""


@dataclass(frozen=True, slots=True, eq=False)
class ScanOutcome:
    """The result of planning one scan."""

    scan: Scan
    """The scan in the original query."""
    instead: LogicalPlan | None
    """Plan node that replaces the scan; None if the scan stays, with or without a condition."""
    report: Report
    """Report on the scan."""
    rows: CatalystExpression | None = None
    """Catalyst expression that filters the rows of the scan; None if all rows are read."""

    @property
    def is_other(self) -> bool:
        """Whether the scan is replaced, or gets a condition."""
        return self.instead is not None or self.rows is not None or self.report.is_pruned


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Site(ABC):
    """A scan site with the join keys that have been collected for it so far."""

    scan: Scan
    """The scan at the site."""
    site: ScanSite
    """The place in the optimized plan."""
    used: tuple[FilterUse, ...] = ()
    """The keys that prune the site, as shown in the report."""

    @property
    def has_keys(self) -> bool:
        """Whether the site has join keys."""
        return bool(self.used)

    @property
    def is_named(self) -> bool:
        """Whether the partitions that the site needs can be requested by name."""
        return False

    def with_conditions(self, plan: LogicalPlan) -> Self:
        """Return the site with the query's own conditions, if Spark does not apply them by itself.

        Args:
            plan: The optimized plan that contains the conditions.
        """
        return self

    @abstractmethod
    def pruned_by(self, plan: LogicalPlan, collected: Sequence[Collected]) -> Self:
        """Return the site pruned by more keys.

        Args:
            plan: The optimized plan that contains the comparisons.
            collected: Keys to add. Later calls may add more.
        """

    def without_keys(self, reason: Unusable, join_filter: JoinFilter) -> Self:
        """Return the site with the reason why the keys for a join filter cannot prune it."""
        wants_same_rows = reason.not_deterministic
        why = Reason(f"{reason}.", parts_of(join_filter))
        site = self.site.without_keys(why, wants_same_rows=wants_same_rows)
        return replace(self, site=site)

    def keys_of(self, plan: LogicalPlan, comparisons: Sequence[Comparison]) -> Keys | None:
        """Return the partition values left at this site as keys for another site; None if unknown.

        Args:
            plan: The plan that contains the comparisons.
            comparisons: Comparisons whose keys come from this site only.
        """
        return None
