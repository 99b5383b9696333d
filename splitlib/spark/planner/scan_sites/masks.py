"""Which of the partitions that Spark knows are kept: a mask for each place that reads them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.spark.logical_plan import Expression
from splitlib.spark.plan_report import ScanPruning, strip
from splitlib.spark.planner.join_graph import Comparison
from splitlib.spark.planner.keys import Keys
from splitlib.spark.planner.lineage import Step
from splitlib.spark.planner.scan_sites.partitioned import UNDECIDED, PartitionedScan, Pruned
from splitlib.spark.planner.scan_sites.pruned_site import COPIED, Collected, PrunedSite


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MaskedSite(PrunedSite):
    """A scan site whose partitions are compared with the keys here."""

    scan: PartitionedScan
    """What stands there."""
    few: int
    """So many partitions are not worth the trouble."""
    before: pa.BooleanArray | None = None
    """What static conditions leave; None = it is not pruned."""
    mask: pa.BooleanArray | None = None
    """What the keys leave of that."""

    def prefetch(self) -> None:
        """See :class:`PrunedSite`."""
        self.scan.prefetch()

    def pruned_by(self, plan: Any, collected: Sequence[Collected]) -> Self:
        """See :class:`PrunedSite`."""
        total = self.scan.partitions_total
        if total <= self.few:
            return replace(self, site=self.site.because(f"it has only {total} partitions."))
        wanted: dict[str, Expression] = {}
        filters = []
        excluded: dict[str, pa.Scalar] = {}
        steps: dict[Step, None] = {}
        for number, (comparisons, keys) in enumerate(collected):
            names = {}
            for i, comparison in enumerate(comparisons):
                names[f"k{i}"] = f"f{number}_{i}"
                wanted[f"f{number}_{i}"] = comparison.target
                steps |= dict.fromkeys(comparison.lineage.steps)
            filters.append(keys.data.renamed(names))
            excluded |= {names[name]: end for name, end in keys.excluded.items()}
        static = {f"s{i}": c.condition for i, c in enumerate(self.site.conditions)}
        for condition in self.site.conditions:
            steps |= dict.fromkeys(condition.lineage.steps)
        values = self.scan.evaluate(plan, tuple(steps), {**wanted, **static})
        before = self.before
        if before is None:
            before = pa.repeat(True, total)
            for name in static:
                before = pc.and_(before, pc.fill_null(_one(values[name]), False))
        batch = pa.record_batch({name: _one(values[name]) for name in wanted})
        predicate = Predicate(batch.schema, filters)
        mask = pc.and_(before if self.mask is None else self.mask, predicate.match(batch))
        for name, end in excluded.items():
            mask = pc.and_(mask, pc.fill_null(pc.not_equal(batch[name], end), False))
        mask = pc.or_(mask, _one(values[UNDECIDED]))
        unused = [f.unused_because for f in predicate.filters]
        used = tuple(
            self._use_of(plan, what)
            for what, reason in zip(collected, unused, strict=True)
            if reason is None
        )
        site = self.site.because(*(reason for reason in unused if reason is not None))
        return replace(self, site=site, used=self.used + used, before=before, mask=mask)

    def keys_of(self, plan: Any, comparisons: Sequence[Comparison]) -> Keys | None:
        """See :class:`PrunedSite`."""
        if self.mask is None or any(c.operator != "=" for c in comparisons):
            return None
        started = time.perf_counter()
        lineages = [c.key_lineage for c in comparisons if c.key_lineage is not None]
        steps = dict.fromkeys(step for lineage in lineages for step in lineage.steps)
        wanted = {f"k{i}": c.key for i, c in enumerate(comparisons)}
        values = self.scan.evaluate(plan, tuple(steps), wanted).filter(self.mask)
        if pc.any(values[UNDECIDED]).as_py():
            return None
        data = DynamicFilteringData.from_arrow(values.select(list(wanted))).without_nulls()
        return Keys(data, time.perf_counter() - started)


def pruned_scan(
    scan: PartitionedScan, sites: Sequence[MaskedSite], *, is_copied: bool
) -> tuple[Pruned | None, ScanPruning]:
    """The scan of what any of its sites needs, None if it is left to Spark; and why.

    Args:
        scan: What stands at all these sites.
        sites: Where it stands in the optimized plan.
        is_copied: Whether it may also stand where nothing is known of it.
    """
    reasons = tuple(dict.fromkeys(reason for s in sites for reason in s.site.reasons))
    used = tuple(dict.fromkeys(use for s in sites for use in s.used))
    report = ScanPruning(scan.name, used, reasons=reasons)
    if is_copied:
        return None, report.because(COPIED)
    pairs = [(s.mask, s.before) for s in sites if s.mask is not None]
    if not pairs:
        return None, report.because("no join compares its partition columns.", if_first=True)
    report = replace(report, partitions_total=scan.partitions_total)
    if len(pairs) < len(sites):
        return None, report.because("the same scan is also read where no keys reach it.")
    mask = before = pa.repeat(False, scan.partitions_total)
    for kept, read in pairs:
        mask, before = pc.or_(mask, kept), pc.or_(before, read)
    if mask.true_count == before.true_count:
        return None, report.because("its keys are in every partition that is read.")
    pruned = scan.pruned(mask)
    return pruned, replace(
        report,
        partitions_kept=mask.true_count,
        files=pruned.files,
        nbytes=pruned.nbytes,
        files_total=scan.files_total,
        nbytes_total=scan.nbytes_total,
        strip=strip(mask.to_pylist()),
    )


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()
