"""The planner's decisions about a query, as readable lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from splitlib.spark.logical_plan import Expression, Node, Path
from splitlib.spark.planner.decide import Decisions, decide
from splitlib.spark.planner.eligibility import COPIED
from splitlib.spark.planner.join_graph import Comparison, Dimension, JoinFilter
from splitlib.spark.planner.lineage import RELATIONS
from splitlib.spark.planner.prune import sharing_broadcasts
from tests.unit.planner.recorded import RecordedQuery, Scan, table_of

_OPERATORS = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=",
    "GreaterThan": ">", "GreaterThanOrEqual": ">=", "Add": "+", "Subtract": "-", "Multiply": "*",
    "Remainder": "%", "And": "AND", "Or": "OR",
}  # fmt: skip


def sentences(query: RecordedQuery) -> tuple[str, ...]:
    """Return the planner's decisions about a query.

    ``sales.day = days.id`` means that keys of the dimension ``days`` prune the scan of ``sales``.
    ``<- weeks (…)`` means that keys of the table ``weeks`` filter the dimension first. ``… of
    sales`` is an expression of partition columns of ``sales``. ``kept`` before a key means that the
    key is read from the remaining partitions of another scan.
    """
    return tuple(dict.fromkeys(_Sentences(query).lines()))


class _Sentences:
    def __init__(self, query: RecordedQuery) -> None:
        self._query = query
        self._root = query.optimized_tree
        self._names: dict[Path, str] = {}
        self._columns: dict[int | None, str] = {}
        counts: Counter[str] = Counter()
        for node in self._root.walk():
            if node.is_leaf:
                table = table_of(node)
                counts[table] += 1
                name = f"{table}{counts[table] if counts[table] > 1 else ''}"
                self._names[node.path] = name
                for column in node.columns:
                    shown = f"{name}.{column.fields['name']}"
                    self._columns.setdefault(column.attribute_id, shown)

    def lines(self) -> Iterator[str]:
        decisions: Decisions[Scan] = decide(self._query)
        for path, site in decisions.sites.items():
            name = self._names[path]
            for join_filter in site.filters:
                yield self._filter(name, join_filter)
            for join_filter in site.from_sites:
                yield self._filter(name, join_filter, "kept ")
            for condition in site.conditions:
                if condition.condition.kind != "IsNotNull":  # Spark adds this one to every join key
                    yield f"{name} only where {self._text(condition.condition)}"
            for reason in site.reasons:
                yield f"{name}: {reason}"
        for number, group in enumerate(decisions.run_once):
            for one in group:
                columns = [str(c.fields["name"]) for c in one.leaf.columns]
                read = ", ".join(columns[i] for i in sorted(one.read))
                first = "first " if number < len(decisions.run_once) - 1 else ""
                yield f"run {first}once: {self._names[one.leaf.path]} for {read or 'its rows'}"
        for scan in decisions.unread:
            yield f"unread: {scan[0]}"
        for (table, _), why in decisions.unpruned.items():
            yield f"{'copied' if why == COPIED else 'not selected'}: {table}"
        sharing = sharing_broadcasts(self._root, decisions.sites.keys(), self._broadcast_of)
        if sharing:
            yield f"share a broadcast: {', '.join(sorted(self._names[path] for path in sharing))}"

    def _filter(self, name: str, join_filter: JoinFilter, of: str = "") -> str:
        comparisons = [self._comparison(name, c, of) for c in join_filter.comparisons]
        return " and ".join(comparisons) + self._narrowing(join_filter.dimension)

    def _comparison(self, name: str, comparison: Comparison, of: str) -> str:
        column = comparison.lineage.column
        shown = self._columns.get(column)
        target = shown if shown is not None and shown.startswith(f"{name}.") else None
        if target is None or comparison.lineage.steps:
            target = f"{self._text(comparison.target)} of {name}"
        return f"{target} {comparison.operator} {of}{self._text(comparison.key)}"

    def _narrowing(self, dimension: Dimension) -> str:
        return "".join(
            f" <- {self._name_of(other)} {' AND '.join(map(self._text, conditions))}"
            + self._narrowing(other)
            for other, conditions in dimension.narrowed_by
        )

    def _name_of(self, dimension: Dimension) -> str:
        leaves = [node for node in dimension.node.walk() if node.is_leaf]
        return " + ".join(self._names[leaf.path] for leaf in leaves)

    def _text(self, expression: Expression) -> str:
        parts = [self._text(child) for child in expression.children]
        match expression.kind:
            case "AttributeReference":
                return self._columns.get(expression.attribute_id, str(expression.fields["name"]))
            case "Literal":
                return str(expression.fields["value"])
            case "Cast":
                return f"CAST({parts[0]} AS {expression.fields['dataType']})"
            case kind if kind in _OPERATORS and len(parts) == 2:
                return f"({parts[0]} {_OPERATORS[kind]} {parts[1]})"
        return f"{expression.kind}({', '.join(parts)})"

    def _broadcast_of(self, node: Node) -> frozenset[str] | None:
        """Return the tables of a join's build side. None if it is too large for a broadcast."""
        leaves = [leaf for leaf in node.walk() if leaf.kind in RELATIONS]
        sizes = [self._query.size_of(leaf, ()) for leaf in leaves]
        if any(size is None or size > self._query.broadcast_threshold for size in sizes):
            return None
        return frozenset(map(table_of, leaves)) or None
