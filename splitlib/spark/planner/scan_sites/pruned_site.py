"""Scans whose partitions splitlib lists, and their sites with the join keys that prune them.

If the keys determine the names of the partitions, only these partitions are requested from the
catalog.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.partition_names import has_one_spelling
from splitlib.filtering.predicate import PartitionFilter, Predicate
from splitlib.hive.partition_values import parse
from splitlib.model import PartitionBatch
from splitlib.remote.calls import cached_property
from splitlib.report import Count, FilterUse, Report
from splitlib.spark.conversion import session_time_zone, spark_schema
from splitlib.spark.jvm.gateway import analyzed_plan
from splitlib.spark.jvm.spark_handles import LogicalPlan
from splitlib.spark.logical_plan import Expression
from splitlib.spark.planner.eligibility import Reason, parts_of
from splitlib.spark.planner.join_graph import Comparison, PartitionCondition
from splitlib.spark.planner.keys import Collected, Keys
from splitlib.spark.planner.lineage import Lineage, Step
from splitlib.spark.planner.scan_sites.evaluated_filter import (
    UNDECIDED,
    EvaluatedFilter,
    evaluate,
    named_step,
    partition_rows,
)
from splitlib.spark.planner.scan_sites.planned_scan import COMPUTED, PlannedScan, Site
from splitlib.spark.predicates.domains import known_of
from splitlib.spark.read.pruned_rows import pruned_rows, pruned_scan
from splitlib.spark.session_catalog.relation import Relation
from splitlib.table import Table

Needed: TypeAlias = tuple[
    Sequence[DynamicFilteringData], Sequence[PartitionFilter | DynamicFilteringData]
]
"""Join keys and other conditions that select the partitions that the query needs."""
Listed: TypeAlias = list[tuple[PartitionBatch, pa.BooleanArray]]
"""Batches of partitions, each with a boolean mask of the selected partitions."""

# Catalyst classes of conditions that can be converted with few calls to the JVM.
_QUICKLY_READ: Final = frozenset({"IsNotNull", "IsNull"})


@dataclass(eq=False, kw_only=True)
class ListedScan(PlannedScan["PrunedSite"]):
    """A scan whose partitions splitlib lists."""

    is_listed: ClassVar[bool] = True

    table: Table
    relation: Relation | None
    """The relation with which Spark reads the table, or None if there is none."""

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    @cached_property
    def schema(self) -> StructType:
        """Columns by which the scan can be pruned."""
        accepted = set(self.table.list_accepted_filter_fields())
        columns = spark_schema(self.table.metadata)
        return StructType([column for column in columns if column.name in accepted])

    def has_one_spelling(self, key: pa.Field) -> bool:
        """Return whether each value of ``key`` has only one possible text: ``5``, never ``05``."""
        # `has_canonical_values` calls the JVM, so it is evaluated last.
        return has_one_spelling(key) or (
            has_one_spelling(key, canonical=True)
            and self.relation is not None
            and self.relation.has_canonical_values
        )

    def prepare(self, *, by_name: bool) -> None:
        """Fetch the metadata of the table in advance, as :meth:`PlannedScan.prepare` describes."""
        if self.relation is not None:
            self.relation.prepare(by_name=by_name)

    def match(self, needed: Needed) -> Listed:
        """Return partition batches, each with a mask of the partitions that ``needed`` selects."""
        filters, conditions = needed
        enumerator = DynamicFileEnumerator(
            self.table, self.config, static=conditions, filters=filters
        )
        with enumerator.progress():
            return list(enumerator.match_partitions())

    def kept_values(self, needed: Needed, columns: Sequence[str]) -> pa.RecordBatch | None:
        """Return a batch with the values of ``columns`` in the partitions that ``needed`` selects.

        Return None if a column is not a partition column, if the table is partitioned by a
        transform of it, or if the catalog returns no partitions.
        """
        found = []
        for batch, mask in self.match(needed):
            sources = {f.source: f.name for f in batch.fields if f.transform is None}
            if not set(columns) <= sources.keys():
                return None
            kept = batch.values.filter(mask)
            found.append(pa.table({name: kept[sources[name]] for name in columns}))
        if not found:
            return None
        together = pa.concat_tables(found)
        return pa.record_batch({name: together[name].combine_chunks() for name in columns})

    def pruned(self, needed: Needed) -> tuple[LogicalPlan, Report]:
        """Return a plan that reads only the selected partitions, and a report on its files."""
        reading = pruned_rows if self.is_placeholder else pruned_scan
        rows, report = reading(self.catalyst.spark, self.table, self.config, *needed)
        return self._under_own_columns(analyzed_plan(rows)), report

    def counted(self, report: Report, reports: Sequence[Report]) -> Report:
        """Return a copy of ``report`` with total counts over all ``reports``."""
        metrics, relation = [one.metrics for one in reports], self.relation
        counts_files = relation is None or relation.names_files
        files_total, nbytes_total = (None, None) if relation is None else relation.listed_before
        totals = [one.partitions.total for one in (report, *reports)]
        total = max((number for number in totals if number is not None), default=None)
        files = sum(m.files_selected for m in metrics) if counts_files else None
        nbytes = sum(m.bytes_selected for m in metrics) if counts_files else None
        return replace(
            report,
            partitions=Count(sum(m.partitions_matched for m in metrics), total),
            asked_for="" if total is not None else reports[0].asked_for,
            files=Count(files, files_total),
            nbytes=Count(nbytes, nbytes_total),
        )

    def empty_scan(self) -> Any:
        """Return a plan that reads no files, as :meth:`PlannedScan.empty_scan` describes."""
        if self.relation is None or not self.relation.can_be_empty:
            return None
        return self._under_own_columns(analyzed_plan(self.relation.scan_of_files(())))

    def _under_own_columns(self, node: LogicalPlan) -> LogicalPlan:
        """Give the columns of ``node`` the names, ids and metadata of the leaf's columns.

        A scan of a session table is returned unchanged, because it already has them.
        """
        if not self.is_placeholder:
            return node
        own = zip(*map(self.catalyst.plans.output, (node, self.leaf)), strict=True)
        renamed = [self.catalyst.expressions.alias_like(new, old) for new, old in own]
        return self.catalyst.plans.projected(node, renamed)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrunedSite(Site):
    """A site of a scan whose partitions splitlib lists, with the join keys that prune them."""

    scan: ListedScan
    static: tuple[PartitionFilter | DynamicFilteringData, ...] = ()
    """The query's own conditions on the partitions."""
    data: tuple[DynamicFilteringData, ...] = ()
    """Join keys that are compared with partition columns."""
    computed: tuple[PartitionFilter, ...] = ()
    """Join keys that are compared with expressions over partition columns."""

    @property
    def is_named(self) -> bool:
        """Whether the partitions that the site needs can be requested by name.

        This is possible if joins and conditions compare every partition key for equality, and each
        value has only one possible text in a partition name. It is also possible if a condition
        compares the first key with a literal, because each partition name starts with the first
        key.
        """
        keys = self.scan.table.metadata.partition_schema
        conditions = [c.condition for c in self.site.conditions if not c.lineage.steps]
        by_value = {self._key_with_values(one) for one in conditions if one.kind == "EqualTo"}
        if not keys.names:
            return False
        if keys.names[0] in by_value:
            return True
        bound = {self._key_with_values(one) for one in conditions}
        bound |= {
            self.scan.names.get(comparison.lineage.column)
            for join_filter in (*self.site.filters, *self.site.from_sites)
            for comparison in join_filter.comparisons
            if comparison.operator == "="
        }
        return all(key.name in bound and self.scan.has_one_spelling(key) for key in keys)

    @property
    def predicate(self) -> Predicate:
        """Predicate that all rows needed at this site satisfy."""
        data = [part for part in self.static if isinstance(part, DynamicFilteringData)]
        conditions = [part for part in self.static if not isinstance(part, DynamicFilteringData)]
        columns = self.scan.table.metadata.filter_schema
        return Predicate(columns, (*data, *self.data), (*conditions, *self.computed))

    def with_conditions(self, plan: LogicalPlan) -> Self:
        """Return a copy of this site with the query's own conditions."""
        static = [part for one in self.site.conditions for part in self._static(plan, one)]
        return replace(self, static=tuple(static))

    def pruned_by(self, plan: LogicalPlan, collected: Sequence[Collected]) -> Self:
        """Return a copy of this site that is also pruned by the keys in ``collected``."""
        data, computed = list(self.data), list(self.computed)
        used, reasons = list(self.used), []
        for one in collected:
            of_columns, reason = self._of_columns(one)
            evaluated = None
            if not one.keys.data.domains:
                reason = f"{one.keys.data.passed_limit}."
            elif of_columns is None:
                evaluated = self._evaluated_keys(plan, one)
                if evaluated is None or self.scan.is_placeholder:
                    # Keys of a truncated column such as `date(ts)` also limit `ts` itself. In a
                    # named catalog, partition values may be days or hours of `ts`.
                    of_columns, _ = self._of_columns(one.on_columns(self.scan.catalyst))
            data += [] if of_columns is None else [of_columns]
            computed += [] if evaluated is None else [evaluated]
            if of_columns is None and evaluated is None:
                text = reason or COMPUTED
                reasons.append(Reason(text, parts_of(one.comparisons)))
            else:
                # `used_with_counts` expects the report entries for `data` first, in the same order.
                place = len(data) - 1 if evaluated is None else len(used)
                used.insert(place, self._use_of(plan, one))
        return replace(
            self,
            site=self.site.because(*reasons),
            data=tuple(data),
            computed=tuple(computed),
            used=tuple(used),
        )

    def keys_of(self, plan: LogicalPlan, comparisons: Sequence[Comparison]) -> Keys | None:
        """Return the partition values that remain at this site, as keys for another site."""
        operators = {c.operator for c in comparisons}
        if not self.has_keys or not operators <= {"=", "<=>"}:
            return None
        started = time.perf_counter()
        steps = _steps([c.key_lineage for c in comparisons if c.key_lineage is not None])
        columns = self._read_by(plan, steps, [c.key for c in comparisons])
        kept = None if columns is None else self.scan.kept_values(self.needed, columns)
        if columns is None or kept is None:
            return None
        wanted = {f"k{i}": c.key for i, c in enumerate(comparisons)}
        found = self._plain(kept, wanted)
        if found is None:
            found = self._evaluated(kept, columns, plan, steps, wanted)
            if pc.any(found[UNDECIDED]).as_py():
                return None
        data = DynamicFilteringData.from_arrow(found.select(list(wanted)))
        # If one comparison is null-safe, all fields keep their nulls. This may keep too many
        # partitions, but drops no match.
        data = data if "<=>" in operators else data.without_nulls()
        return Keys(data, time.perf_counter() - started)

    def used_with_counts(self, listed: Listed) -> tuple[FilterUse, ...]:
        """Return the keys as report entries, with the number of partitions that each one drops.

        The number is not counted for keys that are compared with expressions, because Spark would
        have to evaluate the expressions again.
        """
        predicate = Predicate(self.scan.table.metadata.filter_schema, self.data)
        dropped = [0] * len(self.data)
        for batch, _ in listed:
            for number, mask in enumerate(predicate.match_each(batch).each):
                dropped[number] += len(mask) - mask.true_count
        counted = zip(self.used[: len(dropped)], dropped, strict=True)
        uses = (replace(use, partitions_dropped=number) for use, number in counted)
        return (*uses, *self.used[len(dropped) :])

    @property
    def needed(self) -> Needed:
        """Join keys and other conditions that select the partitions needed at this site."""
        return self.data, (*self.static, *self.computed)

    def _key_with_values(self, condition: Expression) -> str | None:
        """Return the name of the partition key that a condition compares with literals by = or IN.

        Return None for other conditions, and for keys whose values may be written in several ways,
        such as ``5`` and ``05``.
        """
        if condition.kind not in ("EqualTo", "In"):
            return None
        column, *values = sorted(condition.children, key=lambda side: side.kind == "Literal")
        if any(value.kind != "Literal" for value in values):
            return None
        name = (
            self.scan.names.get(column.attribute_id)
            if column.kind == "AttributeReference"
            else None
        )
        keys = self.scan.table.metadata.partition_schema
        return name if name in keys.names and self.scan.has_one_spelling(keys.field(name)) else None

    def _static(
        self, plan: LogicalPlan, condition: PartitionCondition
    ) -> Iterator[PartitionFilter | DynamicFilteringData]:
        scan, expression = self.scan, condition.condition
        steps = condition.lineage.steps
        is_read = (
            scan.is_placeholder
            or expression.kind in _QUICKLY_READ
            or self._key_with_values(expression) is not None
        )
        if not steps and is_read:
            catalyst = scan.catalyst
            read = catalyst.plans.expression_at(plan, expression.place)
            read = catalyst.expressions.named_as(read, scan.leaf.output())
            known = known_of(read, scan.table.metadata.filter_schema)
            if known is not None:
                yield known.data
                if known.is_exact:
                    return
        columns = self._read_by(plan, steps, [expression])
        if columns is not None:
            text = scan.catalyst.expressions.sql(
                scan.catalyst.plans.expression_at(plan, expression.place)
            )
            yield EvaluatedFilter(
                partial(
                    self._evaluated,
                    columns=columns,
                    plan=plan,
                    steps=steps,
                    wanted={"met": expression},
                ),
                columns,
                lambda found: found["met"],
                text,
            )

    def _of_columns(self, one: Collected) -> tuple[DynamicFilteringData | None, str | None]:
        """Rename the key fields to the table columns that they are compared with.

        Returns:
            The keys (None if they are compared with computed values or cannot prune), and the
            reason why they cannot prune (None if unknown).
        """
        names = {}
        for name, comparison in one.by_field.items():
            column = self.scan.names.get(comparison.lineage.column)
            if column is None:
                return None, None
            names[name] = column
        if len(set(names.values())) < len(names):
            return None, None
        data = one.keys.data.renamed(names)
        data = data.in_time_zone(session_time_zone(self.scan.catalyst.spark))
        (applied,) = Predicate(self.scan.table.metadata.filter_schema, [data]).filters
        return (data if applied.used_fields else None), applied.unused_because

    def _evaluated_keys(self, plan: LogicalPlan, one: Collected) -> EvaluatedFilter | None:
        """Return collected keys as a partition filter that Spark evaluates.

        Return None if the filter would read columns that are not partition keys.
        """
        keys, comparisons = one.keys, one.by_field
        steps = _steps([c.lineage for c in comparisons.values()])
        wanted = {name: c.target for name, c in comparisons.items()}
        columns = self._read_by(plan, steps, list(wanted.values()))
        if columns is None:
            return None

        def test(found: Mapping[str, pa.Array]) -> pa.BooleanArray:
            batch = pa.record_batch({name: found[name] for name in wanted})
            return Predicate(batch.schema, [keys.data]).match(batch)

        return EvaluatedFilter(
            partial(self._evaluated, columns=columns, plan=plan, steps=steps, wanted=wanted),
            columns,
            test,
            keys.data.describe(),
        )

    def _evaluated(
        self,
        values: pa.RecordBatch,
        columns: Collection[str],
        plan: LogicalPlan,
        steps: Sequence[Step],
        wanted: Mapping[str, Expression],
    ) -> pa.Table:
        """Compute expressions over some ``columns`` of partition values; see :func:`evaluate`."""
        catalyst, positions = self.scan.catalyst, list(self.scan.ids)
        schema = StructType([column for column in self.scan.schema if column.name in columns])
        read = [positions.index(name) for name in schema.names]
        attributes = catalyst.plans.attributes(self.scan.leaf, read)
        rows = partition_rows(catalyst, values, schema, attributes)
        return evaluate(catalyst, rows, plan, steps, wanted)

    def _read_by(
        self, plan: LogicalPlan, steps: Sequence[Step], expressions: Sequence[Expression]
    ) -> tuple[str, ...] | None:
        """Return the columns that the expressions read, or None if any is not a partition key."""
        read = frozenset().union(*(expression.references for expression in expressions))
        catalyst = self.scan.catalyst
        read |= catalyst.plans.ids_read_by(named_step(catalyst, plan, step) for step in steps)
        names = [name for name, i in self.scan.ids.items() if i in read]
        keys = set(self.scan.table.partition_keys)
        return tuple(names) if names and keys.issuperset(names) else None

    def _plain(self, values: pa.RecordBatch, wanted: Mapping[str, Expression]) -> pa.Table | None:
        """Parse partition values without Spark. Return None if Spark has to compute them."""
        found = {}
        keys = self.scan.table.metadata.partition_schema
        for name, expression in wanted.items():
            column = self.scan.names.get(expression.attribute_id)
            if expression.kind != "AttributeReference" or column is None:
                return None
            typed = parse(values[column], keys.field(column))
            if typed.undecided is not None:
                return None
            found[name] = typed.values
        return pa.table(found)

    def _use_of(self, plan: LogicalPlan, collected: Collected) -> FilterUse:
        """Return the report entry for keys that prune this site."""
        keys, catalyst = collected.keys, self.scan.catalyst
        fields = {
            name: catalyst.expressions.sql(catalyst.plans.expression_at(plan, c.target.place))
            for name, c in collected.by_field.items()
        }
        description = keys.data.renamed(fields).describe()
        return FilterUse(tuple(fields.values()), description, keys.data.nbytes, keys.seconds)


def _steps(lineages: Iterable[Lineage]) -> tuple[Step, ...]:
    """Return the steps of several lineages, in order and without duplicates."""
    return tuple(dict.fromkeys(step for lineage in lineages for step in lineage.steps))
