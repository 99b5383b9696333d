"""Tables read by their names alone, by splitlib and by plain Spark."""

from __future__ import annotations

import splitlib
from splitlib import DynamicFileEnumerator, SplitConfig
from splitlib.testing import HiveMetastore
from splitlib_hive.client import MetastoreClient, parse_uris
from tests.integration.hive.filtered_tables import FilteredTables
from tests.support.thrift_client import thrift_client


class SessionTables(FilteredTables):
    """Opens them through the session, too."""

    metastore: HiveMetastore

    def session_reader(self, table, **settings):
        """A reader of the session's own table."""
        return self.reader(table, "session", **settings)

    def same_in_session(self, table, dimension=None, on=None, **settings):
        """Equal schema and rows; returns the number of rows."""
        return self.same(table, dimension, on or {}, ways=("session",), **settings)

    def open(self, table):
        """The session's own table."""
        return splitlib.load_table(table, spark=self.spark)

    def altered(self, table, **properties):
        """Properties that no SQL statement may set."""
        client = MetastoreClient(parse_uris(self.metastore.uri))
        described = client.get_table(*table.split("."))
        client.close()
        described.parameters.update(properties)
        with thrift_client(self.metastore) as thrift:
            thrift.alter_table(*table.split("."), described)


def values_of(table, **settings):
    """The partition values of all splits of an open table."""
    enumerator = DynamicFileEnumerator(table, SplitConfig(**settings))
    return [split.partition_values for split in enumerator.enumerate_splits()]
