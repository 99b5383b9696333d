"""Tables for the tests of the data source, read by it and by the native scan."""

from __future__ import annotations

import base64
import itertools
from collections import Counter

import splitlib

_names = (f"ds{i}" for i in itertools.count())


def encoded(data):
    """A filter as an option carries it."""
    return base64.b64encode(data.to_bytes()).decode()


class Lake:
    """Makes tables, and reads them both ways."""

    def __init__(self, spark, metastore):
        self.spark, self.metastore = spark, metastore
        spark.dataSource.register(splitlib.SplitlibDataSource)

    def create(self, definition, *statements):
        name = f"default.{next(_names)}"
        for statement in (f"CREATE TABLE {{t}} {definition}", *statements):
            self.spark.sql(statement.replace("{t}", name))
        return name

    def directory(self, table):
        return self.metastore.warehouse / table.split(".")[1]

    def load(self, table, **options):
        if "connector" not in options:
            options |= {"connector": "hive", "uri": self.metastore.uri}
        return self.spark.read.format("splitlib").options(**options).load(table)

    def native(self, table):
        return splitlib.read(self.spark).table(table, connector="hive", uri=self.metastore.uri)

    def same(self, table, **options):
        """Equal schema and rows; returns the number of rows."""
        native, loaded = self.native(table).load(), self.load(table, **options)
        assert loaded.schema == native.schema
        rows = Counter(map(repr, native.collect()))
        assert Counter(map(repr, loaded.collect())) == rows
        return sum(rows.values())
