"""Hive tables of a metastore, and helpers that compare readers of them."""

from __future__ import annotations

import base64
import itertools
from collections import Counter

import splitlib
from tests.support.abilities import register_data_source

_names = (f"h{i}" for i in itertools.count())


def encoded(data):
    """Encode a filter for the data source option ``filter``."""
    return base64.b64encode(data.to_bytes()).decode()


def way_of(metastore, connector):
    """Return the options that address the metastore's tables. The session connector needs none."""
    return {"connector": "hive", "uri": metastore.uri} if connector == "hive" else {}


class HiveTables:
    """Creates tables with unique names."""

    def __init__(self, spark, metastore):
        self.spark, self.metastore = spark, metastore

    def reader(self, table, how="auto", **settings):
        """Return a reader of the table.

        ``how`` is a value of the setting ``spark_scan``, or ``session`` for the session connector.
        """
        connector, how = ("session", "auto") if how == "session" else ("hive", how)
        reader = splitlib.read(self.spark).table(table, **way_of(self.metastore, connector))
        return reader.config(spark_scan=how, **settings)

    def create(self, definition, *statements):
        name = f"default.{next(_names)}"
        for statement in (f"CREATE TABLE {{t}} {definition}", *statements):
            self.spark.sql(statement.replace("{t}", name))
        return name

    def directory(self, table):
        return self.metastore.warehouse / table.split(".")[1]


class DataSourceTables(HiveTables):
    """Reads tables with ``format("splitlib")`` and with the native scan."""

    _registered = False

    def load(self, table, **options):
        if not self._registered:
            register_data_source(self.spark)
            self._registered = True
        if "connector" not in options:
            options |= {"connector": "hive", "uri": self.metastore.uri}
        return self.spark.read.format("splitlib").options(**options).load(table)

    def native(self, table, how="auto"):
        return self.reader(table, how)

    def same(self, table, **options):
        """Assert that both readers return the same schema and rows. Return the number of rows."""
        native, loaded = self.native(table).load(), self.load(table, **options)
        assert loaded.schema == native.schema
        rows = Counter(map(repr, native.collect()))
        assert Counter(map(repr, loaded.collect())) == rows
        return sum(rows.values())
