"""A scan of a table of a named splitlib catalog, which splitlib itself enumerates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import PartitionFilter
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.plan_report import ScanPruning
from splitlib.spark.planner.join_graph import Comparison, PartitionCondition
from splitlib.spark.planner.keys import Keys
from splitlib.spark.planner.scan_sites.named_tables import NamedTable
from splitlib.spark.planner.scan_sites.partitioned import (
    UNDECIDED,
    Ids,
    Pruned,
    Scan,
    evaluate,
    typed_values,
)
from splitlib.spark.planner.scan_sites.pruned_site import COPIED, Collected, PrunedSite
from splitlib.spark.predicates.domain_extraction import values_of
from splitlib.spark.schema import spark_schema


class TableScan(Scan):
    """Stands in a plan as a relation of no files until it is pruned, or not."""

    def __init__(self, catalyst: Catalyst, leaf: Any, ids: Ids, table: NamedTable) -> None:
        schema = spark_schema(table.table.metadata)
        accepted = set(table.table.list_accepted_filter_fields())
        columns = StructType([f for f in schema if f.name in accepted])
        super().__init__(catalyst, leaf, ids, table.table.name, columns)
        self._table = table

    def filter_of(
        self, comparisons: Sequence[Comparison], keys: Keys
    ) -> DynamicFilteringData | None:
        """The keys under the names of the table's columns; None if they are of computed values."""
        names = {}
        for i, comparison in enumerate(comparisons):
            column = comparison.lineage.column
            if column is None:
                return None
            names[f"k{i}"] = self._names[column]
        return keys.data.renamed(names) if len(set(names.values())) == len(names) else None

    def pruned(
        self,
        plan: Any,
        filters: Sequence[DynamicFilteringData] = (),
        conditions: Sequence[PartitionCondition] = (),
    ) -> Pruned:
        """The scan of the files that matter.

        Args:
            plan: Where the conditions stand.
            filters: What dimensions say of it.
            conditions: What the query itself says of it.
        """
        static = [s for condition in conditions for s in self._static(plan, condition)]
        rows, report = self._table.load(filters, static)
        node = analyzed_plan(rows)
        own = zip(*map(self._catalyst.output, (node, self._leaf)), strict=True)
        renamed = [self._catalyst.alias(new, old.name(), old) for new, old in own]
        return Pruned(
            self._catalyst.projected(node, renamed),
            files=report.metrics.files_selected,
            nbytes=report.metrics.bytes_selected,
            partitions_total=report.metrics.partitions_total,
            partitions_kept=report.metrics.partitions_matched,
        )

    def _static(
        self, plan: Any, condition: PartitionCondition
    ) -> list[PartitionFilter | DynamicFilteringData]:
        metadata = self._table.table.metadata
        if not condition.lineage.steps:
            expression = self._catalyst.expression_at(plan, condition.condition.place)
            data = values_of(expression, metadata.filterable)
            if data is not None:
                return [data]
        names = [self._names[i] for i in condition.condition.references if i in self._names]
        if condition.lineage.steps or not set(names) <= set(metadata.partition_keys):
            return []
        schema = StructType([self.schema[name] for name in names])
        return [_PlanCondition(self._catalyst, plan, condition, self._attributes(names), schema)]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NamedSite(PrunedSite):
    """A place that reads a table of a named catalog."""

    scan: TableScan
    """What stands there."""
    data: tuple[DynamicFilteringData, ...] = ()
    """What the table is pruned by."""

    def prefetch(self) -> None:
        """Nothing: the table was asked when it was opened, and is asked again with the keys."""

    def pruned_by(self, plan: Any, collected: Sequence[Collected]) -> Self:
        """See :class:`PrunedSite`."""
        found = [(what, self.scan.filter_of(what.comparisons, what.keys)) for what in collected]
        computed = [what for what, data in found if data is None]
        return replace(
            self,
            site=self.site.because(*["keys are compared with a computed value."] * len(computed)),
            data=self.data + tuple(data for _, data in found if data is not None),
            used=self.used + tuple(self._use_of(plan, w) for w, data in found if data is not None),
        )


def opened_table(
    scan: TableScan, plan: Any, sites: Sequence[NamedSite], *, is_copied: bool
) -> tuple[Pruned, ScanPruning]:
    """The files that matter; all of them where several places read the same scan.

    Args:
        scan: A placeholder.
        plan: The optimized plan, in which conditions stand.
        sites: Where the scan stands in it.
        is_copied: Whether it may also stand where nothing is known of it.
    """
    # of several places each needs other files, and one list of files serves them all
    alone = sites[0] if len(sites) == 1 and not is_copied else None
    pruned = scan.pruned(plan, alone.data, alone.site.conditions) if alone else scan.pruned(plan)
    reasons = dict.fromkeys(reason for s in sites for reason in s.site.reasons)
    if is_copied:
        reasons[COPIED] = None
    return pruned, ScanPruning(
        scan.name,
        alone.used if alone else (),
        partitions_total=pruned.partitions_total,
        partitions_kept=pruned.partitions_kept,
        files=pruned.files,
        nbytes=pruned.nbytes,
        reasons=tuple(reasons),
    )


@dataclass(frozen=True, slots=True)
class _PlanCondition:
    """A :class:`splitlib.filtering.predicate.PartitionFilter` that Spark evaluates."""

    catalyst: Catalyst
    plan: Any
    condition: PartitionCondition
    attributes: Any
    schema: StructType

    @property
    def fields(self) -> tuple[str, ...]:
        """The partition keys that it reads."""
        return tuple(self.schema.names)

    def describe(self) -> str:
        """The condition as SQL."""
        expression = self.catalyst.expression_at(self.plan, self.condition.condition.place)
        return self.catalyst.sql(expression)

    def match(self, values: pa.RecordBatch) -> pa.BooleanArray:
        """True where a partition may matter."""
        columns = {name.lower(): values[name] for name in values.schema.names}
        table = pa.table({name: columns[name.lower()] for name in self.schema.names})
        frame = typed_values(self.catalyst, table, self.schema, self.attributes)
        wanted = {"met": self.condition.condition}
        found = evaluate(self.catalyst, frame, self.plan, (), wanted)
        met = pc.fill_null(found["met"], False)
        return pc.or_(met, found[UNDECIDED]).combine_chunks()
