"""Check each batch that a connector returns, and filters, column names and sessions from users.

A wrong batch can make a query lose rows. So statistics that are impossible raise an error: other
statistics from the same source may be wrong too, although they look possible. A partition or file
that is listed twice is kept only once, so that its rows are not read twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import (
    ConfigError,
    CorruptMetadata,
    InvalidFilter,
    SourceUnavailable,
    did_you_mean,
)
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Domain, ValueDomain
from splitlib.filtering.matchers import coerce
from splitlib.filtering.predicate import same_order
from splitlib.hive.partition_values import table_fields
from splitlib.model import FILE_SCHEMA, ColumnStatistics, FileBatch, PartitionBatch, TableMetadata

_PAIRS = "on={'fact_column': 'dim_column'}"
# Matches one part of a column name: either text in backticks, or text up to the next dot.
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def checked_partitions(batch: PartitionBatch, metadata: TableMetadata) -> PartitionBatch:
    """Check a batch of partitions against the fields that it declares, and return it.

    Raises:
        CorruptMetadata: if columns, types or lengths do not match.
    """
    values = batch.values
    _check_names(values.schema.names, [field.name for field in batch.fields])
    if metadata.read_format.columns == "name" and all(f.transform is None for f in batch.fields):
        # Readers that match columns by name do not read partition keys from data files, so the
        # batch must have all keys.
        _check_names([field.source for field in batch.fields], metadata.partition_keys)
    if values.num_columns and values.num_rows != len(batch):
        _refuse(f"A batch of {len(batch)} partitions has {values.num_rows} rows of values.")
    if batch.file_counts is not None and len(batch.file_counts) != len(batch):
        _refuse(f"A batch of {len(batch)} partitions has {len(batch.file_counts)} file counts.")
    check_value_types(batch, metadata.filter_schema)
    return batch


def _check_names(given: Sequence[str], expected: Sequence[str]) -> None:
    if [name.lower() for name in given] != [name.lower() for name in expected]:
        _refuse(f"A batch of partitions has the columns {list(given)}, not {list(expected)}.")


def check_value_types(batch: PartitionBatch, columns: pa.Schema) -> None:
    """Reject partition values unless they are text, or have their column's type in ``columns``.

    Raises:
        CorruptMetadata: if a value has another type; the error names the partition key.
    """
    values = batch.values.schema
    for field, key in zip(values, table_fields(values, batch.fields, columns), strict=True):
        if not (pa.types.is_string(field.type) or _same_type(field.type, key.type)):
            _refuse(f"Values of partition key {key.name} have type {field.type}, not {key.type}.")


def checked_files(
    batch: FileBatch, partitions: PartitionBatch, metadata: TableMetadata
) -> FileBatch:
    """Check the files and statistics in a batch, and return it with corrected statistics.

    If a file has bounds but ``has_value`` is false, its statistics contradict each other. Then the
    bounds are kept, and ``has_value`` is set to null (unknown).

    Raises:
        CorruptMetadata: if columns, types or lengths are wrong, if a file belongs to a partition
            that is not in ``partitions``, or if a lower bound is above its upper bound.
    """
    files = batch.files
    given = [(field.name, field.type) for field in files.schema][: len(FILE_SCHEMA)]
    if given != [(field.name, field.type) for field in FILE_SCHEMA]:
        _refuse(f"A batch of files has the columns {given}, not those of FILE_SCHEMA.")
    for name in FILE_SCHEMA.names:
        if files[name].null_count:
            _refuse(f"Column {name!r} of a batch of files contains nulls.")
    within = pc.min_max(files["partition"])
    if len(files) and not 0 <= within["min"].as_py() <= within["max"].as_py() < len(partitions):
        _refuse(f"Files belong to partitions other than the {len(partitions)} requested ones.")
    if batch.partitions_listed is not None:
        _check_listed(batch, partitions)
    if batch.deletes is not None:
        _check_deletes(batch)
    if not batch.statistics:
        return batch
    columns = {field.name.lower(): field for field in metadata.filter_schema}
    return replace(batch, statistics=_checked_statistics(batch, columns))


def check_listed_in_part(batches: Sequence[FileBatch]) -> None:
    """Reject a listing that has several batches, one of which sets ``partitions_listed``.

    ``partitions_listed`` means that some partitions were not listed. Such a batch must be the only
    one in its listing.

    Raises:
        CorruptMetadata: if there are several batches and one has ``partitions_listed``.
    """
    if len(batches) > 1 and any(batch.partitions_listed is not None for batch in batches):
        _refuse("A partial listing has more than one batch.")


class PartitionsOnce:
    """Removes repeated partitions from the batches of one listing.

    Two partitions are the same if their handles (:attr:`PartitionBatch.refs`) and values are equal.
    Handles that are not text are numbers that the connector assigned while listing. They do not
    identify a partition, so batches with such handles stay unchanged.
    """

    def __init__(self) -> None:
        self._batches: list[PartitionBatch] = []
        self._greatest: str | None = None
        self._refs: set[str] | None = None
        """All handles so far. None while every handle sorts after those of earlier batches, because
        then no handle can repeat."""

    def first_of(self, batch: PartitionBatch) -> PartitionBatch:
        """Return ``batch`` without partitions that already occurred in this or an earlier batch."""
        if not pa.types.is_string(batch.refs.type) or not len(batch):
            return batch
        if self._may_repeat(batch.refs):
            seen = {row for before in self._batches for row in _partition_rows(before)}
            rows = []
            for at, row in enumerate(_partition_rows(batch)):
                if row not in seen:
                    seen.add(row)
                    rows.append(at)
            taken = batch.take(pa.array(rows, pa.int64()))
            batch = replace(
                batch, values=taken.values, refs=taken.refs, file_counts=taken.file_counts
            )
        self._batches.append(batch)
        return batch

    def _may_repeat(self, refs: pa.StringArray) -> bool:
        """Return whether a batch may repeat a handle of its own or of an earlier batch.

        The handles are remembered for later batches.
        """
        distinct = pc.unique(refs)
        ends = pc.min_max(distinct)
        first, last = ends["min"].as_py() or "", ends["max"].as_py() or ""
        if self._refs is None and (self._greatest is None or first > self._greatest):
            self._greatest = last
            return len(distinct) < len(refs)
        if self._refs is None:
            self._refs = {ref for batch in self._batches for ref in batch.refs.to_pylist()}
        before = len(self._refs)
        self._refs.update(distinct.to_pylist())
        return len(self._refs) - before < len(refs)


def _partition_rows(batch: PartitionBatch) -> Iterator[tuple[Any, ...]]:
    columns = [column.to_pylist() for column in batch.values.columns]
    return zip(batch.refs.to_pylist(), *columns, strict=True)


def files_once(batches: list[FileBatch]) -> list[FileBatch]:
    """Return ``batches`` without repeated files of the same partition.

    A file in a directory that several partitions share is kept once for each partition.

    Raises:
        SourceUnavailable: if a file is listed twice with different sizes or times, because it was
            replaced during the listing.
    """
    paths = pa.chunked_array([batch.files["path"] for batch in batches], pa.string())
    if len(pc.unique(paths)) == len(paths):
        return batches
    known: dict[tuple[int, str], list[int]] = {}
    found = []
    for batch in batches:
        columns = (batch.files[name].to_pylist() for name in FILE_SCHEMA.names)
        first = []
        for path, *identity, partition in zip(*columns, strict=True):
            before = known.get((partition, path))
            if before not in (None, identity):
                raise SourceUnavailable(
                    f"The file {path!r} is listed twice, with different sizes or times.",
                    hint="it was probably replaced during the listing: run the query again.",
                )
            known[partition, path] = identity
            first.append(before is None)
        once = batch.filter(pa.array(first, pa.bool_()))
        found.append(replace(once, requests=batch.requests))
    return found


def _check_listed(batch: FileBatch, partitions: PartitionBatch) -> None:
    """Reject a partial listing whose ``partitions_listed`` contradicts its partitions or files."""
    listed = batch.partitions_listed
    assert listed is not None
    if not 0 < listed <= len(partitions):
        _refuse(f"partitions_listed is {listed}, but {len(partitions)} partitions were requested.")
    if pc.any(pc.greater_equal(batch.files["partition"], listed)).as_py():
        _refuse(f"partitions_listed is {listed}, but files belong to later partitions.")


def _check_deletes(batch: FileBatch) -> None:
    deletes: pa.Array = batch.deletes
    within = pc.min_max(deletes)
    if len(deletes) != len(batch):
        _refuse(f"A batch of {len(batch)} files has deletes for {len(deletes)} files.")
    elif within["min"].is_valid and not (
        0 <= within["min"].as_py() <= within["max"].as_py() < len(batch.delete_sets)
    ):
        _refuse(f"An index in deletes is outside of the {len(batch.delete_sets)} delete sets.")


def _checked_statistics(
    batch: FileBatch, columns: Mapping[str, pa.Field]
) -> dict[str, ColumnStatistics]:
    found = {}
    for name, known in batch.statistics.items():
        column = columns.get(name.lower())
        if column is None:
            _refuse(f"There are statistics of {name!r}, which is not a filterable column.")
        for what in ("lower", "upper", "has_null", "has_nan", "has_value"):
            values = getattr(known, what)
            expected = pa.bool_() if what.startswith("has_") else column.type
            if len(values) != len(batch):
                _refuse(f"There are {len(values)} values of {name}.{what} for {len(batch)} files.")
            if not _same_type(values.type, expected):
                _refuse(f"{name}.{what} has type {values.type}, not {expected}.")
        found[name] = _plausible(name, known)
    return found


def _plausible(name: str, known: ColumnStatistics) -> ColumnStatistics:
    try:
        reverse = pc.greater(known.lower, known.upper)
    except pa.ArrowNotImplementedError:  # Arrow cannot compare them, so they prune nothing.
        return known
    if pc.any(reverse).as_py():
        _refuse(
            f"The lower bound of {name} is above its upper bound in {reverse.true_count} files."
        )
    bounded = pc.or_(_is_bound(known.lower), _is_bound(known.upper))
    doubtful = pc.and_(bounded, pc.invert(pc.fill_null(known.has_value, True)))
    if doubtful.true_count:
        unknown = pa.scalar(None, pa.bool_())
        known = replace(known, has_value=pc.if_else(doubtful, unknown, known.has_value))
    return known


def _is_bound(values: pa.Array) -> pa.BooleanArray:
    return pc.invert(pc.is_null(values, nan_is_null=True))


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two types are equal, apart from the time zones of timestamps."""
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return bool(one.unit == other.unit and (one.tz is None) == (other.tz is None))
    return bool(one == other)


def _refuse(message: str) -> NoReturn:
    raise CorruptMetadata(
        message, hint="report it to the author of the connector, unless the catalog is damaged."
    )


class Mismatch(NamedTuple):
    """A problem with a filter field, and a hint on how to fix it."""

    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} Hint: {self.hint}"


def mismatches(data: DynamicFilteringData, metadata: TableMetadata) -> list[Mismatch]:
    """Return a filter's problems: columns that the table lacks, and types that cannot be compared.

    A column that exists is not reported, even if it cannot prune because it is not a partition key
    and does not have statistics.
    """
    filterable = {field.name.lower(): field for field in metadata.filter_schema}
    columns = {name.lower() for name in metadata.schema.names}
    found = [
        _no_column(name, metadata.schema.names)
        for name in data.fields
        # ``a.b`` is a column with this name, or may be a field of a struct ``a``.
        if name.lower() not in filterable
        and columns.isdisjoint((name.lower(), name.lower().split(".")[0]))
    ]
    for domain in data.domains:
        for name in domain.fields:
            key = filterable.get(name.lower())
            kind = data.schema.field(name).type
            if key is not None and not _comparable(domain, kind, key):
                found.append(
                    Mismatch(
                        f"Field {name!r} is {kind}, which cannot be compared with {key.type}.",
                        f"use values of type {key.type}.",
                    )
                )
    return found


def column_named(name: str, columns: Sequence[str]) -> str:
    """Return the name in ``columns`` that equals ``name``, ignoring case.

    Raises:
        InvalidFilter: if no column has this name, or ``name`` is not a text.
    """
    if not isinstance(name, str):
        raise InvalidFilter(f"The name of a column is a text, not {name!r}.")
    if name in columns:
        return name
    for column in columns:
        if column.lower() == name.lower():
            return column
    wrong = _no_column(name, columns)
    raise InvalidFilter(wrong.message, hint=wrong.hint)


def _no_column(name: str, columns: Sequence[str]) -> Mismatch:
    return Mismatch(f"The table has no column {name!r}.", did_you_mean(name, columns))


def _comparable(domain: Domain, kind: pa.DataType, key: pa.Field) -> bool:
    if kind == key.type:
        return True
    if isinstance(domain, ValueDomain):
        return coerce(pa.array([], kind), key) is not None
    return same_order(kind, key.type)


def given_pairs(on: Any) -> dict[str, str]:
    """Convert the argument ``on`` to a mapping from fact columns to key columns.

    Args:
        on: A mapping, one name, several names, or pairs of names. A single name means that
            the fact column and the key column both have this name.

    Raises:
        InvalidFilter: if ``on`` is empty, has another type, or names a fact column twice.
    """
    if isinstance(on, str):
        on = [on]
    if isinstance(on, Mapping):
        items = list(on.items())
    elif isinstance(on, Iterable) and not isinstance(on, bytes) and not is_of_spark(on):
        items = [(item, item) if isinstance(item, str) else item for item in on]
    else:
        items = [on]
    if not items:
        raise InvalidFilter("'on' is empty.", hint=_PAIRS)
    pairs: dict[str, str] = {}
    for item in items:
        match item:
            case (str() as name, str() as column) if name and column and name not in pairs:
                pairs[name] = column
            case _:
                raise InvalidFilter(
                    f"'on' contains {_shown(item)}. Each item must be a pair of column names, and "
                    "each fact column may occur once.",
                    hint=_PAIRS,
                )
    return pairs


def _shown(item: Any) -> str:
    return f"a {type(item).__name__}" if is_of_spark(item) else repr(item)


def is_of_spark(value: object) -> bool:
    """Return whether a value is an object of PySpark, such as a ``Column``, which looks iterable.

    PySpark is not imported for this.
    """
    return type(value).__module__.startswith("pyspark.")


def name_parts(name: str) -> list[str]:
    """Split a column name such as ``t.day`` at its dots. A part may be in backticks.

    Raises:
        InvalidFilter: if ``name`` is not a column name.
    """
    parts, end = [], -1
    while end < len(name):
        found = _PART.match(name, end + 1)
        if found is None or name[found.end() : found.end() + 1] not in ("", "."):
            raise InvalidFilter(
                f"{name!r} is not a column name.",
                hint="put a part that contains a dot or a backtick in backticks: `a.b`.",
            )
        parts.append(found[2] or found[1].replace("``", "`"))
        end = found.end()
    return parts


def refuse_other_than_session(spark: object, call: str) -> None:
    """Reject an argument that is neither a classic session nor one of Spark Connect.

    Args:
        spark: The argument.
        call: The right call, for the hint of the error.

    Raises:
        ConfigError: for any other object.
    """
    # The two kinds of sessions share no base class, so they are recognized by a method of both.
    if isinstance(spark, type) or not hasattr(spark, "createDataFrame"):
        kind = "the class" if isinstance(spark, type) else "a"
        name = spark.__name__ if isinstance(spark, type) else type(spark).__name__
        raise ConfigError(f"Expected a Spark session, not {kind} {name}.", hint=call)


def check_same_files(found: Sequence[FileBatch], files: FileBatch) -> None:
    """Raise an error unless ``found`` has the same files as ``files``, so that no rows are lost."""
    same = sorted(row for batch in found for row in _places(batch))
    if same != sorted(_places(files)):
        raise CorruptMetadata(
            f"The connector returned column names, but not for exactly the {len(files)} requested "
            "files."
        )


def _places(files: FileBatch) -> Iterator[tuple[str, int]]:
    columns = (files.files["path"].to_pylist(), files.files["partition"].to_pylist())
    return zip(*columns, strict=True)


def paths_in(batches: Iterable[FileBatch]) -> Iterator[str]:
    """Yield the paths of all data files and their delete files."""
    for batch in batches:
        yield from batch.files["path"].to_pylist()
        yield from (file.path for deletes in batch.delete_sets for file in deletes)
