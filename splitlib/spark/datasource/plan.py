"""Plan the splits of a table on the driver, and read their rows on the executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from splitlib.config import SPARK_PREFIX, SplitConfig, option_name
from splitlib.coordination.assigners import pack
from splitlib.enumeration.enumerator import DynamicFileEnumerator
from splitlib.enumeration.pipeline import SelectedFiles
from splitlib.errors import ConfigError, UnsupportedTable
from splitlib.hive.partition_values import parse, table_fields
from splitlib.model import FileSplit, PartitionBatch
from splitlib.reading.columns import NATIVE
from splitlib.reading.formats import RowGroupFilter
from splitlib.reading.reader import read_split, refuse_unreadable
from splitlib.spark.datasource.options import ReadOptions, arrow_schema, wanted_schema
from splitlib.storage import AllowedLocations, Storage

_ALLOWED: Final = f"{SPARK_PREFIX}{option_name('allowed_locations')}"
LOAD_AGAIN: Final = (
    "do not pass a schema; choose columns with the option 'columns'. If the table was altered, "
    "load it again."
)


class SplitsPartition(InputPartition):
    """The splits that one Spark task reads."""

    def __init__(self, splits: Iterable[FileSplit]) -> None:
        self.splits = tuple(splits)


class SplitReader:
    """Reads splits on the executors. It needs no access to the catalog."""

    def __init__(
        self,
        schema: pa.Schema,
        storage: Mapping[str, Any],
        row_groups: RowGroupFilter,
        config: SplitConfig,
    ) -> None:
        self._schema = schema
        self._storage = storage
        self._row_groups = row_groups
        self._config = config

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of all splits of one task."""
        assert isinstance(partition, SplitsPartition)
        storage, allowed = Storage(self._storage), self._config.allowed_locations
        if allowed is None:
            allowed = _allowed_by_session()
        if allowed is not None:
            # Check again, since a symbolic link may have changed after planning.
            paths = [split.path for split in partition.splits]
            AllowedLocations(allowed).refuse_outside(paths)
        for split in partition.splits:
            yield from read_split(
                split,
                self._schema,
                storage,
                row_groups=self._row_groups,
                verify=self._config.verify_files,
            )


def _allowed_by_session() -> tuple[str, ...] | None:
    """Return the session's setting ``allowed_locations``; None if it is not set.

    A Python data source cannot read the session's settings on the driver. In a task it can, since
    Spark passes the settings to each task as local properties.
    """
    task = TaskContext.get()
    value = None if task is None else task.getLocalProperty(_ALLOWED)
    if value is None:
        return None
    return SplitConfig.resolve(spark_conf={_ALLOWED: value}, environ={}).allowed_locations


class Planned(NamedTuple):
    """Result of the enumeration of a table."""

    splits: list[FileSplit]
    """Splits that match the filters. For an unchanged table, they are equal and in the same order
    each time."""
    row_groups: RowGroupFilter


class SplitPlanner(ABC):
    """Plans the splits that a DataFrame reads. Its pickle contains a :class:`SplitReader` instead.

    The table is open only while splits are planned, because Spark does not always report that it no
    longer needs a reader.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    @abstractmethod
    def row_groups(self) -> RowGroupFilter:
        """Return the filter that selects the row groups to read in each file."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of one task, as :meth:`SplitReader.read` does."""
        kind, arguments = self.__reduce__()
        return kind(*arguments).read(partition)

    def __reduce__(self) -> tuple[type[SplitReader], tuple[Any, ...]]:
        return SplitReader, (
            arrow_schema(self._schema),
            self._options.storage,
            self.row_groups(),
            self._options.config,
        )

    def plan(self) -> Planned:
        """Open the table, enumerate its splits, and close it.

        Raises:
            ConfigError: if the schema of the DataFrame differs from the columns of the table.
            UnsupportedTable: for files or partition values that cannot be read exactly.
            SplitlibError: the errors of :func:`splitlib.load_table` and of
                :meth:`splitlib.DynamicFileEnumerator.enumerate_splits`.
        """
        with self._options.open() as table:
            if wanted_schema(table, self._options.columns) != self._schema:
                raise ConfigError(
                    "The given schema differs from the table's schema.", hint=LOAD_AGAIN
                )
            filters = self._options.filters_in_zone()
            enumerator = _ExactEnumerator(table, self._options.config)
            for data in filters:
                enumerator.set_dynamic_filtering_data(data)
            splits = list(enumerator.enumerate_splits())
            return Planned(splits, RowGroupFilter(table.metadata.data_schema, filters))

    def tasks(self, splits: Iterable[FileSplit]) -> list[SplitsPartition]:
        """Pack the splits into tasks. Without splits, return one empty task."""
        packed = pack(splits, self._options.config.target_split_bytes)
        return [SplitsPartition(task) for task in packed] or [SplitsPartition(())]


class _ExactEnumerator(DynamicFileEnumerator):
    """Enumerates splits, but rejects files and partition values that Spark may read differently."""

    def select_files(self, *, hosts: bool = False) -> Generator[SelectedFiles, None, None]:
        checked: PartitionBatch | None = None
        for selected in super().select_files(hosts=hosts):
            refuse_unreadable(selected.files.read_format)
            if selected.partitions is not checked:
                checked = selected.partitions
                refuse_inexact(checked, self.table.metadata.partition_schema)
            yield selected


def refuse_inexact(partitions: PartitionBatch, keys: pa.Schema) -> None:
    """Reject partition values that Spark may parse differently from :func:`parse`.

    Raises:
        UnsupportedTable: if there is such a value. The message names it.
    """
    values = partitions.values
    parsed_as = table_fields(values.schema, partitions.fields, keys)
    for key, column in zip(parsed_as, values.columns, strict=True):
        doubtful = parse(column, key).undecided
        if doubtful is not None:
            text = column.filter(doubtful)[0].as_py()
            raise UnsupportedTable(
                f"Partition value {text!r} of {key.name!r} is ambiguous as {key.type}.",
                hint=NATIVE,
            )
