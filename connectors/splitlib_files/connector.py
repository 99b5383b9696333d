"""Partitions found by walking directories, one level per partition key."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, Self

import pyarrow as pa

from splitlib.errors import (
    ConfigError,
    MissingPartition,
    SourceError,
    TableNotFound,
    UnsupportedTable,
)
from splitlib.hive.layout import split_names
from splitlib.hive.types import parse_schema
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.remote.workers import Workers
from splitlib.spi import Connector, Predicate
from splitlib.storage import SELECTING_OPTIONS, Storage, file_batch
from splitlib_files.schema import infer_schema

_OPTIONS = {"format", "partition_schema", "schema", "storage_options", "read_options"}
_FORMATS = ("parquet", "orc", "json", "csv", "text")
_WALK_THREADS = 16
_WALK_BATCH = 256


class FilesConnector(Connector):
    """A table that is nothing but directories.

    Options:
        format: ``parquet`` (default), ``orc``, ``json``, ``csv`` or ``text``.
        partition_schema: Partition keys and their types, a ``pyarrow.Schema`` or ``"k int, d
            date"``; by default the keys of the first directories found, all of them strings.
        schema: Data columns, given likewise; by default those of the first file found.
        storage_options: Options of the fsspec filesystem.
        read_options: Spark's options of the format, such as ``{"header": "true"}``.
    """

    def __init__(self, root: str, storage: Storage, metadata: TableMetadata) -> None:
        self._root = root
        self._storage = storage
        self._metadata = metadata

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """See :meth:`Connector.open`; ``name`` is the path or URI of the root directory."""
        if unknown := set(options) - _OPTIONS:
            raise ConfigError(
                f"Unknown option {', '.join(sorted(unknown))}.",
                hint=f"the options of this connector are {', '.join(sorted(_OPTIONS))}.",
            )
        kind = options.get("format", "parquet")
        if kind not in _FORMATS:
            raise ConfigError(f"Unknown format {kind!r}.", hint=f"one of {', '.join(_FORMATS)}.")
        selecting = {*SELECTING_OPTIONS, "recursivefilelookup", "basepath"}
        for option in options.get("read_options") or {}:
            if option.lower() in selecting:
                raise ConfigError(f"Read option {option!r} would change which files there are.")
        storage = Storage(options.get("storage_options"))
        if not name.strip():
            raise ConfigError("No root directory is given.", hint="pass its path or URI.")
        root = name.rstrip("/") or "/"
        try:
            first = storage.directories(root)
        except MissingPartition as error:
            raise TableNotFound(f"There is no directory {name!r}.") from error
        keys = _schema(options.get("partition_schema"))
        if keys is None:
            keys = _string_keys(storage, root, first)
        data = _schema(options.get("schema"))
        if data is None:
            data = infer_schema(storage, root, kind, levels=len(keys))
        own = {key.name.lower() for key in keys}
        schema = pa.schema([f for f in data if f.name.lower() not in own] + list(keys))
        read_format = ReadFormat.of(kind, options.get("read_options"))
        return cls(root, storage, TableMetadata(schema, tuple(keys.names), read_format, root))

    def describe(self) -> TableMetadata:
        """See :meth:`Connector.describe`."""
        return self._metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """See :meth:`Connector.list_partitions`; what an upper level excludes is not entered."""
        with Workers(_WALK_THREADS, "splitlib-walk") as pool:
            yield from self._walk(pool, [""], predicate, 0)

    def _walk(
        self, pool: Workers, parents: list[str], predicate: Predicate, listed: int
    ) -> Generator[PartitionBatch, None, int]:
        """The partitions below some directories, given relative to the root.

        ``listed`` directories have not been counted in a batch yet; those left are returned.
        """
        keys = self._metadata.partition_keys
        depth = parents[0].count("/")
        if depth == len(keys):
            values = split_names(pa.array([p[1:] for p in parents]), keys) if keys else _no_values()
            yield PartitionBatch(values, pa.array(parents, pa.string()), Requests(storage=listed))
            return 0
        for start in range(0, len(parents), _WALK_BATCH):
            some = parents[start : start + _WALK_BATCH]
            found = pool.map(lambda p: self._storage.directories(self._root + p), some)
            children = [
                f"{p}/{name}" for p, names in zip(some, found, strict=True) for name in names
            ]
            listed += len(some)
            for child in children:
                self._check(child, keys[depth])
            if not children:
                continue
            known = split_names(pa.array([c[1:] for c in children]), keys[: depth + 1])
            if depth + 1 == len(keys):
                # the engine matches these itself, and counts them
                refs = pa.array(children, pa.string())
                yield PartitionBatch(known, refs, Requests(storage=listed))
                listed = 0
            else:
                keep = pa.array(children).filter(predicate.match(known)).to_pylist()
                if keep:
                    listed = yield from self._walk(pool, keep, predicate, listed)
        return listed

    def check_identity(self) -> None:
        """See :class:`splitlib.spi.SupportsIdentityCheck`; of the root, which is all there is."""
        try:
            self._storage.directories(self._root)
        except MissingPartition as error:
            raise TableNotFound(f"There is no directory {self._root!r} any more.") from error

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """See :meth:`Connector.list_files`."""
        for row, below in enumerate(partitions.refs.to_pylist()):
            files = self._storage.files(self._root + below)
            batch = file_batch((row, file) for file in files)
            yield FileBatch(batch, self._metadata.read_format, Requests(storage=1))

    def _check(self, directory: str, key: str) -> None:
        found, equals, _ = directory.rpartition("/")[2].partition("=")
        if not equals or found.lower() != key.lower():
            raise SourceError(
                f"Directory {self._root + directory!r} is no partition of {key!r}.",
                hint="move it away, or give the right partition_schema.",
            )


def _schema(given: Any) -> pa.Schema | None:
    if given is None or isinstance(given, pa.Schema):
        return given
    if isinstance(given, str):
        return parse_schema(given)
    raise ConfigError(f"A schema is a pyarrow.Schema or 'k int, d date', not {given!r}.")


def _string_keys(storage: Storage, root: str, names: list[str]) -> pa.Schema:
    """Key names of the first directory of each level. The types cannot be known: text it stays."""
    keys: list[pa.Field] = []
    path = root
    while names and "=" in names[0]:
        key = names[0].partition("=")[0]
        if any(key == known.name for known in keys):  # also where a link leads back
            raise UnsupportedTable(
                f"Directories below {path!r} are of partition key {key!r} again."
            )
        keys.append(pa.field(key, pa.string()))
        path = f"{path}/{names[0]}"
        names = storage.directories(path)
    return pa.schema(keys)


def _no_values() -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([], names=[])
