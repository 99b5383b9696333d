"""Find tables whose needed partitions can be requested by name once the join keys are collected.

For these tables, the names of all partitions are not listed while the keys are collected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import pyarrow as pa

from splitlib.filtering.partition_names import has_one_spelling
from splitlib.spark.logical_plan import Expression
from splitlib.spark.planner.scan_sites.prunable import PrunableScan
from splitlib.spark.planner.scan_sites.scan_site import ScanSite


def named_tables(sites: Collection[tuple[PrunableScan, ScanSite]]) -> frozenset[str]:
    """Return the tables whose partitions can be requested by name at every site keys may prune.

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
    spelling. It is also possible if a condition sets the first key, as all names start with it.

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
