"""Connectors with mistakes in the optional protocols."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import CorruptMetadata, MissingFile, TableNotFound
from splitlib.model import FIELD_ID, PartitionBatch, ReadFormat
from splitlib.spi import SupportsIdentityCheck
from tests.conformance.memory_connectors import AbleConnector, InlineConnector, PlainConnector
from tests.conformance.planted_bugs.plant import caught_by


@caught_by("abilities_are_there")
class MisspellsAnAbility(PlainConnector):
    declared = frozenset({SupportsIdentityCheck})

    def check_identitty(self) -> None:
        """Never called, because the name is misspelled."""


@caught_by("details_are_of_the_partitions_given")
class SortsDetails(AbleConnector):
    def load_details(self, partitions):
        loaded = super().load_details(partitions)
        return replace(loaded.take(pc.sort_indices(loaded.refs)), requests=loaded.requests)


@caught_by("details_leave_out_what_was_dropped")
class KeepsWhatWasDropped(AbleConnector):
    def load_details(self, partitions):
        loaded = super().load_details(partitions)
        refs = pa.array([f"{self.name}:{name}" for name in partitions.refs.to_pylist()])
        return PartitionBatch(partitions.values, refs, loaded.requests)


@caught_by("details_leave_out_what_was_dropped", "dropped_partition_is_no_silent_hole")
class LeavesOutTheWholePage(AbleConnector):
    def load_details(self, partitions):
        loaded = super().load_details(partitions)
        return loaded if len(loaded) == len(partitions) else replace(loaded.slice(0, 0))


@caught_by("identity_ends_with_the_table", "identity_is_not_that_of_a_successor")
class ChecksNothing(AbleConnector):
    def check_identity(self):
        pass


@caught_by("identity_is_not_that_of_a_successor")
class GoesByTheName(AbleConnector):
    def check_identity(self):
        try:
            self.client.table(self.name)
        except KeyError as error:
            raise TableNotFound("It has gone.") from error


@caught_by("identity_ends_with_the_table", "identity_is_not_that_of_a_successor")
class TakesGoneForUnavailable(AbleConnector):
    def check_identity(self):
        try:
            super().check_identity()
        except TableNotFound as error:
            raise OSError("It does not answer.") from error


@caught_by("identity_is_that_of_the_table")
class GoesByThePartitions(AbleConnector):
    def __init__(self, client, name, table, page):
        super().__init__(client, name, table, page)
        self._partitions = list(table.partitions)

    def check_identity(self):
        super().check_identity()
        if self.names(0) != self._partitions:
            raise TableNotFound("It is another one.")


@caught_by("table_names")
class NamesTablesInNoOrder(AbleConnector):
    @classmethod
    def table_names(cls, database, options):
        yield from list(super().table_names(database, options))[::-1]


@caught_by("table_names")
class NamesTablesOfAllDatabases(AbleConnector):
    @classmethod
    def table_names(cls, database, options):
        list(super().table_names(database, options))
        yield from super().table_names(None, options)


@caught_by("table_names_of_no_database")
class TakesNoDatabaseForEmpty(AbleConnector):
    @classmethod
    def table_names(cls, database, options):
        with suppress(TableNotFound):
            yield from super().table_names(database, options)


@caught_by("storage_options")
class GivesNamesOfOptions(AbleConnector):
    def storage_options(self, protocol):
        return list(super().storage_options(protocol))


@caught_by("storage_options")
class HandsOutNewOptions(AbleConnector):
    asked = 0

    def storage_options(self, protocol):
        self.asked += 1
        return {**super().storage_options(protocol), "token": self.asked}


@caught_by("hosts")
class SortsHosts(AbleConnector):
    def hosts(self, paths):
        return sorted(super().hosts(paths))


@caught_by("hosts")
class GivesHostsAsText(AbleConnector):
    def hosts(self, paths):
        found = super().hosts(paths)
        return found if len(paths) < 8 else [hosts[0] for hosts in found]


@caught_by("hosts")
class KnowsHostsOfSomeFiles(AbleConnector):
    def hosts(self, paths):
        return super().hosts(paths[:7])


@caught_by("physical_names")
class GivesNamesOfTheTable(AbleConnector):
    def footer(self, path):
        super().footer(path)
        return list(self.metadata.schema.names)


@caught_by("physical_names")
class GivesTheFirstFilesNames(AbleConnector):
    """Returns the physical names of the first file for all files."""

    def with_physical_names(self, files):
        ids = {field.name: int(field.metadata[FIELD_ID]) for field in self.metadata.schema}
        names = {ids[name]: f"{name}_" for name in self.footer(files.files["path"][0].as_py())}
        yield replace(files, read_format=ReadFormat.of("parquet", columns=names))


@caught_by("physical_names_of_a_file_that_has_gone")
class TakesGoneForWithoutColumns(AbleConnector):
    def footer(self, path):
        try:
            return super().footer(path)
        except MissingFile:
            return []


@caught_by("deletion_vectors", "vectors_that_cannot_be_read")
class ForgetsVectors(AbleConnector):
    def files_of(self, row, found):
        return replace(super().files_of(row, found), deletes=None, delete_sets=())


@caught_by("deletion_vectors")
class DeletesFromTheFileBefore(AbleConnector):
    def files_of(self, row, found):
        batch = super().files_of(row, found)
        deletes = [None if not file["deleted"] else 0 for file in found]
        moved = pa.array([*deletes[1:], *deletes[:1]], pa.int64())
        return replace(batch, deletes=moved)


@caught_by("deletion_vectors")
class CountsPositionsFromOne(AbleConnector):
    def read_vector(self, delete):
        return pc.add(super().read_vector(delete), 1)


@caught_by("vectors_that_cannot_be_read")
class TakesDamageForNothing(AbleConnector):
    def read_vector(self, delete):
        try:
            return super().read_vector(delete)
        except CorruptMetadata:
            return pa.array([], pa.int64())


@caught_by("vectors_that_cannot_be_read")
class TakesAGoneVectorForNothing(AbleConnector):
    def read_vector(self, delete):
        try:
            return super().read_vector(delete)
        except MissingFile:
            return pa.array([], pa.int64())


@caught_by("vectors_that_cannot_be_read")
class TakesABrokenInlineVectorForNothing(InlineConnector):
    def read_vector(self, delete):
        try:
            return super().read_vector(delete)
        except CorruptMetadata:
            return pa.array([], pa.int64())


@caught_by("deletion_vectors")
class LooksForInlineVectorsInFiles(InlineConnector):
    """Reads the data file, which is the path of an inline vector."""

    def read_vector(self, delete):
        return AbleConnector.read_vector(self, delete)


@caught_by("names_of_columns_in_files")
class NumbersColumnsFromZero(InlineConnector):
    def files_of(self, row, found):
        batch = super().files_of(row, found)
        names = dict(enumerate(self.metadata.data_schema.names))
        return replace(batch, read_format=ReadFormat.of("parquet", columns=names))
