"""The connector class: opens a Glue table, lists its partitions, and lists their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

import pyarrow as pa

from splitlib.errors import ConfigError, MissingPartition, TableNotFound
from splitlib.filtering.partition_names import CANONICAL_VALUES, wanted
from splitlib.hive.entries import readable_metadata, refuse_stream_output
from splitlib.hive.partition_files import REF, PartitionFiles
from splitlib.hive.projection import Projection, is_projected
from splitlib.model import FileBatch, PartitionBatch, Requests, TableMetadata
from splitlib.spi import Connector, Predicate, check_options, flag
from splitlib.storage import Storage, file_batch, of_rows
from splitlib_glue.client import CATALOG, OPTIONS, GlueClient, positive
from splitlib_glue.partitions import PER_REQUEST, Partitions
from splitlib_glue.projected import list_projected
from splitlib_glue.table import GlueTable, identity, load

_OPTIONS = {
    *OPTIONS,
    "canonical_values",
    "partition_projection",
    "partitions_per_request",
    "storage_options",
    "unfiltered",
}


class GlueConnector(Connector):
    """A table of the AWS Glue Data Catalog.

    Options:
        region (str): Region of the catalog, such as ``eu-central-1``. By default it comes from the
            environment or from AWS's configuration file, as for every AWS client.
        catalog_id (str): Id of the catalog. The default is the account of the credentials.
        key (str): Id of the access key for Glue. By default, boto3 looks the credentials up.
        secret (str): Secret access key, required with ``key``.
        token (str): Session token, for temporary credentials.
        profile (str): Profile in AWS's configuration files.
        endpoint_url (str): URL of the Glue service, if it is not AWS's own.
        partition_projection (bool, default true): ``false`` to read the registered partitions of a
            table with Athena's partition projection, as Spark does. By default, the table's
            partitions are computed as in Athena. Then a partition without a directory has no files,
            and files in subdirectories belong to their partition.
        unfiltered (bool, default false): ``true`` confirms that Lake Formation filters neither rows
            nor columns of the table for these credentials. This is required if the table is
            registered with Lake Formation, and the credentials have no permission to read its
            filters.
        canonical_values (bool): ``true`` if integers and dates in partition values are spelled as
            Spark writes them (``5``, never ``05``). Then partitions with such keys can be requested
            by their values. String keys do not need this option. If it is set wrongly, partitions
            are missed. The default is the table property ``splitlib.canonical_values``, or
            ``false``.
        partitions_per_request (int, default 1000): Maximum number of partitions per request.
            Glue's limit is 1000.
        connect_timeout_seconds (float, default 10): Time limit for opening a connection, in
            seconds.
        timeout_seconds (float, default 60): Time limit for a complete response, in seconds.
        storage_options (mapping): Options of the fsspec filesystem.
    """

    def __init__(self, client: GlueClient, table: GlueTable, options: Mapping[str, Any]) -> None:
        self._client = client
        self._table = table
        self._storage = Storage(options.get("storage_options"))
        self._metadata = table.metadata
        refuse_stream_output(self._storage, table.entry, self._metadata)
        parameters = table.entry.storage.parameters
        self._projection: Projection | None = None
        wants_projection = flag({"partition_projection": True, **options}, "partition_projection")
        if self._metadata.partition_keys and wants_projection and is_projected(parameters):
            keys, location = self._metadata.partition_schema, self._metadata.location
            self._projection = Projection(parameters, keys, location)
            self._projection.values(_now())  # raises an error if a property is invalid
        self._canonical = _is_canonical(options.get("canonical_values"), parameters)
        # As in Athena, files in subdirectories of projected partitions belong to the partition.
        below = self._projection is not None
        self._files = PartitionFiles(
            self._storage,
            self._metadata.location,
            is_partitioned=bool(self._metadata.partition_keys),
            below=below,
        )
        self.files_per_page = self._files.files_per_page
        per_request = _per_request(options.get("partitions_per_request", PER_REQUEST))
        self._partitions = Partitions(client, table, self._files, per_request)

    @classmethod
    def open(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Open the table ``name``, such as ``db.t``. Without a database, ``default`` is used."""
        check_options(options, _OPTIONS)
        unfiltered = flag(options, "unfiltered")
        database, _, table = name.lower().rpartition(".")
        if not table:
            raise ConfigError("No table is named.", hint="pass 'database.table'.")
        client = GlueClient(options)
        try:
            found = load(client, database or "default", table, unfiltered=unfiltered)
            with readable_metadata("the table", catalog=CATALOG):
                return cls(client, found, options)
        except BaseException:
            client.close()
            raise

    @classmethod
    def table_names(
        cls, database: str | None, options: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """Yield the database and name of every table in one database or in all databases."""
        check_options(options, _OPTIONS)
        client = GlueClient(options)
        with closing(client):
            databases = [database.lower()] if database is not None else None
            for name in databases or _names(client, "GetDatabases", "DatabaseList"):
                for table in _names(client, "GetTables", "TableList", DatabaseName=name):
                    yield name, table

    def describe(self) -> TableMetadata:
        """Return the table's columns, partition keys, format and location."""
        return self._metadata

    def list_partitions(self, predicate: Predicate) -> Iterator[PartitionBatch]:
        """Yield the table's partitions, in batches.

        Projected partitions are computed without requests. If the predicate determines the values
        of all partition keys, registered partitions are requested by their values. Otherwise they
        are listed by concurrent requests. If the predicate determines the values of a string key,
        Glue returns only the partitions with these values.
        """
        if not self._metadata.partition_keys:
            whole = self._files.ref(self._metadata.location, self._metadata.read_format)
            yield PartitionBatch.whole(pa.array([whole], REF))
            return
        if self._projection is not None:
            yield from self._projected(self._projection, predicate)
            return
        keys = self._metadata.partition_schema
        values = next(wanted(predicate, keys, canonical=self._canonical), None)
        if values is not None and values.num_columns == len(keys):
            if not values.num_rows:
                return
            if values.num_rows <= self._partitions.most_by_values:
                yield self._partitions.by_values(values)
                return
        yield self._partitions.listed(predicate)

    def _projected(self, projection: Projection, predicate: Predicate) -> Iterator[PartitionBatch]:
        keys = self._metadata.partition_schema
        number = pa.scalar(self._files.number(self._metadata.read_format), pa.int32())
        with readable_metadata("the projection", catalog=CATALOG):
            for values, locations in list_projected(projection, keys, predicate, _now()):
                numbers = pa.repeat(number, len(locations))
                refs = pa.StructArray.from_arrays([locations, numbers], fields=list(REF))
                yield PartitionBatch(
                    values, refs, asked_for="names" if predicate.filters else "all"
                )

    def list_files(self, partitions: PartitionBatch, predicate: Predicate) -> Iterator[FileBatch]:
        """Yield the data files of ``partitions``, in batches of one read format each.

        As in Athena, a projected partition without a directory has no files, and files in its
        subdirectories belong to it.
        """
        if self._projection is None or self.files_per_page:
            yield from self._files.list_files(partitions.refs)
            return
        for row in range(len(partitions)):
            try:
                batches = list(self._files.list_files(partitions.refs.slice(row, 1)))
            except MissingPartition:
                took = Requests(storage=1)
                batches = [FileBatch(file_batch([]), self._metadata.read_format, took)]
            for batch in batches:
                yield replace(batch, files=of_rows(batch.files, pa.array([row], pa.int64())))

    def check_identity(self) -> None:
        """Check that the table was not replaced by another table with the same name.

        Raises:
            TableNotFound: if the table was dropped or replaced.
        """
        if identity(self._client, self._table) != self._table.identity:
            raise TableNotFound(
                "The table was dropped and created again, or moved, after it was opened.",
                hint="open the table again.",
            )

    def storage_options(self, protocol: str) -> Mapping[str, Any]:
        """Return the user's fsspec options for a storage protocol."""
        return self._storage.given_options

    def close(self) -> None:
        """Close the connections to Glue."""
        self._client.close()


def _names(client: GlueClient, operation: str, field: str, **arguments: Any) -> list[str]:
    found = list[str]()
    for answer in client.pages(operation, field, **arguments):
        with readable_metadata("names", catalog=CATALOG):
            found += [str.lower(each["Name"]) for each in answer[field]]
    return sorted(set(found))


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def _is_canonical(given: Any, parameters: Mapping[str, str]) -> bool:
    value = parameters.get(CANONICAL_VALUES, False) if given is None else given
    return flag({"canonical_values": value}, "canonical_values")


def _per_request(value: Any) -> int:
    number = positive("partitions_per_request", value)
    if not 1 <= number <= PER_REQUEST:
        raise ConfigError(f"Option partitions_per_request must be at most {PER_REQUEST}.")
    return int(number)
