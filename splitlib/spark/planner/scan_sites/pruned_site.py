"""A scan site with what the keys leave of it, so far as they are known.

The base class of two kinds: partitions that Spark knows, of which a mask says which are kept, and
tables of named catalogs, which splitlib enumerates with the filters themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.plan_report import FilterUse
from splitlib.spark.planner.join_graph import Comparison
from splitlib.spark.planner.keys import Keys, Unusable
from splitlib.spark.planner.scan_sites.scan_site import ScanSite

COPIED = "the optimizer has put a copy of it into the plan, which may need every partition."
"""Why a scan is read whole of whose copies the keys are not known."""


class Collected(NamedTuple):
    """Keys, and what they are compared with; all comparisons hold together."""

    comparisons: tuple[Comparison, ...]
    keys: Keys


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PrunedSite(ABC):
    """One scan site."""

    catalyst: Catalyst
    site: ScanSite
    used: tuple[FilterUse, ...] = ()
    """The keys that have pruned it, for the report."""

    @abstractmethod
    def prefetch(self) -> None:
        """Ask for what will be needed, while something else is being waited for."""

    @abstractmethod
    def pruned_by(self, plan: Any, collected: Sequence[Collected]) -> Self:
        """The same site, of which only what meets the keys is left.

        Args:
            plan: The optimized plan, in which the comparisons stand.
            collected: What is known by now; more may come.
        """

    def keys_of(self, plan: Any, comparisons: Sequence[Comparison]) -> Keys | None:
        """What is left of its partition values, as keys for another site; None if that is unknown.

        Args:
            plan: Where the comparisons stand.
            comparisons: Whose keys come from this site and from nothing else.
        """
        return None

    def without_keys(self, reason: Unusable) -> Self:
        """The same site, which some keys cannot prune."""
        site = self.site.because(f"{reason}.")
        wants_same_rows = site.wants_same_rows or reason.not_deterministic
        return replace(self, site=replace(site, wants_same_rows=wants_same_rows))

    def _use_of(self, plan: Any, collected: Collected) -> FilterUse:
        """What the report says of keys that have pruned it."""
        comparisons, keys = collected
        fields = {
            f"k{i}": self.catalyst.sql(self.catalyst.expression_at(plan, c.target.place))
            for i, c in enumerate(comparisons)
        }
        description = keys.data.renamed(fields).describe()
        return FilterUse(tuple(fields.values()), description, keys.data.nbytes, keys.seconds)
