"""Connectors with mistakes in the statistics of files."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from splitlib.model import ColumnStatistics
from tests.conformance.memory_connectors import AbleConnector
from tests.conformance.planted_bugs.plant import TEXT, caught_by


class _Known(AbleConnector):
    """Changes the statistics of the column ``c``."""

    def statistics_of(self, found):
        changed = [
            {**of_file, "c": {**of_file["c"], **self.change(of_file["c"])}}
            if "c" in of_file
            else of_file
            for of_file in found
        ]
        return super().statistics_of(changed)

    def change(self, known):
        raise NotImplementedError


@caught_by("bounds_enclose_the_rows", "statistics_lose_no_match", "statistics_prune")
class SwapsBounds(_Known):
    def change(self, known):
        return {"lower": known["upper"], "upper": known["lower"]}


@caught_by("bounds_enclose_the_rows", "flags_are_of_the_rows", "statistics_lose_no_match")
class HasBoundsOfOtherFiles(AbleConnector):
    def statistics_of(self, found):
        return super().statistics_of([*found[1:], *found[:1]])


@caught_by("bounds_enclose_the_rows", "flags_are_of_the_rows", "statistics_lose_no_match")
class HasBoundsOfOtherColumns(AbleConnector):
    def statistics_of(self, found):
        names = list(found[0]) if found else []
        others = dict(zip(names, [*names[1:], *names[:1]], strict=True))
        if len({str(self.metadata.schema.field(name).type) for name in names}) > 1:
            return super().statistics_of(found)
        return super().statistics_of([{n: f[others[n]] for n in names} for f in found])


@caught_by("bounds_enclose_the_rows", types=TEXT)
class TruncatesUpperBounds(_Known):
    def change(self, known):
        upper = known["upper"]
        return {"upper": upper[:3]} if isinstance(upper, str) else {}


@caught_by("bounds_enclose_the_rows", "statistics_lose_no_match")
class HasTheUpperBoundOfAnExclusiveRange(_Known):
    def change(self, known):
        upper = known["upper"]
        return {"upper": max(upper - 1, known["lower"])} if isinstance(upper, int) else {}


@caught_by("bounds_enclose_the_rows", "statistics_lose_no_match", types=frozenset({"double"}))
class RoundsDoubles(_Known):
    def change(self, known):
        lower, upper = known["lower"], known["upper"]
        if not isinstance(upper, float) or abs(upper) > 1e9:
            return {}
        return {"lower": float(round(lower)), "upper": float(round(upper))}


@caught_by("flags_are_of_the_rows", "statistics_lose_no_match")
class SaysThereAreNoNulls(_Known):
    def change(self, known):
        return {"has_null": False}


@caught_by("flags_are_of_the_rows", types=frozenset({"double"}))
class SaysThereIsNoNaN(_Known):
    def change(self, known):
        return {"has_nan": False}


@caught_by("flags_are_of_the_rows", "statistics_lose_no_match")
class TakesSomeNullsForAll(_Known):
    def change(self, known):
        return {"has_value": False, "lower": None, "upper": None} if known["has_null"] else {}


@caught_by("statistics_prune")
class KnowsNoBounds(_Known):
    def change(self, known):
        return {"lower": None, "upper": None}


@caught_by("statistics_prune", "bounds_enclose_the_rows", "flags_are_of_the_rows")
class DeclaresStatisticsAndHasNone(AbleConnector):
    def statistics_of(self, found):
        return {}


@caught_by(
    "bounds_enclose_the_rows",
    "flags_are_of_the_rows",
    "statistics_lose_no_match",
    "statistics_prune",
)
class HasStatisticsOfTheFirstFileAlone(AbleConnector):
    def statistics_of(self, found):
        known = super().statistics_of(found)
        return {**known, "c": known["c"].take(pa.array([0]))} if found and "c" in known else known


@caught_by("statistics_lose_no_match")
class ComparesFilesByItself(AbleConnector):
    """Drops files without bounds, as if they had no rows."""

    def list_files(self, partitions, predicate):
        for batch in super().list_files(partitions, predicate):
            if predicate.keys.isdisjoint(batch.statistics):
                yield batch
                continue
            known = next(batch.statistics[key] for key in sorted(predicate.keys))
            yield batch.filter(pa.array([bound.is_valid for bound in known.lower]))


@caught_by("bounds_enclose_the_rows", "statistics_lose_no_match", "statistics_prune")
class HasBoundsOfAnotherType(AbleConnector):
    def statistics_of(self, found):
        known = super().statistics_of(found)
        return {**known, "c": _as_text(known["c"])} if "c" in known else known


def _as_text(known: ColumnStatistics) -> ColumnStatistics:
    return replace(known, lower=known.lower.cast(pa.string()), upper=known.upper.cast(pa.string()))
