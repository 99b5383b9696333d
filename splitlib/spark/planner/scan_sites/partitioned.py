"""Scans of partitioned tables in a plan: their partitions, and how to read some of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from splitlib.arrow.casting import try_cast
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan, internal_rows
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.logical_plan import Expression, Path
from splitlib.spark.planner.lineage import Step, UnionOutput
from splitlib.spark.planner.scan_sites.session_table import SessionTable
from splitlib.spark.sql_text import quoted

UNDECIDED = "__splitlib_undecided"


@dataclass(frozen=True, slots=True)
class Pruned:
    """A scan of fewer partitions."""

    node: Any
    """To be put in the place of the leaf."""
    files: int | None = None
    nbytes: int | None = None
    partitions_total: int | None = None
    partitions_kept: int | None = None


Ids = Mapping[str, int | None]
"""The id of each attribute of a leaf by its name, in the order of its output."""


class Scan:
    """One leaf of the analyzed plan, which may stand there several times."""

    def __init__(
        self, catalyst: Catalyst, leaf: Any, ids: Ids, name: str, schema: StructType
    ) -> None:
        self._catalyst = catalyst
        self._leaf = leaf
        self._ids = ids
        self._names = {i: name for name, i in ids.items()}
        self.name = name
        self.schema = schema
        """The columns by which it can be pruned."""
        self.paths: list[Path] = []
        """Where it stands in the plan."""

    @property
    def leaf(self) -> Any:
        """The leaf itself."""
        return self._leaf

    def reading_nothing(self) -> Any:
        """A scan of nothing, which the optimizer can take neither for empty nor for this table.

        None if there is none, or if it would save nothing.
        """
        return None

    def _attributes(self, names: Iterable[str]) -> Any:
        """The leaf's own attributes for some of its columns, a ``Seq``."""
        positions = list(self._ids)
        return self._catalyst.attributes(self._leaf, [positions.index(name) for name in names])


class PartitionedScan(Scan, ABC):
    """A scan whose partitions are known to Spark, or to the session's catalog."""

    def __init__(self, catalyst: Catalyst, leaf: Any, ids: Ids, name: str, keys: Any) -> None:
        super().__init__(catalyst, leaf, ids, name, StructType.fromJson(json.loads(keys.json())))
        self._keys = keys
        self.files_total: int | None = None
        """Files of all partitions; None = not known, as they are not listed."""
        self.nbytes_total: int | None = None
        """Size of these files."""

    @property
    @abstractmethod
    def partitions_total(self) -> int:
        """How many there are."""

    def prefetch(self) -> None:
        """Ask for the partitions, in whatever thread."""

    @abstractmethod
    def pruned(self, mask: pa.BooleanArray) -> Pruned:
        """The scan of the partitions for which ``mask`` is true."""

    @abstractmethod
    def _values(self) -> Any:
        """The partitions as a plan, under the attributes that the leaf itself has for them."""

    @cached_property
    def _relation(self) -> Any:
        return self._values()

    def evaluate(
        self, plan: Any, steps: Sequence[Step], wanted: Mapping[str, Expression]
    ) -> pa.Table:
        """Expressions over partition columns; see :func:`evaluate`."""
        return evaluate(self._catalyst, self._relation, plan, steps, wanted)


def evaluate(
    catalyst: Catalyst,
    frame: Any,
    plan: Any,
    steps: Sequence[Step],
    wanted: Mapping[str, Expression],
) -> pa.Table:
    """Expressions as Spark itself computes them, a row per partition.

    Args:
        catalyst: Of the session.
        frame: A plan with a row per partition, under the attributes that the scan has for them.
        plan: Where the expressions stand.
        steps: What they build upon, in order.
        wanted: By the name of the column.

    Returns:
        A column for each of ``wanted``, and :data:`UNDECIDED`: whether a value is none of its type,
        or an expression raises for it, so that the partition has to stay.
    """
    doubts = [a for a in catalyst.output(frame) if a.name() == UNDECIDED]
    named = [_named(catalyst, plan, step) for step in steps]
    columns = [
        catalyst.alias(catalyst.expression_at(plan, expression.place), name)
        for name, expression in wanted.items()
    ]
    try:
        return _projected(catalyst, frame, named, columns, doubts)
    except JVM_ERRORS:
        return _attempted(catalyst, frame, named, columns, doubts)


def _projected(
    catalyst: Catalyst, frame: Any, named: Sequence[Any], columns: Sequence[Any], doubts: list[Any]
) -> pa.Table:
    """``columns``, and whether there is any of ``doubts``."""
    for one in named:
        frame = catalyst.projected(frame, [*catalyst.output(frame), one])
    doubt = catalyst.alias(catalyst.any_of(doubts), UNDECIDED)
    found = catalyst.dataframe(catalyst.projected(frame, [*columns, doubt])).toArrow()
    return found.combine_chunks()


def _attempted(
    catalyst: Catalyst, frame: Any, named: Sequence[Any], columns: Sequence[Any], doubts: list[Any]
) -> pa.Table:
    """The same with a null, and a doubt, in the place of what raises."""
    steps = []
    for one in named:
        if one.nodeName() == "Alias":
            raised = catalyst.alias(catalyst.raises(one.child()), "raised")
            steps += [raised, catalyst.alias(catalyst.attempted(one.child()), one.name(), one)]
            doubts = [*doubts, raised.toAttribute()]
    doubts = [*doubts, *(catalyst.raises(column.child()) for column in columns)]
    tried = [catalyst.alias(catalyst.attempted(c.child()), c.name(), c) for c in columns]
    return _projected(catalyst, frame, steps, tried, doubts)


def _named(catalyst: Catalyst, plan: Any, step: Step) -> Any:
    if isinstance(step, UnionOutput):
        union = catalyst.node(plan, step.node)
        below = catalyst.node(plan, (*step.node, step.child))
        outer = catalyst.attribute(union, step.position)
        return catalyst.alias(catalyst.attribute(below, step.position), outer.name(), outer)
    return catalyst.expression_at(plan, step)


def typed_values(catalyst: Catalyst, values: pa.Table, schema: StructType, attributes: Any) -> Any:
    """Partition values, of text or typed, as a plan of ``attributes`` and :data:`UNDECIDED`."""
    typed = [F.col(quoted(key.name)).try_cast(key.dataType) for key in schema]
    doubt = F.lit(False)
    for key, value in zip(schema, typed, strict=True):
        doubt = doubt | (value.isNull() & F.col(quoted(key.name)).isNotNull())
    rows = catalyst.spark.createDataFrame(values).select(*typed, doubt.alias(UNDECIDED))
    doubtful = catalyst.attribute(analyzed_plan(rows), len(schema))
    return catalyst.local_relation(attributes.appended(doubtful), internal_rows(rows))


class CatalogScan(PartitionedScan):
    """A table whose partitions the session's catalog keeps."""

    def __init__(
        self,
        catalyst: Catalyst,
        leaf: Any,
        ids: Ids,
        table: SessionTable,
        metadata: Any,
        threads: int,
    ) -> None:
        super().__init__(catalyst, leaf, ids, table.name, metadata.partitionSchema())
        self._table = table
        self._metadata = metadata
        self._threads = threads

    @property
    def partitions_total(self) -> int:
        """See :class:`PartitionedScan`."""
        return len(self._table.names()[0])

    def prefetch(self) -> None:
        """See :class:`PartitionedScan`."""
        self._table.prefetch()

    def evaluate(
        self, plan: Any, steps: Sequence[Step], wanted: Mapping[str, Expression]
    ) -> pa.Table:
        """See :class:`PartitionedScan`; the columns themselves are read without Spark."""
        found = {name: self._plain(expression) for name, expression in wanted.items()}
        if steps or any(column is None for column in found.values()):
            return super().evaluate(plan, steps, wanted)
        found[UNDECIDED] = pa.repeat(False, self.partitions_total)
        return pa.table(found)

    def _plain(self, expression: Expression) -> pa.Array | None:
        """A column, or whether it has a value; None for whatever Spark has to compute."""
        if expression.kind == "IsNotNull":
            column = self._plain(expression.children[0])
            return None if column is None else pc.is_valid(column)
        name = self._names.get(expression.attribute_id)
        if name is None or expression.kind != "AttributeReference":
            return None
        texts = self._table.names()[1][name]
        kind = self._table.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_date(kind) or pa.types.is_string(kind)):
            return None
        values = try_cast(texts, kind)
        # each is spelled as it would be written: no doubt what Spark takes it for
        return values if values.cast(pa.string()).equals(texts) else None

    def _values(self) -> Any:
        texts = pa.table(self._table.names()[1])
        attributes = self._attributes(self.schema.names)
        return typed_values(self._catalyst, texts, self.schema, attributes)

    def pruned(self, mask: pa.BooleanArray) -> Pruned:
        """See :class:`PartitionedScan`."""
        return self._reading(self._table.partitions(self._table.names()[0].filter(mask)), mask)

    def reading_nothing(self) -> Any:
        """See :class:`Scan`."""
        if self._catalyst.is_of_hive(self._leaf):
            return None  # it would still be known as the table that it is
        return self._reading(self._catalyst.scala.nil, pa.array([], pa.bool_())).node

    def _reading(self, partitions: Any, mask: pa.BooleanArray) -> Pruned:
        catalyst = self._catalyst
        if self._catalyst.is_of_hive(self._leaf):
            return Pruned(catalyst.reading_partitions(self._leaf, partitions))
        metadata, keys, threads = self._metadata, self._keys, self._threads

        def pinned() -> Any:
            index = catalyst.listed_index(metadata, keys, partitions, threads)
            return catalyst.narrowed_index(index, keys)

        return _with_index(catalyst, self._leaf, self._table.listed(mask, pinned))


class IndexedScan(PartitionedScan):
    """Files whose directories are listed already: only what is read can still be pruned."""

    def __init__(self, catalyst: Catalyst, leaf: Any, ids: Ids, index: Any) -> None:
        self._index = index
        facts = catalyst.index_facts(index)
        keys = catalyst.partition_schema(leaf)
        super().__init__(catalyst, leaf, ids, ", ".join(facts.roots), keys)
        self._partitions_total = facts.partitions
        self.files_total = facts.files
        self.nbytes_total = facts.nbytes

    @property
    def partitions_total(self) -> int:
        """See :class:`PartitionedScan`."""
        return self._partitions_total

    def _values(self) -> Any:
        rows = self._catalyst.partition_values(self._index)
        return self._catalyst.local_relation(self._attributes(self.schema.names), rows)

    def pruned(self, mask: pa.BooleanArray) -> Pruned:
        """See :class:`PartitionedScan`."""
        index = self._catalyst.narrowed_index(self._index, self._keys, pc.indices_nonzero(mask))
        return _with_index(self._catalyst, self._leaf, index)


def _with_index(catalyst: Catalyst, leaf: Any, index: Any) -> Pruned:
    """A scan of the files of another index."""
    facts = catalyst.index_facts(index)
    return Pruned(catalyst.reading_index(leaf, index), facts.files, facts.nbytes)
