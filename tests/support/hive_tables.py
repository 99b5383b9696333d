"""Tables of a metastore, and readers of them that have to agree."""

from __future__ import annotations

import base64
import itertools
from collections import Counter

import splitlib

_names = (f"h{i}" for i in itertools.count())


def encoded(data):
    """A filter as an option carries it."""
    return base64.b64encode(data.to_bytes()).decode()


def way_of(metastore, connector):
    """How tables of a metastore are addressed by a connector; the session's own need nothing."""
    return {"connector": "hive", "uri": metastore.uri} if connector == "hive" else {}


class HiveTables:
    """Makes tables, each with a name of its own."""

    def __init__(self, spark, metastore):
        self.spark, self.metastore = spark, metastore

    def reader(self, table, how="auto", **settings):
        """A reader; how the files are read, or ``session`` for the session's own table."""
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
    """Reads them by the data source and by the native scan."""

    def __init__(self, spark, metastore):
        super().__init__(spark, metastore)
        spark.dataSource.register(splitlib.SplitlibDataSource)

    def load(self, table, **options):
        if "connector" not in options:
            options |= {"connector": "hive", "uri": self.metastore.uri}
        return self.spark.read.format("splitlib").options(**options).load(table)

    def native(self, table, how="auto"):
        return self.reader(table, how)

    def same(self, table, **options):
        """Equal schema and rows; returns the number of rows."""
        native, loaded = self.native(table).load(), self.load(table, **options)
        assert loaded.schema == native.schema
        rows = Counter(map(repr, native.collect()))
        assert Counter(map(repr, loaded.collect())) == rows
        return sum(rows.values())
