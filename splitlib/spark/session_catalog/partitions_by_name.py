"""Request the partitions of one table from a session's catalog.

The first request lists all partition names, and further requests load the matching partitions. If
the filters imply the names of the matching partitions, the names are not listed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import SourceError, TableNotFound
from splitlib.filtering.partition_names import rows_with
from splitlib.hive.partition_values import (
    NULL_PARTITION,
    escape,
    from_spark_json,
    parse,
    partition_name,
    split_names,
)
from splitlib.spark.conversion import bare_literals, column_text, has_variable
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.jvm.java_handles import FileStatus, JavaArray, Seq
from splitlib.spark.jvm.listing import (
    FILES_PER_PAGE,
    Listing,
    flat_listing,
    list_directories,
    texts,
)
from splitlib.spark.jvm.session_catalog import CatalogPartitions
from splitlib.spark.jvm.spark_handles import (
    CatalogEntry,
    CatalogPartition,
    FileIndex,
    InternalRow,
    LogicalPlan,
)

# Maximum number of values in one filter. Some metastores reject long filters: with Derby as its
# database, a metastore rejects 200 values.
_VALUES_PER_FILTER = 50
# Maximum number of partitions to request one by one. If there are more, they are first requested
# together, with filters.
_FEW = 4
# Minimum number of directories for a common listing, which lists all files below their parent.
_LEAST_DIRECTORIES = 16
# Number of pages that a common listing may always read, even for few directories.
_PAGES = 2


@dataclass(slots=True, eq=False)
class _Fetched:
    """The response to one request for partitions."""

    partitions: Seq[CatalogPartition]
    """The returned partitions, a ``Seq[CatalogTablePartition]``."""
    positions: Mapping[str, int]
    """Position of each requested partition in ``partitions``, by name."""


class PartitionsByName:
    """Requests and caches the partitions and files of one table. Thread-safe."""

    def __init__(self, catalyst: Catalyst, catalog: CatalogPartitions, threads: int) -> None:
        self._catalyst = catalyst
        self._catalog = catalog
        self.threads = threads
        self._lock = threading.RLock()
        """Held during requests, so that a second thread waits and uses the same result."""
        self._names: tuple[pa.Array, pa.RecordBatch] | None = None
        self._names_with: dict[tuple[str, ...], tuple[pa.Array, pa.RecordBatch]] = {}
        """Names and values of partitions, by the requested values of the first keys."""
        self._absent: set[str] = set()
        """Requested names for which no partition exists."""
        self._fetched: dict[str, _Fetched | None] = {}
        self._files: dict[str, pa.RecordBatch | None] = {}
        self._statuses: Seq[FileStatus] = catalyst.scala.nil
        self._status_of: dict[str, int] = {}
        self.table = catalog.name
        self.schema = from_spark_json(catalog.schema())
        """Partition columns of the table."""
        self.requests = 0
        """Number of catalog requests."""
        self._lists_one_by_one = False
        """Whether directories have to be listed one by one, because a common listing was not
        possible, or found no files in some of its directories."""
        self._whole: FileIndex | None = None
        self.listings = 0
        """Number of storage requests to list directories. A directory that is listed alone counts
        as one request."""

    @classmethod
    def of(cls, catalyst: Catalyst, entry: CatalogEntry, threads: int) -> Self:
        """Create an instance for a catalog entry, a ``CatalogTable``."""
        return cls(catalyst, CatalogPartitions(catalyst.scala, catalyst.session, entry), threads)

    def property_of_table(self, name: str) -> str | None:
        """Return a table property, or None if it is not set."""
        return self._catalog.property_of_table(name)

    def prepare(self, *, by_name: bool) -> None:
        """Make the first catalog requests ahead of time. May be called in any thread.

        Args:
            by_name: Whether the filters will imply the names of the partitions. If true, all names
                are requested only if the catalog does not support requests by name.
        """
        with self._lock:
            if not self._catalog.prepare() or not by_name:
                self.names()

    @property
    def has_names(self) -> bool:
        """Whether all names have been listed."""
        return self._names is not None

    def names(self) -> tuple[pa.Array, pa.RecordBatch]:
        """Return all partition names, and their values as text, with a column for each key."""
        with self._lock:
            if self._names is None:
                self._names = self._read(self._catalog.names())
            return self._names

    def names_with(self, leading: Sequence[str]) -> tuple[pa.Array, pa.RecordBatch] | None:
        """Return the names and values of the partitions whose first keys have these values.

        The result has the form of :meth:`names`. It is None if the catalog can only list all names.

        Args:
            leading: Values of the first keys, as text. Each value must have only one spelling:
                ``7`` is not allowed if partitions can also be named ``07``.
        """
        with self._lock:
            values = tuple(leading)
            if values not in self._names_with:
                spec = dict(zip(self.schema.names, values, strict=False))
                found = self._catalog.names_with(spec)
                if found is None:
                    return None
                names, columns = self._read(found)
                exact = rows_with(columns, values)
                self._names_with[values] = names.filter(exact), columns.filter(exact)
            return self._names_with[values]

    def existing(self, rows: Iterable[Sequence[str]]) -> list[str] | None:
        """Return the names of existing partitions with these values, without listing all names.

        The result is None if the catalog does not support requests by name.

        Args:
            rows: Values of all keys for each partition, as text. Each must have only one possible
                text.
        """
        names = [partition_name(self.schema.names, row) for row in rows]
        with self._lock:
            unknown = [n for n in names if n not in self._fetched and n not in self._absent]
            if unknown:
                found = self._catalog.by_name(unknown)
                if found is None:
                    return None
                self.requests += 1
                self._keep(found, unknown)
                self._absent |= {name for name in unknown if name not in self._fetched}
            return [name for name in names if self._fetched.get(name) is not None]

    def fetch(self, names: Sequence[str]) -> list[str]:
        """Load the partitions with these names, and return the names that still exist."""
        with self._lock:
            missing = [name for name in names if name not in self._fetched]
            if missing:
                try:
                    self._fetch(missing)
                except JVM_ERRORS:
                    # The table may have been replaced by a table with other partition keys.
                    self.check_identity()
                    raise
            return [name for name in names if self._fetched[name] is not None]

    def partitions(self, names: Sequence[str]) -> Seq[CatalogPartition]:
        """Return the fetched partitions with these names, a ``Seq[CatalogTablePartition]``."""
        with self._lock:
            chosen: list[tuple[_Fetched, list[str]]] = []
            for name in names:
                fetched = self._fetched[name]
                assert fetched is not None
                if not chosen or chosen[-1][0] is not fetched:
                    chosen.append((fetched, []))
                chosen[-1][1].append(name)
            return self._catalog.together(
                (fetched.partitions, [fetched.positions[name] for name in some])
                for fetched, some in chosen
            )

    def directories(self, names: Sequence[str]) -> Iterator[str]:
        """Yield the directories of the fetched partitions with these names."""
        catalyst = self._catalyst
        found = self._catalog.directories(self.partitions(names), catalyst.execution.hadoop_conf)
        yield from texts(catalyst.scala, found)[0] if names else ()

    def rows(self, names: Sequence[str]) -> JavaArray[InternalRow]:
        """Return the values of the partitions ``names``, in order, as an ``Array[InternalRow]``."""
        return self._catalog.rows(self.partitions(names))

    def files(self, names: Sequence[str]) -> tuple[list[pa.RecordBatch | None], int]:
        """Return the files of each fetched partition, and the number of storage requests made.

        The files of a partition are None if its directory does not exist.
        """
        with self._lock:
            before = self.listings
            if any(name not in self._files for name in names):
                self._list_in_common()
            new = [name for name in dict.fromkeys(names) if name not in self._files]
            if new:
                self._keep_files(new, self._listed(new))
            return [self._files[name] for name in names], self.listings - before

    def listed_by_spark(self, leaf: LogicalPlan) -> FileIndex:
        """Return Spark's index of the files of all partitions, listed once for all scans."""
        with self._lock:
            if self._whole is None:
                self._whole = self._catalyst.relations.listed_by_spark(leaf)
            return self._whole

    def statuses(self, paths: Sequence[str]) -> Seq[FileStatus]:
        """Return the ``FileStatus`` objects of listed files, as a ``Seq``."""
        with self._lock:
            rows = pa.array([self._status_of[path] for path in paths], pa.int64())
            return self._catalyst.scala.mapped(self._catalyst.scala.positions(rows), self._statuses)

    def check_identity(self) -> None:
        """Check that the table was not dropped, recreated or moved since it was opened.

        Raises:
            TableNotFound: if it was dropped, even if a new table has the same name.
        """
        if not self._catalog.is_same_table():
            raise TableNotFound(
                f"{self.table} was dropped, recreated or moved since it was opened.",
                hint="open it again.",
            )

    def _read(self, returned: Sequence[str]) -> tuple[pa.Array, pa.RecordBatch]:
        """Count a request, and return the names and values of the partitions in its response."""
        self.requests += 1
        names = pa.array(returned, pa.string())
        self._check_keys(names)
        return names, split_names(names, self.schema.names)

    def _check_keys(self, names: pa.Array) -> None:
        """Raise an error if a name does not have the keys that the table had when it was opened."""
        pattern = "/".join(f"{re.escape(escape(key))}=[^/]*" for key in self.schema.names)
        if not pc.all(pc.match_substring_regex(names, f"(?i)^{pattern}$"), min_count=0).as_py():
            self.check_identity()
            keys = ", ".join(self.schema.names)
            raise SourceError(f"A partition name does not have the keys {keys}.")

    def _list_in_common(self) -> None:
        """List the files of fetched partitions with one common listing, if it takes few pages."""
        names = [name for name, found in self._fetched.items() if found and name not in self._files]
        pages = self._most_pages(len(names))
        known = 0 if self._names is None else len(self._names[0])
        if (
            self._lists_one_by_one
            or len(names) < _LEAST_DIRECTORIES
            or known > pages * FILES_PER_PAGE
        ):
            return
        catalyst = self._catalyst
        conf = catalyst.execution.hadoop_conf
        directories = self._catalog.directories(self.partitions(names), conf)
        flat = flat_listing(catalyst.scala, conf, directories, pages)
        # Directories without files in the common listing are listed one by one.
        self._lists_one_by_one = flat is None or len(flat.directories) < len(names)
        if flat is not None:
            self.listings += flat.pages
            self._keep_files([names[number] for number in flat.directories], flat.found)

    def _most_pages(self, directories: int) -> int:
        """Return the maximum number of pages that a common listing of the directories may read.

        A common listing reads its pages one after the other. If it fails, even at its last page,
        the directories are listed one by one after all. So it may take at most half the time that
        all threads need for that.
        """
        return max(_PAGES, directories // (2 * self.threads))

    def _listed(self, names: Sequence[str]) -> Listing:
        self.listings += len(names)
        catalyst = self._catalyst
        conf = catalyst.execution.hadoop_conf
        directories = self._catalog.directories(self.partitions(names), conf)
        return list_directories(catalyst.scala, catalyst.session, conf, directories, self.threads)

    def _keep_files(self, names: Sequence[str], listing: Listing) -> None:
        paths = listing.files["path"].to_pylist()
        self._status_of |= {path: row for row, path in enumerate(paths, self._statuses.size())}
        self._statuses = self._catalyst.scala.joined(
            self._statuses, listing.statuses
        ).toIndexedSeq()
        number = listing.files["partition"].to_numpy()
        ends = number.searchsorted(range(len(names)), side="right").tolist()
        start = 0
        for name, end in zip(names, ends, strict=True):
            self._files[name] = listing.files.slice(start, end - start)
            start = end
        self._files |= dict.fromkeys(names[i] for i in listing.missing)

    def _fetch(self, names: Sequence[str]) -> None:
        partitions = self._catalog.by_name(names)
        self.requests += partitions is not None
        self._keep(partitions, names)
        # Request missing partitions with filters, and those that are still missing one by one.
        missing = [name for name in names if name not in self._fetched]
        if len(missing) > _FEW:
            for offset in range(0, len(missing), _VALUES_PER_FILTER):
                some = missing[offset : offset + _VALUES_PER_FILTER]
                condition = self._condition(some)
                if condition is not None:
                    self.requests += 1
                    self._keep(self._catalog.by_condition(condition), some)
        left = [name for name in missing if name not in self._fetched]
        for name, values in zip(left, self._texts(left), strict=True):
            texts = [NULL_PARTITION if text is None else text for text in values]
            spec = dict(zip(self.schema.names, texts, strict=True))
            found = self._catalog.by_values(spec)
            self._fetched[name] = None if found is None else _Fetched(found, {name: 0})
            self.requests += 1
        if any(self._fetched[name] is None for name in left):
            self._check_dropped(left)

    def _check_dropped(self, names: Sequence[str]) -> None:
        """Raise an error if a requested partition exists, but was not in the catalog's response."""
        self.requests += 1
        still = set(self._catalog.names()).intersection(n for n in names if not self._fetched[n])
        if still:
            for name in still:
                del self._fetched[name]
            raise SourceError(
                "The catalog lists the name of this partition, but does not return its details.",
                partition=min(still),
            )

    def _keep(self, partitions: Seq[CatalogPartition] | None, names: Sequence[str]) -> None:
        """Cache the requested partitions from a response, and ignore other partitions in it."""
        if partitions is None:
            return
        # Compare values instead of names, since other writers may escape names differently.
        found = self._texts(self._catalog.names_of(partitions))
        by_values = {values: i for i, values in enumerate(found)}
        requested = dict(zip(names, self._texts(names), strict=True))
        positions = {n: by_values[values] for n, values in requested.items() if values in by_values}
        fetched = _Fetched(partitions.toIndexedSeq(), positions)
        self._fetched |= dict.fromkeys(positions, fetched)

    def _texts(self, names: Sequence[str]) -> list[tuple[str | None, ...]]:
        """Return the partition values in each name as text, such as ``("2024", "5")``."""
        columns = split_names(pa.array(names, pa.string()), self.schema.names).columns
        return list(zip(*(column.to_pylist() for column in columns), strict=True))

    def _condition(self, names: Sequence[str]) -> str | None:
        """Return an SQL filter that matches at least these partitions.

        The filter lists the values of one key. The result is None if there is no key whose values
        can be written as SQL literals without a cast.
        """
        columns = split_names(pa.array(names, pa.string()), self.schema.names)
        best: str | None = None
        most = 0
        for key, column in zip(self.schema, columns.columns, strict=True):
            texts = pc.unique(column)
            literals = bare_literals(parse(texts, key).values, key.type)
            if has_variable(key.name):
                continue
            if literals and (best is None or len(literals) > most):
                # The key with the most values is the most selective.
                most = len(literals)
                name = column_text(self._catalyst.spark, key.name)
                best = f"{name} IN ({', '.join(literals)})"
        return best
