"""The connector: what the engine asks for, in the order in which it asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import pyarrow as pa

from splitlib.errors import ConfigError, MissingPartition, TableNotFound
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.spi import Connector, Predicate, check_options
from splitlib.storage import SELECTING_OPTIONS, Storage
from splitlib_files.schema import declared_schema, keys_of_directories, schema_of_files
from splitlib_files.walk import Walk

_OPTIONS = {"format", "partition_schema", "schema", "storage_options", "read_options"}
_FORMATS = ("parquet", "orc", "json", "csv", "text")


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
        self.files_per_page = storage.files_per_page(root)

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """See :meth:`Connector.open`; ``name`` is the path or URI of the root directory."""
        _check(options)
        if not name.strip():
            raise ConfigError("No root directory is given.", hint="pass its path or URI.")
        root = name.rstrip("/") or "/"
        storage = Storage(options.get("storage_options"))
        try:
            first = storage.directories(root)
        except MissingPartition as error:
            raise TableNotFound(f"There is no directory {name!r}.") from error
        keys = declared_schema(options.get("partition_schema"))
        if keys is None:
            keys = keys_of_directories(storage, root, first)
        form = options.get("format", "parquet")
        data = declared_schema(options.get("schema"))
        if data is None:
            data = schema_of_files(storage, root, form, levels=len(keys))
        taken = {key.name.lower() for key in keys}
        schema = pa.schema([f for f in data if f.name.lower() not in taken] + list(keys))
        read_format = ReadFormat.of(form, options.get("read_options"))
        return cls(root, storage, TableMetadata(schema, tuple(keys.names), read_format, root))

    def describe(self) -> TableMetadata:
        """See :meth:`Connector.describe`."""
        return self._metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """See :meth:`Connector.list_partitions`.

        The handle of a partition is its directory, as a path from the root.
        """
        yield from Walk(self._storage, self._root, self._metadata.partition_keys, predicate)

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """See :meth:`Connector.list_files`; nothing is known of a file that could exclude it."""
        locations = [self._root + directory for directory in partitions.refs.to_pylist()]
        files, requests, listed = self._storage.list_first(locations)
        took = Requests(storage=requests)
        yield FileBatch(files, self._metadata.read_format, took, partitions_listed=listed)

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """See :class:`splitlib.spi.SupportsStorageOptions`."""
        return self._storage.given_options(protocol)

    def check_identity(self) -> None:
        """See :class:`splitlib.spi.SupportsIdentityCheck`; a table is its root directory."""
        try:
            self._storage.directories(self._root)
        except MissingPartition as error:
            raise TableNotFound(f"There is no directory {self._root!r} any more.") from error


def _check(options: Mapping[str, Any]) -> None:
    """Refuse options that are unknown, or that would not be followed.

    Raises:
        ConfigError: naming the option.
    """
    check_options(options, _OPTIONS)
    form = options.get("format", "parquet")
    if form not in _FORMATS:
        raise ConfigError(f"Unknown format {form!r}.", hint=f"one of {', '.join(_FORMATS)}.")
    selecting = {*SELECTING_OPTIONS, "recursivefilelookup", "basepath"}
    for option in options.get("read_options") or {}:
        if option.lower() in selecting:
            raise ConfigError(f"Read option {option!r} would change which files there are.")
