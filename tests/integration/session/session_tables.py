"""Helpers to compare tables that the ``session`` connector reads to plain Spark."""

from __future__ import annotations

import splitlib
from splitlib import DynamicFileEnumerator, SplitConfig
from splitlib.testing import HiveMetastore
from splitlib_hive.client import MetastoreClient, parse_uris
from tests.integration.hive.filtered_tables import FilteredTables
from tests.support.thrift_client import thrift_client


class SessionTables(FilteredTables):
    """Creates tables, and reads them with the ``session`` connector and with plain Spark."""

    metastore: HiveMetastore

    def session_reader(self, table, **settings):
        """Return a reader that reads the table with the ``session`` connector."""
        return self.reader(table, "session", **settings)

    def same_in_session(self, table, dimension=None, on=None, **settings):
        """Assert that the ``session`` connector gives the same schema and rows as plain Spark.

        Return the number of rows.
        """
        return self.same(table, dimension, on or {}, ways=("session",), **settings)

    def open(self, table):
        """Open the table with the ``session`` connector."""
        return splitlib.load_table(table, spark=self.spark)

    def altered(self, table, **properties):
        """Set table properties through Thrift, because Spark rejects some of them in SQL."""
        client = MetastoreClient(parse_uris(self.metastore.uri))
        described = client.get_table(*table.split("."))
        client.close()
        described.parameters.update(properties)
        with thrift_client(self.metastore) as thrift:
            thrift.alter_table(*table.split("."), described)


def values_of(table, **settings):
    """Enumerate the splits of an open table. Return the partition values of each split."""
    enumerator = DynamicFileEnumerator(table, SplitConfig(**settings))
    return [split.partition_values for split in enumerator.enumerate_splits()]
