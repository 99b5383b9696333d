"""The connector class: lists partition names, loads partition details, and lists files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, Self, TypeVar

import pyarrow as pa

from splitlib.errors import ConfigError, CorruptMetadata, SourceError, TableNotFound, did_you_mean
from splitlib.filtering.partition_names import CANONICAL_VALUES, rows_with, wanted
from splitlib.hive import entries
from splitlib.hive.entries import (
    StorageEntry,
    TableEntry,
    files_each,
    hadoop_location,
    metadata_of,
    readable_metadata,
)
from splitlib.hive.partition_files import REF, PartitionFiles
from splitlib.hive.partition_values import NULL_PARTITION, partition_name, read_names, split_names
from splitlib.model import FileBatch, PartitionBatch, ReadFormat, Requests, TableMetadata
from splitlib.spi import Connector, Predicate, check_options, flag
from splitlib.storage import Storage
from splitlib_hive.client import (
    CONNECT_TIMEOUT_SECONDS,
    TIMEOUT_SECONDS,
    MetastoreClient,
    parse_uris,
)
from splitlib_hive.security import OPTIONS as SECURITY
from splitlib_hive.security import security_of

T = TypeVar("T")
_NUMBERS = {
    "connect_timeout_seconds": CONNECT_TIMEOUT_SECONDS,
    "timeout_seconds": TIMEOUT_SECONDS,
    "partitions_per_request": 500,
}
_OPTIONS = {"uri", "storage_options", "canonical_values", "catalog", *_NUMBERS, *SECURITY}
# Maximum number of partition name prefixes to request, with one call each. Ten calls take no longer
# than listing a few thousand names.
_MOST_PREFIXES = 10


def table_metadata(table: Any) -> TableMetadata:
    """Convert a Thrift ``Table`` to splitlib's table metadata.

    Raises:
        UnsupportedTable: if splitlib might return different rows than Spark for this table.
        CorruptMetadata: if required metadata is missing or malformed.
    """
    with readable_metadata("the table"):
        return metadata_of(table_entry(table))


def read_format(table: TableEntry, partition: Any) -> ReadFormat:
    """Return the format in which to read the files of a Thrift ``Partition``.

    Call this function in a ``readable_metadata`` block, which converts its exceptions.

    Raises:
        UnsupportedTable: for a SerDe or file format that Spark's own readers do not support.
    """
    return entries.read_format(table, _storage_entry(partition))


def table_entry(table: Any) -> TableEntry:
    """Convert a Thrift ``Table`` to a :class:`TableEntry`.

    Call this function in a ``readable_metadata`` block, which converts its exceptions.
    """
    skew = table.sd.skewedInfo
    return TableEntry(
        kind=table.tableType or "",
        declared=[(column.name, column.type) for column in table.sd.cols],
        keys=[(key.name, key.type) for key in table.partitionKeys or ()],
        storage=_storage_entry(table),
        is_list_bucketed=bool(table.sd.storedAsSubDirectories and skew and skew.skewedColNames),
    )


def _storage_entry(entry: Any) -> StorageEntry:
    serde = entry.sd.serdeInfo
    return StorageEntry(
        location=hadoop_location(entry.sd.location),
        serde=serde.serializationLib,
        input_format=entry.sd.inputFormat,
        serde_properties=serde.parameters or {},
        parameters=entry.parameters or {},
    )


class HiveConnector(Connector):
    """A table of a Hive metastore.

    Options:
        uri (str, required): Address of the metastore, such as ``thrift://host:9083``. Several
            addresses are separated by commas and tried in turn. For a metastore in HTTP mode, the
            address has the form ``https://host/metastore``.
        catalog (str): Catalog of the metastore, for Hive 3 and newer. The default is the server's.
        tls (bool, default false): ``true`` to connect with TLS. The other TLS options imply
            this option.
        tls_ca (str): PEM file with the authorities that sign the metastore's certificate. The
            default is the system's authorities.
        tls_certificate (str): PEM file with the client's own certificate.
        tls_key (str): PEM file with the client's key, if it is not in the same file.
        kerberos_principal (str): Principal of the metastore, such as ``hive/_HOST@EXAMPLE.COM``, in
            which ``_HOST`` means the address's host name. The process must have a Kerberos ticket,
            and the extra ``kerberos`` must be installed.
        token (str): Bearer token for addresses with ``https``.
        partitions_per_request (int, default 500): Maximum number of partitions loaded by one call.
        connect_timeout_seconds (float, default 10): Time limit for opening a connection, in
            seconds.
        timeout_seconds (float, default 300): Time limit for a complete response, in seconds.
        canonical_values (bool): ``true`` if integers and dates in partition values are always in
            canonical form, as Spark writes them (``5``, never ``05``). Then partitions with such
            keys can be requested by name. String keys do not need this option. If it is set
            wrongly, partitions are missed. The default is the table property
            ``splitlib.canonical_values``, or ``false``.
        storage_options (mapping): Options of the fsspec filesystem.
    """

    def __init__(
        self,
        client: MetastoreClient,
        table: Any,
        storage: Storage,
        partitions_per_request: int,
        *,
        canonical_values: Any = None,
    ) -> None:
        self._client = client
        self._table = table
        self._storage = storage
        self._metadata = table_metadata(table)
        self._entry = table_entry(table)
        self._partitions_per_request = partitions_per_request
        self._canonical = _is_canonical(canonical_values, table)
        entries.refuse_stream_output(storage, self._entry, self._metadata)
        self._files = PartitionFiles(
            storage,
            self._metadata.location,
            is_partitioned=bool(self._metadata.partition_keys),
        )
        self.files_per_page = self._files.files_per_page

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open the table ``name``, such as ``db.t``. Without a database, ``default`` is used."""
        client, numbers = _connected(options)
        database, _, table = name.lower().rpartition(".")
        try:
            found = client.get_table(database or "default", table)
            storage = Storage(options.get("storage_options"))
            return cls(
                client,
                found,
                storage,
                int(numbers["partitions_per_request"]),
                canonical_values=options.get("canonical_values"),
            )
        except BaseException:
            client.close()
            raise

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the database and name of every table in one database or in all databases."""
        client, _ = _connected(options)
        with closing(client):
            databases = sorted(client.get_databases())
            if database is not None:
                databases = [_existing(database, databases)]
            for name in databases:
                for table in sorted(client.get_tables(name)):
                    yield name, table

    def describe(self) -> TableMetadata:
        """Return the table's columns, partition keys, format and location."""
        return self._metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the table's partitions, in batches.

        If the predicate determines the names of the matching partitions, or the prefixes of their
        names, only these partitions are requested. Otherwise one call lists all names. The
        metastore's own filters are not used. They are slower than listing all names, and wrong on
        newer servers, which compare strings and so do not find ``k=05`` for 5.
        """
        if not self._metadata.partition_keys:
            whole = self._files.ref(self._metadata.location, self._metadata.read_format)
            yield PartitionBatch.whole(pa.array([whole], REF))
            return
        keys = self._metadata.partition_schema
        for values in wanted(predicate, keys, canonical=self._canonical):
            if values.num_columns == len(keys):
                if values.num_rows <= self._partitions_per_request:
                    yield from self._by_name(values)
                    return
            elif values.num_rows <= _MOST_PREFIXES:
                yield from self._by_prefix(values)
                return
        names = self._request(self._client.get_partition_names)
        yield self._named(names, Requests(catalog=1))

    def _by_name(self, values: pa.Table) -> Iterator[PartitionBatch]:
        """Yield the existing partitions whose key values are a row of ``values``, with details."""
        keys = [key.lower() for key in self._metadata.partition_keys]
        rows = zip(*values.to_pydict().values(), strict=True)
        # Sort partitions in the order in which an object store lists their directories. Then one
        # request can list several directories.
        ordered = sorted((partition_name(keys, row) for row in rows), key=lambda name: f"{name}/")
        names = pa.array(ordered, pa.string())
        named = self._named(names, Requests())
        yield replace(self.load_details(named) if len(names) else named, asked_for="names")

    def _by_prefix(self, values: pa.Table) -> Iterator[PartitionBatch]:
        """Yield the partitions whose first key values are a row of ``values``. One call per row."""
        open_keys = [""] * (len(self._metadata.partition_keys) - values.num_columns)
        for leading in zip(*values.to_pydict().values(), strict=True):
            names = self._request(self._client.get_partition_names, [*leading, *open_keys])
            found = self._named(names, Requests(catalog=1))
            # Keep only exact matches. The metastore treats some characters as wildcards, so a
            # partition might be returned for two prefixes.
            exact = rows_with(found.values, leading)
            kept = found.values.filter(exact), found.refs.filter(exact)
            yield PartitionBatch(*kept, requests=found.requests, asked_for="prefix")

    def _named(self, names: pa.Array, requests: Requests) -> PartitionBatch:
        """Return a batch of the partitions with these names, without locations and formats."""
        try:
            values, have_keys = read_names(names, self._metadata.partition_keys)
        except SourceError:
            # A new table with the same name may have other keys. Its error is more helpful.
            self.check_identity()
            raise
        if not have_keys:
            self.check_identity()
        return PartitionBatch(values, names, requests)

    @property
    def partitions_per_details(self) -> int:
        """Maximum number of partitions in one call of :meth:`load_details`."""
        return self._partitions_per_request

    def load_details(self, partitions: PartitionBatch) -> PartitionBatch:
        """Load the locations and formats of partitions. Dropped partitions are left out."""
        if partitions.refs.type == REF:
            return partitions
        names = partitions.refs.to_pylist()
        found = self._request(self._client.get_partitions_by_names, names)
        with readable_metadata("a partition"):
            # Match partitions by value, because the response has no names and no fixed order.
            by_values = {tuple(map(_in_name, partition.values)): partition for partition in found}
        raw = split_names(partitions.refs, self._metadata.partition_keys)
        rows, refs = list[int](), list[dict[str, Any]]()
        for row, values in enumerate(zip(*raw.to_pydict().values(), strict=True)):
            partition = by_values.get(tuple(map(_in_name, values)))
            if partition is not None:
                rows.append(row)
                with readable_metadata(f"the partition {names[row]}"):
                    if not (location := hadoop_location(partition.sd.location)):
                        name = names[row]
                        raise CorruptMetadata("A partition has no location.", partition=name)
                    form = read_format(self._entry, partition)
                refs.append(self._files.ref(location, form))
        kept = partitions.values.take(pa.array(rows, pa.int64()))
        each = files_each(partition.parameters or {} for partition in found)
        return PartitionBatch(kept, pa.array(refs, REF), Requests(catalog=1), files_each=each)

    def check_identity(self) -> None:
        """Check that the table was not replaced by another table with the same name.

        Metastore tables have no ids. So a new table is not detected if it has the same partition
        keys and location, and was created in the same second.

        Raises:
            TableNotFound: if the table was dropped or replaced.
        """
        if _identity(self._client.get_table(*self._name)) != _identity(self._table):
            raise TableNotFound(
                "The table was dropped and created again, or moved, after it was opened.",
                hint="open the table again.",
            )

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the data files of ``partitions``, in one batch per read format."""
        return self._files.list_files(partitions.refs)

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Return the user's fsspec options for a storage protocol."""
        return self._storage.given_options

    def close(self) -> None:
        """Close the connection to the metastore."""
        self._client.close()

    @property
    def _name(self) -> tuple[str, str]:
        return self._table.dbName, self._table.tableName

    def _request(self, call: Callable[..., T], *arguments: Any) -> T:
        """Make a call about the table. If it raises an error, check that the table still exists.

        Some metastores report an internal error if the table was dropped.
        """
        try:
            return call(*self._name, *arguments)
        except SourceError:
            self.check_identity()
            raise


def _identity(table: Any) -> tuple[Any, ...]:
    """Return the properties that distinguish a table from a later table with the same name."""
    keys = [(key.name, key.type) for key in table.partitionKeys or ()]
    return table.createTime, table.tableType, table.sd.location, keys


def _in_name(value: str | None) -> str:
    """Return a value as written in partition names, where null and '' are the same text."""
    return value or NULL_PARTITION


def _connected(options: Mapping[str, Any]) -> tuple[MetastoreClient, dict[str, float]]:
    """Return a metastore client for ``options``, and the numeric options by name."""
    check_options(options, _OPTIONS)
    numbers = {key: _number(key, options.get(key, value)) for key, value in _NUMBERS.items()}
    uri = options.get("uri") or ""
    if not isinstance(uri, str):
        raise ConfigError(
            f"uri is a {type(uri).__name__}, not a text.", hint="pass uri='thrift://host:9083'."
        )
    addresses = parse_uris(uri)
    client = MetastoreClient(
        addresses,
        security=security_of(options, addresses),
        catalog=options.get("catalog"),
        connect_timeout_seconds=numbers["connect_timeout_seconds"],
        timeout_seconds=numbers["timeout_seconds"],
    )
    return client, numbers


def _is_canonical(given: Any, table: Any) -> bool:
    value = (table.parameters or {}).get(CANONICAL_VALUES, False) if given is None else given
    return flag({"canonical_values": value}, "canonical_values")


def _existing(name: str, databases: list[str]) -> str:
    if name.lower() in databases:
        return name.lower()
    hint = did_you_mean(name, databases)
    raise TableNotFound(f"The metastore has no database {name!r}.", hint=hint)


def _number(option: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    too_small = number < 1 if option == "partitions_per_request" else number <= 0
    if too_small or not number <= threading.TIMEOUT_MAX:
        raise ConfigError(f"Option {option} must be a positive number, not {value!r}.")
    return number
