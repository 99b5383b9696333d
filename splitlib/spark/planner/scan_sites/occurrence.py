"""A scan where it stands in the optimized plan, and the filters that reach it there.

The base class of two kinds: partitions that Spark knows, of which a mask says which are kept, and
tables of named catalogs, which splitlib enumerates with the filters themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.logical_plan import Node
from splitlib.spark.plan_report import FilterUse
from splitlib.spark.planner.join_graph import Comparison, JoinFilter, StaticCondition
from splitlib.spark.planner.keys import Keys

COPIED = "the optimizer has put a copy of it into the plan, which may need every partition."
"""Why a scan is read whole of whose copies the keys are not known."""


class Collected(NamedTuple):
    """Keys, and what they are compared with; all comparisons hold together."""

    comparisons: tuple[Comparison, ...]
    keys: Keys


class Occurrence(ABC):
    """One place in which a scan is read.

    Args:
        catalyst: Of the session.
        leaf: The place.
    """

    def __init__(self, catalyst: Catalyst, leaf: Node) -> None:
        self._catalyst = catalyst
        self.leaf = leaf
        self.filters: list[JoinFilter] = []
        """Of dimensions whose keys are worth being collected."""
        self.from_scans: list[JoinFilter] = []
        """Whose keys are partition values of another scan."""
        self.conditions: list[StaticCondition] = []
        self.reasons: list[str] = []
        """Why something does not prune it, in sentences."""
        self.used: list[FilterUse] = []

    @abstractmethod
    def prefetch(self) -> None:
        """Ask for what will be needed, while something else is being waited for."""

    @abstractmethod
    def apply(self, plan: Any, collected: Sequence[Collected]) -> None:
        """Leave only what meets the keys.

        Args:
            plan: The optimized plan, in which the comparisons stand.
            collected: What is known by now; more may come.
        """

    def keys_of(self, plan: Any, comparisons: Sequence[Comparison]) -> Keys | None:
        """What is left of its partition values, as keys for another scan; None if that is unknown.

        Args:
            plan: Where the comparisons stand.
            comparisons: Whose keys come from this scan and from nothing else.
        """
        return None

    def _note(self, plan: Any, collected: Collected) -> None:
        """Remember for the report that keys were used."""
        comparisons, keys = collected
        fields = {
            f"k{i}": self._catalyst.sql(self._catalyst.expression_at(plan, c.target.place))
            for i, c in enumerate(comparisons)
        }
        description = keys.data.renamed(fields).describe()
        self.used.append(
            FilterUse(tuple(fields.values()), description, keys.data.nbytes, keys.seconds)
        )
