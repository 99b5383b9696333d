"""Which partition keys are bound to values that name partitions, before the values are known.

Where it will be known what partitions are called, nobody needs to list all names meanwhile.
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
    """The names of tables of which all sites that keys may prune need partitions of known names.

    Args:
        sites: Of a query, and what stands there.
    """
    times = Counter(scan for scan, _ in sites)
    others = {
        scan.name
        for scan, site in sites
        if (not are_named(scan, site) if site.may_have_keys else times[scan] > 1)
    }
    return frozenset(scan.name for scan, _ in sites) - others


def are_named(scan: PrunableScan, site: ScanSite) -> bool:
    """Whether it will be known what the partitions are called that a site needs.

    Joins and conditions bind all keys to values with one spelling, or a condition says the value of
    the first key, with which all names begin.

    Args:
        scan: What stands at the site.
        site: The place, and what prunes it.
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
    # what the table says is asked of the JVM
    return has_one_spelling(key) or (
        has_one_spelling(key, canonical=True) and scan.has_canonical_values
    )


def key_with_values(scan: PrunableScan, condition: Expression) -> str | None:
    """The key that a condition compares with a few literals, None if it has several spellings."""
    if condition.kind not in ("EqualTo", "In"):
        return None
    column, *values = sorted(condition.children, key=lambda side: side.kind == "Literal")
    if any(value.kind != "Literal" for value in values):
        return None
    name = scan.names.get(column.attribute_id) if column.kind == "AttributeReference" else None
    keys = scan.table.metadata.partition_schema
    return name if name in keys.names and _has_one_spelling(scan, keys.field(name)) else None
