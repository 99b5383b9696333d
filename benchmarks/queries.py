"""The join of a fact table with a dimension, as each contender prunes it.

After pruning, all contenders read the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.measure import Contender, Sample
from benchmarks.metastore_tables import DATABASE, raw_client
from benchmarks.star import Star
from splitlib.spark.read.reader import TableReader
from splitlib.testing.spark_counts import measure

SHIPPED = "Spark DPP as shipped"
BY_HAND = "Spark, IN (...) by hand"
JOIN_KEYS = "splitlib, keys collected from the dimension"
GIVEN_KEYS = "splitlib, keys given"
FLOOR = "the least: keys, the metastore's calls, the files' paths"

_LISTING = "spark.sql.sources.parallelPartitionDiscovery."
TUNED: Mapping[str, Mapping[str, str]] = {
    "Spark DPP, listing in 4 tasks": {_LISTING + "parallelism": "4"},
    "Spark DPP, listing in 32 tasks": {_LISTING + "parallelism": "32"},
    "Spark DPP, listing on the driver": {_LISTING + "threshold": str(2**31 - 1)},
}
"""Spark settings that speed up the listing of many small directories, by contender name."""


@dataclass(frozen=True)
class StarQueries:
    """The join of sales with the days where ``column = 1``.

    The query returns its first row, or counts all rows.

    A hint broadcasts the dimension. The pruned sales are so small that Spark would otherwise
    broadcast them for some contenders and not for others.
    """

    spark: SparkSession
    uri: str
    star: Star
    column: str
    first_row: bool
    options: Mapping[str, Any]
    """Options of splitlib's connector."""

    def shipped(self) -> DataFrame:
        """Return the plain join, which Spark prunes dynamically."""
        return self._join(self.spark.table(self.star.sales))

    def by_hand(self) -> DataFrame:
        """Return the join with the days written into the query as an ``IN`` list."""
        values = ", ".join(map(str, self._keys))
        return self._join(self.spark.table(self.star.sales).where(f"day IN ({values})"))

    def join_keys(self) -> DataFrame:
        """Return the join with days that splitlib collects from the dimension."""
        return self._join(self._reader().filtered_by(self._dates(), on={"day": "d_day"}).load())

    def given_keys(self) -> DataFrame:
        """Return the join with days given to splitlib in advance."""
        data = splitlib.DynamicFilteringData.from_values({"day": self._keys})
        return self._join(self._reader().filtered_by(data).load())

    def least(self) -> DataFrame:
        """Return the join with only the steps that it cannot do without.

        These are Spark's job for the keys, two calls to the metastore, one listing of each matching
        directory, and Spark's own scan of these paths.
        """
        keys = {row[0] for row in self._dates().select("d_day").distinct().collect()}
        with raw_client(self.uri) as client:
            names = client.get_partition_names(DATABASE, self.star.sales, -1)
            needed = [name for name in names if int(name.removeprefix("day=")) in keys]
            found = client.get_partitions_by_names(DATABASE, self.star.sales, needed)
        directories = [Path(one.sd.location.removeprefix("file:")) for one in found]
        files = [str(file) for directory in directories for file in directory.iterdir()]
        reader = self.spark.read.schema("item INT, amount DOUBLE, day INT")
        return self._join(reader.option("basePath", str(directories[0].parent)).parquet(*files))

    def contender(
        self,
        name: str,
        query: Callable[[], DataFrame],
        settings: Mapping[str, str] | None = None,
        *,
        may_fail: bool = False,
    ) -> Contender:
        """Return a contender that runs a query without Spark's cached tables and listings."""
        conf = settings or {}

        def run() -> Sample:
            for key, value in conf.items():
                self.spark.conf.set(key, value)
            try:
                return self._cold(query)
            finally:
                for key in conf:
                    self.spark.conf.unset(key)

        return Contender(name, run, conf, may_fail)

    def _cold(self, query: Callable[[], DataFrame]) -> Sample:
        for table in (self.star.sales, self.star.dates):
            self.spark.catalog.refreshTable(table)
        jvm: Any = self.spark._jvm
        jvm.System.gc()  # Garbage of one contender must not slow the next one.
        done = measure(self.spark, query)
        rows, expected = done.result[0][0], 1 if self.first_row else self.star.rows
        if rows != expected:
            raise RuntimeError(f"{rows} rows, {expected} expected")
        # Contenders are comparable only if they read the same files.
        if done.files_read != self.star.files_needed:
            raise RuntimeError(f"{done.files_read} files read, {self.star.files_needed} expected")
        counts = {
            "partitions_fetched": done.partitions_fetched,
            "files_discovered": done.files_discovered,
            "files_read": done.files_read,
            "rows": rows,
        }
        return Sample(done.seconds, counts)

    @property
    def _keys(self) -> Sequence[int]:
        return self.star.few if self.column == "few" else self.star.many

    def _dates(self) -> DataFrame:
        return self.spark.table(self.star.dates).where(f"{self.column} = 1")

    def _reader(self) -> TableReader:
        name = f"{DATABASE}.{self.star.sales}"
        return splitlib.read(self.spark).table(name, "hive", uri=self.uri, **self.options)

    def _join(self, sales: DataFrame) -> DataFrame:
        dates = F.broadcast(self._dates())
        joined = sales.join(dates, sales["day"] == dates["d_day"])
        if self.first_row:
            return joined.select(F.lit(1), "item", "amount", "day", "d_name").limit(1)
        return joined.agg(F.count("*"))
