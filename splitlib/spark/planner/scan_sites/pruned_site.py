"""Scan sites with the join keys that prune their partitions.

A scan site is a place in the optimized plan where a prunable scan is read. If the keys determine
the names of its partitions, only these partitions are requested from the catalog.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.partition_names import has_one_spelling
from splitlib.filtering.predicate import PartitionFilter, Predicate
from splitlib.hive.partition_values import parse
from splitlib.spark.logical_plan import Expression
from splitlib.spark.plan_report import FilterUse
from splitlib.spark.planner.join_graph import Comparison, PartitionCondition
from splitlib.spark.planner.keys import Collected, Keys, Unusable
from splitlib.spark.planner.lineage import Lineage, Step
from splitlib.spark.planner.scan_sites.evaluated_filter import (
    UNDECIDED,
    EvaluatedFilter,
    named_step,
)
from splitlib.spark.planner.scan_sites.prunable import PrunableScan
from splitlib.spark.planner.scan_sites.scan_site import ScanSite
from splitlib.spark.predicates.domains import known_of
from splitlib.spark.time_zones import session_time_zone

# Conditions that can be converted with few calls to the JVM.
_QUICKLY_READ: Final = frozenset({"IsNotNull", "IsNull"})


def named_tables(sites: Collection[tuple[PrunableScan, ScanSite]]) -> frozenset[str]:
    """Return the names of the tables whose partitions can be requested by name at all their sites.

    Args:
        sites: Scan sites of a query, each with its scan.
    """
    times = Counter(scan for scan, _ in sites)
    others = {
        scan.name
        for scan, site in sites
        if (not are_named(scan, site) if site.may_have_keys else times[scan] > 1)
    }
    return frozenset(scan.name for scan, _ in sites) - others


def are_named(scan: PrunableScan, site: ScanSite) -> bool:
    """Return whether the partitions that a site needs can be requested by name.

    This is possible if joins and conditions compare every partition key with values that have one
    spelling. It is also possible if a condition compares the first key with a literal, because the
    first key is the start of each partition name.

    Args:
        scan: The scan at the site.
        site: The site, with the filters that prune it.
    """
    keys = scan.table.metadata.partition_schema
    conditions = [c.condition for c in site.conditions if not c.lineage.steps]
    by_value = {key_with_values(scan, one) for one in conditions if one.kind == "EqualTo"}
    if keys.names[0] in by_value:
        return True
    bound = {key_with_values(scan, one) for one in conditions}
    bound |= {
        scan.names.get(comparison.lineage.column)
        for join_filter in (*site.filters, *site.from_sites)
        for comparison in join_filter.comparisons
        if comparison.operator == "="
    }
    return all(key.name in bound and _has_one_spelling(scan, key) for key in keys)


def _has_one_spelling(scan: PrunableScan, key: pa.Field) -> bool:
    # `has_canonical_values` calls the JVM, so it comes last.
    return has_one_spelling(key) or (
        has_one_spelling(key, canonical=True) and scan.has_canonical_values
    )


def key_with_values(scan: PrunableScan, condition: Expression) -> str | None:
    """Return the partition key that a condition compares with literals.

    Return None for other conditions, and for keys whose values have several spellings.
    """
    if condition.kind not in ("EqualTo", "In"):
        return None
    column, *values = sorted(condition.children, key=lambda side: side.kind == "Literal")
    if any(value.kind != "Literal" for value in values):
        return None
    name = scan.names.get(column.attribute_id) if column.kind == "AttributeReference" else None
    keys = scan.table.metadata.partition_schema
    return name if name in keys.names and _has_one_spelling(scan, keys.field(name)) else None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrunedSite:
    """A scan site with the join keys that have been collected for it so far."""

    scan: PrunableScan
    """The scan at the site."""
    site: ScanSite
    """The place in the optimized plan."""
    static: tuple[PartitionFilter | DynamicFilteringData, ...] = ()
    """Conditions in the query on the partitions."""
    data: tuple[DynamicFilteringData, ...] = ()
    """Join keys that are compared with partition columns."""
    computed: tuple[PartitionFilter, ...] = ()
    """Join keys that are compared with expressions over partition columns."""
    used: tuple[FilterUse, ...] = ()
    """The keys that prune the site, as shown in the report."""

    @property
    def has_keys(self) -> bool:
        """Whether the site has join keys."""
        return bool(self.used)

    @property
    def predicate(self) -> Predicate:
        """The predicate that all rows needed at this site meet."""
        data = [part for part in self.static if isinstance(part, DynamicFilteringData)]
        conditions = [part for part in self.static if not isinstance(part, DynamicFilteringData)]
        columns = self.scan.table.metadata.filterable
        return Predicate(columns, (*data, *self.data), (*conditions, *self.computed))

    def with_conditions(self, plan: Any) -> Self:
        """Return the site with the conditions of the query.

        Args:
            plan: The optimized plan that contains the conditions.
        """
        static = [part for one in self.site.conditions for part in self._static(plan, one)]
        return replace(self, static=tuple(static))

    def pruned_by(self, plan: Any, collected: Sequence[Collected]) -> Self:
        """Return the site pruned by more keys.

        Args:
            plan: The optimized plan that contains the comparisons.
            collected: Keys to add. Later calls may add more.
        """
        data, computed = list(self.data), list(self.computed)
        used, reasons = list(self.used), []
        for one in collected:
            of_columns, reason = self._of_columns(one)
            evaluated = None
            if not one.keys.data.domains:
                reason = "too many keys"
            elif of_columns is None:
                evaluated = self._evaluated_keys(plan, one)
            data += [] if of_columns is None else [of_columns]
            computed += [] if evaluated is None else [evaluated]
            if of_columns is None and evaluated is None:
                reasons.append(f"{reason or 'keys are compared with a computed value'}.")
            else:
                used.append(self._use_of(plan, one))
        return replace(
            self,
            site=self.site.because(*reasons),
            data=tuple(data),
            computed=tuple(computed),
            used=tuple(used),
        )

    def without_keys(self, reason: Unusable) -> Self:
        """Return the site with the reason why some keys cannot prune it."""
        wants_same_rows = reason.not_deterministic
        site = self.site.without_keys(f"{reason}.", wants_same_rows=wants_same_rows)
        return replace(self, site=site)

    def keys_of(self, plan: Any, comparisons: Sequence[Comparison]) -> Keys | None:
        """Return the partition values left at this site as keys for another site; None if unknown.

        Args:
            plan: The plan that contains the comparisons.
            comparisons: Comparisons whose keys come from this site only.
        """
        if not self.has_keys or any(c.operator != "=" for c in comparisons):
            return None
        started = time.perf_counter()
        steps = _steps([c.key_lineage for c in comparisons if c.key_lineage is not None])
        columns = self._read_by(plan, steps, [c.key for c in comparisons])
        kept = None if columns is None else self.scan.kept_values(*self.needed, columns)
        if columns is None or kept is None:
            return None
        wanted = {f"k{i}": c.key for i, c in enumerate(comparisons)}
        found = self._plain(kept, wanted)
        if found is None:
            found = self.scan.evaluated(kept, columns, plan, steps, wanted)
            if pc.any(found[UNDECIDED]).as_py():
                return None
        data = DynamicFilteringData.from_arrow(found.select(list(wanted))).without_nulls()
        return Keys(data, time.perf_counter() - started)

    @property
    def needed(
        self,
    ) -> tuple[
        tuple[DynamicFilteringData, ...], tuple[PartitionFilter | DynamicFilteringData, ...]
    ]:
        """Join keys, and other conditions, that select the partitions needed at this site."""
        return self.data, (*self.static, *self.computed)

    def _static(
        self, plan: Any, condition: PartitionCondition
    ) -> Iterator[PartitionFilter | DynamicFilteringData]:
        scan, expression = self.scan, condition.condition
        steps = condition.lineage.steps
        is_read = (
            scan.is_placeholder
            or expression.kind in _QUICKLY_READ
            or key_with_values(scan, expression) is not None
        )
        if not steps and is_read:
            catalyst = scan.catalyst
            read = catalyst.expression_at(plan, expression.place)
            read = catalyst.named_as(read, scan.leaf.output())
            known = known_of(read, scan.table.metadata.filterable)
            if known is not None:
                yield known.data
                if known.is_exact:
                    return
        columns = self._read_by(plan, steps, [expression])
        if columns is not None:
            text = scan.catalyst.sql(scan.catalyst.expression_at(plan, expression.place))
            yield EvaluatedFilter(
                partial(
                    scan.evaluated,
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
        """Rename keys to the columns of the table that they are compared with.

        Returns:
            The keys, None if they are compared with computed values or cannot prune; and the reason
            why they cannot prune, None if unknown.
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
        (applied,) = Predicate(self.scan.table.metadata.filterable, [data]).filters
        return (data if applied.used_fields else None), applied.unused_because

    def _evaluated_keys(self, plan: Any, one: Collected) -> EvaluatedFilter | None:
        """Return keys as a filter that Spark evaluates; None if it reads other columns too."""
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
            partial(self.scan.evaluated, columns=columns, plan=plan, steps=steps, wanted=wanted),
            columns,
            test,
            keys.data.describe(),
        )

    def _read_by(
        self, plan: Any, steps: Sequence[Step], expressions: Sequence[Expression]
    ) -> tuple[str, ...] | None:
        """Return the columns that expressions read; None unless these are partition keys."""
        read = frozenset().union(*(expression.references for expression in expressions))
        catalyst = self.scan.catalyst
        read |= catalyst.ids_read_by(named_step(catalyst, plan, step) for step in steps)
        names = [name for name, i in self.scan.ids.items() if i in read]
        keys = set(self.scan.table.partition_keys)
        return tuple(names) if names and keys.issuperset(names) else None

    def _plain(self, values: pa.RecordBatch, wanted: Mapping[str, Expression]) -> pa.Table | None:
        """Parse partition values without Spark; None if Spark has to compute an expression."""
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

    def _use_of(self, plan: Any, collected: Collected) -> FilterUse:
        """Describe keys that have pruned the site, for the report."""
        keys, catalyst = collected.keys, self.scan.catalyst
        fields = {
            name: catalyst.sql(catalyst.expression_at(plan, c.target.place))
            for name, c in collected.by_field.items()
        }
        description = keys.data.renamed(fields).describe()
        return FilterUse(tuple(fields.values()), description, keys.data.nbytes, keys.seconds)


def _steps(lineages: Iterable[Lineage]) -> tuple[Step, ...]:
    """Return the steps of several lineages, in order and without duplicates."""
    return tuple(dict.fromkeys(step for lineage in lineages for step in lineage.steps))
