"""The class :class:`DeltaConnector`. The engine calls its methods in the order of this file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.parquet_footer import names_by_id, read_schema
from splitlib.arrow.values import try_cast
from splitlib.errors import ConfigError, MissingFile, UnsupportedTable
from splitlib.hive.partition_values import parse
from splitlib.model import (
    FILE_SCHEMA,
    ColumnStatistics,
    DeleteFile,
    FileBatch,
    PartitionBatch,
    ReadFormat,
    Requests,
    TableMetadata,
)
from splitlib.remote.calls import in_parallel
from splitlib.spi import Connector, Predicate, check_options, integer, milliseconds
from splitlib.storage import Storage, local_path, located
from splitlib_delta.actions import decoding
from splitlib_delta.deletion_vectors import delete_file, read_vector
from splitlib_delta.log import Contents, LogReader, Snapshot, version_at
from splitlib_delta.schema import Columns, check_protocol, columns_of
from splitlib_delta.statistics import bounds_of, concatenated

_OPTIONS: Final = ("storage_options", "timestamp", "version")
_INSTANT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]{1,6})?Z$"


class DeltaConnector(Connector):
    """One version of a Delta Lake table, without a catalog.

    At most one of ``version`` and ``timestamp`` may be given. Without them, the newest version is
    read.

    Options:
        version (int): Number of the version to read.
        timestamp (str | int | datetime): Time of the version to read: ISO 8601 text with a time
            zone, milliseconds since the epoch, or a datetime.
        storage_options (mapping): Options of the fsspec filesystem.
    """

    partitions_per_listing = 10_000

    def __init__(
        self,
        storage: Storage,
        root: str,
        version: int,
        snapshot: Snapshot,
        columns: Columns,
        requests: Requests,
        table_id: str | None,
    ) -> None:
        self._storage = storage
        self._root = root
        self._snapshot = snapshot
        self._with_statistics = {c.field.name.lower(): c for c in columns.with_statistics}
        keys = pa.schema([columns.schema.field(key) for key in columns.keys])
        filterable = [*keys, *(column.field for column in columns.with_statistics)]
        self._metadata = TableMetadata(
            columns.schema,
            columns.keys,
            columns.read_format,
            root,
            str(version),
            columns.spark_schema,
            filter_schema=pa.schema(filterable),
            has_statistics=True,
            requests=requests,
            table_id=table_id,
        )
        self._partitions = self._grouped(keys)

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open the table in the directory ``name``, a path or URI, and read its log."""
        check_options(options, _OPTIONS)
        pins = {
            key: options[key] for key in ("version", "timestamp") if options.get(key) is not None
        }
        if len(pins) > 1:
            raise ConfigError("version and timestamp exclude each other.", hint="pass one of them.")
        root = local_path(name.rstrip("/") or name)
        if not root.strip():
            raise ConfigError("No root directory is given.", hint="pass its path or URI.")
        if located(root).protocol == "file":
            root = os.path.abspath(os.path.expanduser(root))
        storage = Storage(options.get("storage_options"))
        reader = LogReader(storage, root)
        log = reader.log()
        if "timestamp" in pins:
            version = version_at(reader, log, milliseconds("timestamp", pins["timestamp"]))
        else:
            version = log.version(integer("version", pins["version"]) if pins else None)
        contents = Contents(reader, version)
        with decoding("The metadata"):
            columns = columns_of(contents.metadata, check_protocol(contents.protocol))
        snapshot = Snapshot(contents, columns.names_of_keys)
        requests = Requests(storage=reader.requests)
        table_id = str(contents.metadata.get("id") or "") or None
        return cls(storage, root, version.number, snapshot, columns, requests, table_id)

    def describe(self) -> TableMetadata:
        """Return the schema, partition columns and version of the table."""
        return self._metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield all partitions in one batch. The log was already read when the table was opened."""
        yield self._partitions

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the data files of ``partitions`` in one batch, with their deletion vectors.

        Statistics are read from the log only for data columns that the predicate uses.
        """
        lengths = pc.list_value_length(partitions.refs).to_numpy()
        rows = partitions.refs.flatten()
        if not len(rows):
            return
        chosen = self._snapshot.files.take(rows)
        owner = pa.array(np.repeat(np.arange(len(partitions)), lengths))
        columns = [chosen[name].combine_chunks() for name in ("path", "size")]
        modified = pc.fill_null(chosen["modified"].combine_chunks(), 0)
        statistics, requests = self._statistics(rows, predicate)
        deletes, sets = self._deletes(chosen)
        yield FileBatch(
            pa.RecordBatch.from_arrays([*columns, modified, owner], schema=FILE_SCHEMA),
            self._metadata.read_format,
            Requests(storage=requests),
            statistics,
            deletes,
            sets,
        )

    def with_physical_names(self, files: FileBatch) -> Iterator[FileBatch]:
        """Open every file to read its column names, and yield one batch per set of names."""
        names = in_parallel(self._names_in, files.files["path"].to_pylist())
        rows: dict[ReadFormat, list[int]] = {}
        for row, found in enumerate(names):
            rows.setdefault(ReadFormat.of("parquet", columns=found), []).append(row)
        for form, of_form in rows.items():
            yield replace(files.take(pa.array(of_form)), read_format=form)

    def read_vector(self, delete: DeleteFile) -> pa.Int64Array:
        """Return the positions of the rows that a deletion vector deletes, in ascending order."""
        return read_vector(self._storage, delete)

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Return the user's fsspec options for a storage protocol."""
        return self._storage.given_options

    def _grouped(self, keys: pa.Schema) -> PartitionBatch:
        """Return all partitions. A partition's handle is the list of its files' row numbers.

        The rows are those of :attr:`Snapshot.files`.
        """
        files = self._snapshot.files
        every = pa.array(np.arange(len(files)))
        texts = [files[str(number)].combine_chunks() for number in range(len(keys))]
        if not texts:
            refs = pa.ListArray.from_arrays([0, len(files)], every)
            return replace(PartitionBatch.whole(refs), file_counts=refs.value_lengths())
        names = [str(number) for number in range(len(keys))]
        table = pa.table([*texts, every], names=[*names, "row"])
        grouped = table.group_by(names, use_threads=False).aggregate([("row", "list")])
        columns = [
            self._typed(grouped[name].combine_chunks(), key)
            for name, key in zip(names, keys, strict=True)
        ]
        refs = grouped["row_list"].combine_chunks()
        values = pa.RecordBatch.from_arrays(columns, names=keys.names)
        return PartitionBatch(values, refs, file_counts=refs.value_lengths())

    @staticmethod
    def _typed(texts: pa.StringArray, key: pa.Field) -> pa.Array:
        """Convert partition values to the type of their key, unless only Spark can parse them.

        Timestamps without a time zone and values in an unusual format remain strings. Floats also
        remain strings, because :func:`parse` does not preserve the sign of -0.0.
        """
        if pa.types.is_string(key.type) or pa.types.is_floating(key.type):
            return texts
        if pa.types.is_binary(key.type):
            return texts.cast(key.type)
        if pa.types.is_timestamp(key.type) and key.type.tz:
            if pc.all(pc.match_substring_regex(texts, _INSTANT)).as_py() is False:
                return texts
            moments = try_cast(texts, key.type)
            return texts if moments.null_count > texts.null_count else moments
        found = parse(texts, key)
        return texts if found.undecided is not None else found.values

    def _statistics(
        self, rows: pa.Array, predicate: Predicate
    ) -> tuple[dict[str, ColumnStatistics], int]:
        columns = [c for name, c in self._with_statistics.items() if name in predicate.keys]
        if not columns:
            return {}, 0
        groups, requests = self._snapshot.statistics(rows)
        return concatenated([(place, bounds_of(e, columns)) for place, e in groups]), requests

    def _deletes(
        self, files: pa.Table
    ) -> tuple[pa.Array | None, tuple[tuple[DeleteFile, ...], ...]]:
        """Return, for each file, the index of its deletion vector or null, and the vectors."""
        vectors = files["vector"].combine_chunks()
        rows = pc.indices_nonzero(pc.is_valid(pc.struct_field(vectors, ["storageType"])))
        if not len(rows):
            return None, ()
        paths = files["path"].take(rows).to_pylist()
        sets: tuple[tuple[DeleteFile, ...], ...] = tuple(
            (delete_file(vector, path, self._root),)
            for vector, path in zip(vectors.take(rows).to_pylist(), paths, strict=True)
        )
        numbers = np.full(len(files), -1)
        numbers[rows.to_numpy()] = np.arange(len(rows))
        return pa.array(numbers, mask=numbers < 0), sets

    def _names_in(self, path: str) -> dict[int, str]:
        fs, place = self._storage.filesystem(path)
        try:
            with fs.open(place, "rb") as stream, decoding(path):
                names = names_by_id(read_schema(stream))
        except FileNotFoundError as error:
            raise MissingFile(f"The data file {path} no longer exists.") from error
        if not names:
            raise UnsupportedTable(
                f"Data file {path} has no field ids, but the table finds columns by field id.",
                hint="read the table with Spark's own Delta reader.",
            )
        return names
