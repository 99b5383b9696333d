"""Which of the partitions that Spark knows are kept: a mask for each place that reads them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.predicate import Predicate
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Expression, Node
from splitlib.spark.plan_report import ScanPruning, strip
from splitlib.spark.planner.join_graph import Comparison
from splitlib.spark.planner.keys import Keys
from splitlib.spark.planner.lineage import Step
from splitlib.spark.planner.scan_sites.occurrence import COPIED, Collected, Occurrence
from splitlib.spark.planner.scan_sites.partitioned import UNDECIDED, PartitionedScan, Pruned


class MaskedScan(Occurrence):
    """A scan whose partitions are compared with the keys here.

    Args:
        catalyst: Of the session.
        leaf: Where it stands.
        scan: What stands there.
        few: So many partitions are not worth the trouble.
    """

    def __init__(self, catalyst: Catalyst, leaf: Node, scan: PartitionedScan, few: int) -> None:
        super().__init__(catalyst, leaf)
        self.scan = scan
        self._few = few
        self.before: pa.BooleanArray | None = None
        """What static conditions leave; None = it is not pruned."""
        self.mask: pa.BooleanArray | None = None
        """What the keys leave of that."""

    def prefetch(self) -> None:
        """See :class:`Occurrence`."""
        self.scan.prefetch()

    def apply(self, plan: Any, collected: Sequence[Collected]) -> None:
        """See :class:`Occurrence`."""
        total = self.scan.partitions_total
        if total <= self._few:
            self.reasons.append(f"it has only {total} partitions.")
            return
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
        conditions = {f"s{i}": c for i, c in enumerate(self.conditions)}
        for condition in conditions.values():
            steps |= dict.fromkeys(condition.lineage.steps)
        static = {name: c.condition for name, c in conditions.items()}
        values = self.scan.evaluate(plan, tuple(steps), {**wanted, **static})
        if self.mask is None:
            self.before = pa.repeat(True, total)
            for name in static:
                self.before = pc.and_(self.before, pc.fill_null(_one(values[name]), False))
            self.mask = self.before
        batch = pa.record_batch({name: _one(values[name]) for name in wanted})
        predicate = Predicate(batch.schema, filters)
        mask = pc.and_(self.mask, predicate.match(batch))
        for name, end in excluded.items():
            mask = pc.and_(mask, pc.fill_null(pc.not_equal(batch[name], end), False))
        self.mask = pc.or_(mask, _one(values[UNDECIDED]))
        for what, applied in zip(collected, predicate.filters, strict=True):
            if applied.unused_because is not None:
                self.reasons.append(applied.unused_because)
            else:
                self._note(plan, what)

    def keys_of(self, plan: Any, comparisons: Sequence[Comparison]) -> Keys | None:
        """See :class:`Occurrence`."""
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


def rewritten(
    scan: PartitionedScan, occurrences: Sequence[MaskedScan], *, is_copied: bool
) -> tuple[Pruned | None, ScanPruning]:
    """The scan of what any of its occurrences needs, None if it is left to Spark; and why.

    Args:
        scan: What stands in all these places.
        occurrences: Where it stands in the optimized plan.
        is_copied: Whether it may also stand where nothing is known of it.
    """
    reasons = tuple(dict.fromkeys(reason for o in occurrences for reason in o.reasons))
    used = tuple(dict.fromkeys(use for o in occurrences for use in o.used))
    report = ScanPruning(scan.name, used, reasons=reasons)
    if is_copied:
        return None, report.because(COPIED)
    pairs = [(o.mask, o.before) for o in occurrences if o.mask is not None]
    if not pairs:
        return None, report.because("no join compares its partition columns.", if_first=True)
    report = replace(report, partitions_total=scan.partitions_total)
    if len(pairs) < len(occurrences):
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
