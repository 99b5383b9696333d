"""Compare the planning of Iceberg scans with PyIceberg's planning of the same snapshots.

The table is open before the measurement starts, and only metadata is read. PyIceberg binds its
filter again for each file, so its time grows with the number of files times the number of keys.
"""

from __future__ import annotations

from pathlib import Path

from pyiceberg.catalog import Catalog
from pyiceberg.expressions import AlwaysTrue, BooleanExpression, In, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

import splitlib
from benchmarks.iceberg_tables import KEY, build_table, open_catalog
from benchmarks.measure import Contender, Sample, in_turns, timed
from benchmarks.results import Comparison, Result, within
from benchmarks.sizes import Sizes
from splitlib_iceberg import metadata_cache

_MANIFESTS = 50
_NEEDED_MANIFESTS = (7, 33)


def run(sizes: Sizes, directory: Path) -> Result:
    catalog = open_catalog(directory / "iceberg")
    keys = _many_keys(catalog, sizes)
    manifests = _many_manifests(catalog, sizes)
    catalog.close()
    bare, given, ours, more, again = (measured.name for measured in keys.contenders)
    targets = [
        within(f"{ours} / {given}", keys[ours], keys[given], 1 / 50),
        within(f"{ours} / {bare}", keys[ours], keys[bare], 1.3),
        within(f"{more} / {bare}", keys[more], keys[bare], 2.0),
        within(f"{again} / {ours}", keys[again], keys[ours], 1 / 5),
    ]
    return Result("iceberg", [keys, manifests], targets)


def _many_keys(catalog: Catalog, sizes: Sizes) -> Comparison:
    """Compare planning with one key per matching file, and with ten times as many keys.

    Half of the files match.
    """
    files = sizes.planned
    table = build_table(catalog, manifests=1, files=files)
    few = list(range(0, 2 * files, 4))
    many = [*few, *range(1, 18 * len(few), 2)]
    contenders = [
        _theirs("PyIceberg, no filter", table, None, files),
        _theirs(f"PyIceberg, In of {len(few):,} keys", table, few, len(few)),
        _ours(f"splitlib, {len(few):,} keys", catalog, table, few, len(few)),
        _ours(f"splitlib, {len(many):,} keys", catalog, table, many, len(few)),
        _ours(f"splitlib, {len(few):,} keys, again", catalog, table, few, len(few), again=True),
    ]
    in_turns("iceberg, warming up", contenders, min(1, sizes.warm_up))
    title = f"plan of {files:,} files in one manifest"
    measured = in_turns("iceberg, many keys", contenders, sizes.repeat)
    return Comparison(title, "seconds", contenders[0].name, measured)


def _many_manifests(catalog: Catalog, sizes: Sizes) -> Comparison:
    """Compare planning with keys that match files of 2 of 50 manifests.

    Most keys match no file. There are more than 200 keys, because PyIceberg does not prune
    manifests by more than 200 keys.
    """
    of_each = sizes.in_manifest
    table = build_table(catalog, manifests=_MANIFESTS, files=of_each)
    first = [2 * of_each * number for number in range(_MANIFESTS)]
    needed = [first[number] for number in _NEEDED_MANIFESTS]
    days = [day + 2 * i for day in needed for i in range(3)]
    between_files = [day + 2 * i + 1 for day in needed for i in range(min(150, of_each - 1))]
    keys = [*days, *between_files, *(day - 1 for day in first)]
    contenders = [
        _theirs(f"PyIceberg, In of {len(keys)} keys", table, keys, len(days)),
        _ours(f"splitlib, {len(keys)} keys", catalog, table, keys, len(days)),
    ]
    title = (
        f"plan of {_MANIFESTS * of_each:,} files in {_MANIFESTS} manifests, "
        f"{len(_NEEDED_MANIFESTS)} needed"
    )
    measured = in_turns("iceberg, many manifests", contenders, sizes.repeat)
    return Comparison(title, "seconds", contenders[0].name, measured)


def _theirs(name: str, table: Table, keys: list[int] | None, expected: int) -> Contender:
    condition: BooleanExpression = AlwaysTrue()
    if keys is not None:
        condition = In(term=Reference(KEY), values=set(map(literal, keys)))

    def run() -> Sample:
        found: list[object] = []
        scan = table.scan(row_filter=condition)
        sample = timed(lambda: found.extend(scan.plan_files()))
        return sample._replace(counts={"files": _checked(len(found), expected)})

    return Contender(name, run)


def _ours(
    name: str,
    catalog: Catalog,
    table: Table,
    keys: list[int],
    expected: int,
    *,
    again: bool = False,
) -> Contender:
    """Return a contender that plans with an empty metadata cache.

    With ``again``, the same snapshot has been planned before, so its metadata is in the cache.
    """
    data = splitlib.DynamicFilteringData.from_values({KEY: keys})

    def run() -> Sample:
        metadata_cache.shared.clear()
        with splitlib.load_table(".".join(table.name()), "iceberg", catalog=catalog) as opened:
            enumerator = splitlib.DynamicFileEnumerator(opened)
            enumerator.set_dynamic_filtering_data(data)
            if again:
                _files(enumerator)
                enumerator = splitlib.DynamicFileEnumerator(opened)
                enumerator.set_dynamic_filtering_data(data)
            sample = timed(lambda: _files(enumerator))
        metrics = enumerator.metrics
        return sample._replace(
            counts={
                "files": _checked(metrics.files_selected, expected),
                "manifests": metrics.manifests_opened,
                "storage_requests": metrics.storage_requests,
            }
        )

    return Contender(name, run)


def _files(enumerator: splitlib.DynamicFileEnumerator) -> int:
    return sum(len(selected.files) for selected in enumerator.select_files())


def _checked(files: int, expected: int) -> int:
    if files != expected:
        raise RuntimeError(f"{files} files, {expected} expected")
    return files
