"""Recorded plans, with which the planner's decisions are tested without Spark."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any

from splitlib.config import SplitConfig
from splitlib.spark.logical_plan import Expression, Node, Path, Place, parse_plan
from splitlib.spark.planner.eligibility import TypeNames
from splitlib.spark.planner.lineage import RELATIONS, leaf_ids

PLANS = {
    path.name.removesuffix(".json.gz"): path
    for path in sorted((FilePath(__file__).parent / "plans").glob("*.json.gz"))
}
"""Files of recorded plans by Spark version."""

MB = 1024**2
_SIZES = {"huge": 10**6 * MB, "unknown": None, "middling": 100 * MB}

Scan = tuple[str, frozenset[int | None]]
"""A scan, as the name of its table and the ids of the partition columns."""


def load(version: str) -> dict[str, dict[str, Any]]:
    """Return the recorded plans of one Spark version, by the name of the query shape."""
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(PLANS[version].read_bytes()))
    return found


@dataclass(frozen=True)
class RecordedQuery:
    """A recorded query, as an implementation of ``splitlib.spark.planner.decide.PlanFacts``."""

    recorded: Mapping[str, Any]

    @cached_property
    def analyzed_tree(self) -> Node:
        return parse_plan(self.recorded["analyzed"])

    @cached_property
    def optimized_tree(self) -> Node:
        return parse_plan(self.recorded["optimized"])

    @cached_property
    def scan_paths(self) -> Mapping[Scan, Collection[Path]]:
        found: dict[Scan, list[Path]] = {}
        for node in self.analyzed_tree.walk():
            keys = _partition_keys(node)
            if keys:
                found.setdefault((table_of(node), keys), []).append(node.path)
        return found

    @property
    def partition_columns(self) -> frozenset[int]:
        return frozenset(i for _, keys in self.scan_paths for i in keys if i is not None)

    @property
    def deterministic(self) -> bool:
        return bool(self.recorded["deterministic"])

    @property
    def is_command(self) -> bool:
        return False

    @property
    def dimension_bytes(self) -> int:
        return SplitConfig().planner_dimension_bytes

    @property
    def broadcast_threshold(self) -> int:
        return 10 * MB

    def scan_of(self, leaf: Node) -> Scan | None:
        if leaf.kind not in RELATIONS:
            return None
        ids = leaf_ids(leaf)
        return next((scan for scan in self.scan_paths if scan[1] <= ids), None)

    def is_listed(self, scan: Scan) -> bool:
        return True

    def places_of(self, scan: Scan) -> frozenset[str]:
        return frozenset({scan[0]})

    def places_read_by(self, leaf: Node) -> frozenset[str]:
        return frozenset({table_of(leaf)})

    def size_of(self, leaf: Node, copied: Collection[Scan]) -> int | None:
        return _SIZES.get(table_of(leaf), MB)

    def rows_of(self, leaf: Node) -> int | None:
        return None

    @cached_property
    def _types(self) -> dict[Place, TypeNames]:
        return {
            Place(tuple(node), number, tuple(inside)): TypeNames(*names)
            for node, number, inside, *names in self.recorded["types"]
        }

    def type_of(self, expression: Expression) -> TypeNames:
        return self._types[expression.place]


def table_of(leaf: Node) -> str:
    """Return the name of the table that a leaf reads, or the leaf's kind if it reads no table."""
    table = leaf.fields.get("catalogTable") or leaf.fields.get("tableMeta") or {}
    return str(table.get("table", leaf.kind))


def _partition_keys(leaf: Node) -> frozenset[int | None]:
    table = leaf.fields.get("catalogTable") or leaf.fields.get("tableMeta") or {}
    names = str(table.get("partitionColumnNames") or "[]").strip("[]").split(", ")
    return frozenset(e.attribute_id for e in leaf.columns if e.fields["name"] in names)
