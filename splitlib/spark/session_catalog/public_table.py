"""List tables of the session's catalog with Spark's public API, for example on Spark Connect."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from splitlib.errors import MissingPartition, TableNotFound, UnsupportedTable
from splitlib.filtering.partition_names import CANONICAL_VALUES, rows_with, wanted
from splitlib.hive.entries import (
    StorageEntry,
    is_read_by_hive,
    is_recursive,
    refuse_pattern,
    refuse_unreadable,
    serde_format,
    source_format,
    stream_output,
)
from splitlib.hive.partition_files import without_hidden
from splitlib.hive.partition_values import NULL_PARTITION, from_spark_json, split_names
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.spark.conversion import quoted
from splitlib.spark.session_catalog.public_statements import (
    Below,
    PublicStatements,
    files_by_directory,
)
from splitlib.spi import Predicate, flag
from splitlib.storage import refuse_outside

# For each format, the setting that makes Spark read Hive tables with its own reader.
_CONVERTED: Final = {
    "orc": "spark.sql.hive.convertMetastoreOrc",
    "parquet": "spark.sql.hive.convertMetastoreParquet",
}
_MANAGED: Final = "spark.sql.hive.manageFilesourcePartitions"
# Maximum number of partition-name prefixes to request. Each prefix needs one statement.
_MOST_PREFIXES: Final = 4
# Plan nodes that return the rows of the files unchanged.
_PLAIN = ("SubqueryAlias", "Relation", "HiveTableRelation")
# Text in a physical plan that reads the files in the log of a Spark stream.
_BY_LOG: Final = "Location: MetadataLogFileIndex"
_REDACTED = "*********(redacted)"
# Type of partition references with loaded details. A reference without details is a partition name.
_REF = pa.struct([("name", pa.string()), ("location", pa.string()), ("read_format", pa.int32())])


class PublicTable:
    """A table that lists its partitions with SQL statements, and its files with a Spark query.

    Args:
        spark: The session.
        name: The name, as in ``spark.table(name)``.
        threads: Number of concurrent statements.
        canonical: Whether integers and dates in partition values are always written in canonical
            form (``5``, never ``05``); None to read this from the table's properties.

    Raises:
        TableNotFound: if there is no such table.
        UnsupportedTable: if the rows of its files could differ from those of ``spark.table``.
    """

    def __init__(
        self, spark: SparkSession, name: str, threads: int, *, canonical: bool | None = None
    ) -> None:
        self._statements = PublicStatements(spark)
        self._described = self._statements.described(name)
        properties = self._described.get("table_properties", {})
        value = properties.get(CANONICAL_VALUES, False) if canonical is None else canonical
        self._canonical = flag({CANONICAL_VALUES: value}, CANONICAL_VALUES)
        if location := self._described.get("location"):
            # Check the location before Spark lists it to infer the columns.
            refuse_outside([location])
        self._threads = threads
        # A few partitions for each thread: enough to keep all threads busy, and few enough to
        # return the first files soon.
        self.partitions_per_details = self.partitions_per_listing = 4 * threads
        self._formats: list[ReadFormat] = []
        self._lock = threading.Lock()
        _refuse_unlisted(self._described, str(spark.conf.get(_MANAGED, "true")).lower())
        form = _read_format(self._described)
        if not self._described.get("partition_columns"):
            refuse_pattern(location, form)
        converted = _CONVERTED.get(form.name)
        self._is_converted = (
            converted is not None and str(spark.conf.get(converted, "true")).lower() == "true"
        )
        # Use the full name, since the session's current catalog and database may change.
        parts = (*self._described["namespace"], self._described["table_name"])
        self._table = quoted(str(self._described["catalog_name"]), *parts)
        analyzed, physical = self._statements.plans(self._table)
        refuse_guarded(analyzed)
        if _BY_LOG in physical:
            raise stream_output()
        schema = self._statements.schema(self._table)
        self._metadata = TableMetadata(
            from_spark_json(schema),
            tuple(self._described.get("partition_columns") or ()),
            form,
            self._described.get("location"),
            spark_schema=json.dumps(schema),
        )

    def describe(self) -> TableMetadata:
        """Return the metadata of the table."""
        return self._metadata

    def named(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` with columns qualified by the table's name, without its database.

        An alias has only one part, so ``t.a`` works, but ``db.t.a`` does not.
        """
        return rows.alias(str(self._described["table_name"]))

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the partitions that may match the predicate.

        If the predicate implies a few partition names, or a few prefixes of names, only these
        partitions are requested. Otherwise one request lists all names.
        """
        keys = self._metadata.partition_keys
        if not keys:
            whole = self._ref(None, self._metadata.location, self._metadata.read_format)
            yield PartitionBatch.whole(pa.array([whole], _REF))
            return
        schema = self._metadata.partition_schema
        for values in wanted(predicate, schema, canonical=self._canonical):
            if values.num_rows <= _MOST_PREFIXES:
                yield from map(self._with, values.to_pylist())
                return
        names = self._statements.partition_names(self._table)
        yield PartitionBatch(split_names(names, keys), names, Requests(catalog=1))

    def _with(self, leading: dict[str, str]) -> PartitionBatch:
        """Request the partitions whose first keys have the values in ``leading``."""
        names = self._statements.partition_names(self._table, leading)
        columns = split_names(names, self._metadata.partition_keys)
        exact = rows_with(columns, tuple(leading.values()))
        requests = Requests(catalog=1)
        kept = columns.filter(exact), names.filter(exact), requests
        return PartitionBatch(*kept, asked_for="prefix")

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """Load the location and format of each partition, with one catalog request each.

        Partitions that no longer exist are left out.
        """
        keys = self._metadata.partition_keys
        if not keys:
            return partitions
        names = partitions.refs.to_pylist()
        specs = split_names(partitions.refs, keys).to_pylist()
        with ThreadPoolExecutor(self._threads, "splitlib-partition") as pool:
            found = list(pool.map(self._described_partition, specs))
        rows = [row for row, one in enumerate(found) if one is not None]
        requests = len(names)
        if len(rows) < len(names):
            requests += 1
            self._refuse_respelled([n for n, one in zip(names, found, strict=True) if one is None])
        is_converted = self._is_converted
        refs = [
            self._ref(
                names[row],
                one["location"],
                _read_format(self._described, one, converts=is_converted),
            )
            for row, one in enumerate(found)
            if one is not None
        ]
        kept = partitions.take(pa.array(rows, pa.int64()))
        return PartitionBatch(kept.values, pa.array(refs, _REF), Requests(catalog=requests))

    def check_identity(self) -> None:
        """Check that the table was not dropped or recreated since it was opened."""
        if _identity(self._statements.described(self._table)) != _identity(self._described):
            raise TableNotFound(
                "The table was dropped, recreated or moved since it was opened.",
                hint="open it again.",
            )

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the files of the given partitions, in one batch for each read format."""
        refs = partitions.refs
        locations = pc.struct_field(refs, "location").to_pylist()
        found = self._files(locations, pc.struct_field(refs, "name").to_pylist())
        files = files_by_directory(found, locations, self._below)
        forms = pc.struct_field(refs, "read_format")
        form_of_each = forms.take(files["partition"])
        requests = Requests(storage=len(partitions))
        for number in pc.unique(forms).to_pylist():
            of_form = files.filter(pc.equal(form_of_each, number))
            if is_read_by_hive(form := self._formats[number]):
                of_form = without_hidden(of_form)
            yield FileBatch(of_form, form, requests)
            requests = Requests()

    @property
    def _below(self) -> Below:
        """Treatment of files in subdirectories of a partition's directory."""
        form = self._metadata.read_format
        if is_recursive(form):
            return "read"
        if not _is_source(self._described) and not self._is_converted:
            # Hadoop's settings decide whether Hive's reader reads files in subdirectories or raises
            # an error.
            return "refused"
        # Spark may infer partitions from subdirectories such as ``k=v``, and Hive creates such
        # directories for list bucketing. So files in them raise an error.
        undecided = not self._metadata.partition_keys or not _is_source(self._described)
        return "keys refused" if undecided else "ignored"

    def _files(self, locations: list[str], names: list[str | None]) -> pa.Table:
        try:
            return self._statements.files(sorted(set(locations)))
        except MissingPartition as error:
            if len(locations) == 1:
                error.partition = names[0]
            else:
                # List the directories one by one, to find the missing partition.
                for location, name in zip(locations, names, strict=True):
                    self._files([location], [name])
            raise

    def _described_partition(self, spec: dict[str, str | None]) -> dict[str, Any] | None:
        """Return the catalog's description of a partition.

        The result is None if no partition has exactly these texts as values: ``7`` is not ``07``.
        """
        found = self._statements.described_partition(self._table, spec)
        if found is None or _named(found["partition_values"]) != _named(spec):
            return None
        return found

    def _refuse_respelled(self, names: list[str]) -> None:
        """Raise an error if the catalog still lists a partition that it could not find."""
        there = self._statements.partition_names(self._table)
        still = pc.is_in(pa.array(names), value_set=there).to_pylist()
        for name, is_there in zip(names, still, strict=True):
            if is_there:
                raise UnsupportedTable(
                    "Spark's public API cannot find a partition with values in this form.",
                    hint="use a classic session with spark_scan='auto', or connector='hive'.",
                    partition=name,
                )

    def _ref(self, name: str | None, location: str | None, form: ReadFormat) -> dict[str, Any]:
        with self._lock:
            if form not in self._formats:
                self._formats.append(form)
            number = self._formats.index(form)
        return {"name": name, "location": location, "read_format": number}


def _named(values: Mapping[str, str | None]) -> dict[str, str]:
    """Replace null and empty values by the text that stands for both in partition names."""
    return {key: value or NULL_PARTITION for key, value in values.items()}


def _is_source(described: Mapping[str, Any]) -> bool:
    """Return whether the table uses one of Spark's data sources, and not a Hive SerDe."""
    return str(described.get("provider", "hive")).lower() != "hive"


def _refuse_unlisted(described: Mapping[str, Any], managed: str) -> None:
    """Reject tables whose rows are not in plain files, or whose partitions are not in the catalog.

    Args:
        described: The catalog's description of the table.
        managed: The value of ``spark.sql.hive.manageFilesourcePartitions``.
    """
    refuse_unreadable(
        described["type"],
        described.get("provider", ""),
        described.get("input_format", ""),
        described.get("table_properties", {}),
    )
    if not described.get("location"):
        raise UnsupportedTable("The table has no location. Spark does not read it from files.")
    if not described.get("partition_columns"):
        return
    if _is_source(described):
        if described.get("partition_provider") != "Catalog":
            raise UnsupportedTable(
                "The table's partitions are not in the session's catalog.",
                hint="run MSCK REPAIR TABLE on it in Spark, or use connector='files'.",
            )
        if managed == "false":
            raise UnsupportedTable(
                f"Spark does not use the catalog's partitions while {_MANAGED} is false.",
                hint=f"set {_MANAGED} to true, or use connector='files'.",
            )


def refuse_guarded(plan: str) -> None:
    """Reject tables with row filters, column masks or other operators above the files.

    Args:
        plan: Text of the analyzed plan of a query for all rows. Its first line lists the columns.

    Raises:
        UnsupportedTable: if the plan has such an operator. The message names the operator.
    """
    for line in plan.split("\n")[2:]:  # skip the lines of the output columns and of Project
        found = re.match(r"[\s:+-]*(\w+)", line)
        is_plain = found is not None and found[1] in _PLAIN
        if found and not is_plain and "readSidePadding" not in line:
            raise changed_rows(found[1])


def changed_rows(operator: str) -> UnsupportedTable:
    """Return the error for a table whose rows Spark changes with an operator, such as a filter."""
    return UnsupportedTable(
        f"Spark does not return the rows of the files unchanged, but applies {operator}.",
        hint="use spark.table or splitlib.sql, which apply the catalog's row filters and masks.",
    )


def _read_format(
    described: Mapping[str, Any],
    partition: Mapping[str, Any] | None = None,
    *,
    converts: bool = True,
) -> ReadFormat:
    """Return the read format of a table, or of one of its partitions.

    ``converts`` is as in :func:`~splitlib.hive.entries.serde_format`.
    """
    is_partitioned = bool(described.get("partition_columns"))
    own = _storage_entry(described, "table_properties")
    if _is_source(described):
        provider = described["provider"]
        form = source_format(provider, own.serde_properties, is_partitioned=is_partitioned)
    else:
        other = None if partition is None else _storage_entry(partition, "partition_parameters")
        keys = described.get("partition_columns") or ()
        columns = [c for c in described.get("columns", ()) if c["name"] not in keys]
        types = [json.dumps(column["type"]) for column in columns]
        form = serde_format(
            own, other, is_partitioned=is_partitioned, types=types, converts=converts
        )
    if hidden := [name for name, value in form.options if value == _REDACTED]:
        raise UnsupportedTable(
            f"Spark hides the values of the table's options {', '.join(hidden)}, which are needed "
            "to read its files."
        )
    return form


def _storage_entry(described: Mapping[str, Any], parameters: str) -> StorageEntry:
    """Convert the description of a table or partition to a :class:`StorageEntry`.

    ``parameters`` is the name of the field with the table's or partition's parameters.
    """
    return StorageEntry(
        described.get("location"),
        described.get("serde_library"),
        described.get("input_format"),
        described.get("storage_properties", {}),
        described.get(parameters, {}),
    )


def _identity(described: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the properties that change if a table is dropped and created again."""
    names = ("created_time", "type", "provider", "location", "partition_columns")
    return tuple(described.get(name) for name in names)
