"""A table as a leaf of a plan: Spark's own relation, which is told the files that it reads."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame

from splitlib.enumeration.selected_files import SelectedFiles
from splitlib.hive.types import SPARK_CHAR_VARCHAR, from_spark_json
from splitlib.model import PartitionBatch, ReadFormat, TableMetadata
from splitlib.spark.file_scan import canonical_paths
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.errors import errors_of_the_jvm
from splitlib.spark.jvm.pinned_relation import pinned_leaf
from splitlib.spark.scan.file_group import FileGroup
from splitlib.spark.session_catalog.public_table import PublicTable
from splitlib.spi import Connector
from splitlib.table import Table

_REF = "ref"


class RelationTable(Connector):
    """A table over whose files Spark has a relation.

    Args:
        catalyst: Of the session that reads.
        leaf: The relation as it stands in a plan; a scan of it keeps its attributes.
    """

    def __init__(self, catalyst: Catalyst, leaf: Any) -> None:
        self._catalyst = catalyst
        self._leaf = self._plan = leaf
        self._alias: Any = None
        self._metadata = _metadata(catalyst, leaf)

    def read_by(self, plan: Any) -> Self:
        """The same table, whose rows are read by a plan over the relation, such as one that pads.

        Args:
            plan: Each of its nodes has one child, the last is the relation.
        """
        self._plan = plan
        return self

    def named_by(self, alias: Any) -> Self:
        """The same table, whose columns :meth:`named` qualifies by a ``SubqueryAlias``."""
        self._alias = alias
        return self

    def named(self, rows: DataFrame) -> DataFrame:
        """Rows of the table, whose columns may be named by it as those of ``spark.table`` may."""
        if self._alias is None:
            return rows
        plan = self._catalyst.scala.seq([analyzed_plan(rows)])
        return self._catalyst.dataframe(self._alias.withNewChildren(plan))

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Not the way to it: see :class:`splitlib.spark.session_catalog.SessionConnector`."""
        raise NotImplementedError

    def describe(self) -> TableMetadata:
        """See :meth:`Connector.describe`."""
        return self._metadata

    @property
    @abstractmethod
    def name(self) -> str:
        """Of the table, or its directories."""

    @property
    def leaf(self) -> Any:
        """The relation."""
        return self._leaf

    @property
    def listed_before(self) -> tuple[int | None, int | None]:
        """Files and bytes of all that Spark has listed by itself; None = it has not."""
        return None, None

    @property
    def can_read_nothing(self) -> bool:
        """Whether a scan of no files saves something."""
        return False

    def prepare(self, *, by_name: bool) -> None:
        """Ask for what will be needed, in whatever thread.

        Args:
            by_name: Whether it will be known what the partitions are called that are needed.
        """

    def listed_by_spark(self) -> RelationTable:
        """The same table, with the files of all partitions as Spark lists them and keeps that."""
        return self

    @property
    def has_names(self) -> bool:
        """Whether it is known which partitions there are, so that none is asked for by name."""
        return True

    @property
    def has_canonical_values(self) -> bool:
        """Whether integers and dates in partition values are said to have one spelling each."""
        return False

    @property
    def names_files(self) -> bool:
        """Whether Spark can be told the files to read, and not only the partitions."""
        return not self._catalyst.is_of_hive(self._leaf)

    def scan_of_files(self, selected: Iterable[SelectedFiles]) -> DataFrame:
        """The rows of some files, under the attributes of the relation.

        Raises:
            RuntimeError: if Spark would read other files than those.
        """
        group = FileGroup()
        for one in selected:
            columns = one.partitions.values.columns
            names = [f"c{i}" for i in range(len(columns))]
            refs = [*columns, one.partitions.refs]
            group.add(one.files.files, pa.record_batch(refs, names=[*names, _REF]))
        none = pa.table({_REF: pa.array([], pa.string())})
        files, partitions = group.files(), group.values(none=none)
        known = self._statuses(files) if files.num_rows else None
        files = files.set_column(0, "path", canonical_paths(files["path"]))
        keys = self._metadata.partition_keys
        with errors_of_the_jvm(self._catalyst.spark):  # a value may be none of its type
            rows = self._rows(partitions[_REF].combine_chunks()) if keys else None
        return self._rows_of(
            pinned_leaf(self._catalyst.spark, self._leaf, files, partitions, rows, known)
        )

    def scan_of_partitions(self, selected: Iterable[PartitionBatch]) -> DataFrame:
        """The rows of some partitions, under the attributes of the relation.

        Only asked for where :attr:`names_files` is false.
        """
        raise NotImplementedError

    def _rows_of(self, relation: Any) -> DataFrame:
        """The rows of a relation that stands in place of the table's."""
        depth, node = 0, self._plan
        while not node.children().isEmpty():
            depth, node = depth + 1, node.children().head()
        return self._catalyst.dataframe(
            self._catalyst.replaced(self._plan, {(0,) * depth: relation})
        )

    @abstractmethod
    def _rows(self, refs: pa.Array) -> Any:
        """The values of some partitions, an ``Array[InternalRow]``."""

    @abstractmethod
    def _statuses(self, files: pa.Table) -> Any:
        """Some files as their filesystem shows them, a ``Seq[FileStatus]``; None = not known."""


def relation_of(table: Table) -> RelationTable | None:
    """The relation that Spark reads a table by; None if it has to be told how to read its files."""
    connector = table.connector
    return connector if isinstance(connector, RelationTable) else None


def public_name_of(table: Table) -> str | None:
    """The name, without database, of a table that is read by Spark's public API; else None."""
    connector = table.connector
    return connector.name_in_catalog if isinstance(connector, PublicTable) else None


def _metadata(catalyst: Catalyst, leaf: Any) -> TableMetadata:
    schema = json.loads(leaf.schema().json())
    schema["fields"] = [
        field for field in schema["fields"] if "__metadata_col" not in str(field["metadata"])
    ]
    # where Spark pads CHAR itself, the relation's own columns no longer say that they are
    declared = {f["name"]: f["metadata"] for f in catalyst.declared_schema(leaf)["fields"]}
    for field in schema["fields"]:
        if SPARK_CHAR_VARCHAR in declared.get(field["name"], {}):
            field["metadata"] = declared[field["name"]]
    name, options = catalyst.format_of(leaf)
    return TableMetadata(
        from_spark_json(schema),
        tuple(catalyst.partition_schema(leaf).names()),
        ReadFormat.of(name, options),
        catalyst.location_of(leaf),
        spark_schema=json.dumps(schema),
    )
