"""Read random directories with plain Spark and with splitlib, and compare the results."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from splitlib.errors import SplitlibError
from splitlib.spark.conversion import quoted
from splitlib.testing import HiveMetastore
from tests.integration.randomized.directories import Directory, draw_directory, write
from tests.support.hive_tables import way_of

_FEW = 2


@dataclass
class Comparison:
    """The results of the comparisons for one directory.

    ``found`` maps each read method to ``same`` or to a description of the difference.
    """

    directory: Directory
    found: dict[str, str] = field(default_factory=dict)

    @property
    def different(self) -> dict[str, str]:
        """Differences from plain Spark, by read method."""
        return {way: text for way, text in self.found.items() if text.startswith("different")}


class DirectoryRunner:
    """Writes random directories, reads them with each method, and counts the results."""

    def __init__(self, spark: SparkSession, metastore: HiveMetastore, scratch: Path) -> None:
        self._spark = spark
        self._metastore = metastore
        self._scratch = scratch
        self.verdicts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

    @classmethod
    @contextmanager
    def in_scratch(cls, spark: SparkSession, metastore: HiveMetastore) -> Iterator[DirectoryRunner]:
        """Create a runner that writes below a temporary directory."""
        with tempfile.TemporaryDirectory(prefix="splitlib-directories-") as scratch:
            yield cls(spark, metastore, Path(scratch))

    def compare(self, seed: int) -> Comparison | None:
        """Write the directory of a seed and read it in every way. Return None if writing fails."""
        directory = draw_directory(seed)
        root = self._scratch / f"d{seed}"
        try:
            write(self._spark, directory, root)
        except Exception as error:
            self.verdicts["cannot be written"] += 1
            self.reasons[f"{directory.writer} cannot write: {str(error)[:80]}"] += 1
            return None
        comparison = Comparison(directory)
        plain = self._plain(root)
        reader = splitlib.read(self._spark).table(str(root), connector="files")
        self._add(comparison, "files", plain, reader.load)
        if isinstance(plain, _Read) and directory.keys:
            self._keys(comparison, root, plain)
        self._in_catalog(comparison, root, plain)
        return comparison

    def _plain(self, root: Path) -> _Read | str:
        return _read(lambda: self._spark.read.parquet(str(root)))

    def _add(
        self,
        comparison: Comparison,
        way: str,
        expected: _Read | str,
        load: Callable[[], DataFrame],
    ) -> None:
        found = _read(load)
        if isinstance(expected, _Read) and isinstance(found, _Read):
            # If the files also contain a partition key, only Spark leaves it at its place among the
            # columns.
            same = {*expected.df.columns} == {*found.df.columns}
            if same and expected.df.columns != found.df.columns and way.startswith("files"):
                found = found.in_order_of(expected.df)
        verdict = _verdict(expected, found)
        comparison.found[way] = verdict
        kind, _, text = verdict.partition(":")
        self.verdicts[f"{way}: {kind}"] += 1
        if kind != "same":
            self.reasons[f"{way}: {kind}: {' '.join(text.split())[:240]}"] += 1

    def _keys(self, comparison: Comparison, root: Path, plain: _Read) -> None:
        """Compare a read with join keys on the first partition key to a semi-join of Spark."""
        key = comparison.directory.keys[0][0]
        if key not in plain.df.columns:
            return
        column = F.col(quoted(key))
        values = plain.df.select(column.alias("key")).distinct().orderBy("key").limit(_FEW)
        keys = splitlib.freeze(values)
        expected = _read(lambda: plain.df.join(keys, column.eqNullSafe(F.col("key")), "left_semi"))

        def loaded() -> DataFrame:
            reader = splitlib.read(self._spark).table(str(root), connector="files")
            df = reader.filtered_by(keys, on={key: "key"}, null_safe=True).load()
            return df.join(keys, df[quoted(key)].eqNullSafe(F.col("key")), "left_semi")

        self._add(comparison, "files, by keys", expected, loaded)

    def _in_catalog(self, comparison: Comparison, root: Path, plain: _Read | str) -> None:
        """Compare reads of the directory as a metastore table: with two connectors and with SQL."""
        if not isinstance(plain, _Read):
            return
        name = f"default.random_directory_{comparison.directory.seed}"
        names = [key for key, _ in comparison.directory.keys]
        try:
            self._spark.catalog.createTable(name, str(root), "parquet")
            if names:
                self._spark.sql(f"MSCK REPAIR TABLE {name}")
        except PySparkException as error:
            self.reasons[f"no table: {str(error)[:60]}"] += 1
            self._spark.sql(f"DROP TABLE IF EXISTS {name}")
            return
        try:
            expected = _read(lambda: self._spark.table(name))
            for connector in ("session", "hive"):
                way = way_of(self._metastore, connector)
                reader = splitlib.read(self._spark).table(name, **way)
                self._add(comparison, connector, expected, reader.load)
            for key in names[:1]:
                self._by_sql(comparison, name, key)
        finally:
            self._spark.sql(f"DROP TABLE {name}")

    def _by_sql(self, comparison: Comparison, name: str, key: str) -> None:
        one = f"(SELECT max({quoted(key)}) AS m FROM {name})"
        query = f"SELECT f.* FROM {name} f JOIN {one} d ON f.{quoted(key)} = d.m"
        expected = _read(lambda: self._spark.sql(query))
        self._add(comparison, "sql", expected, lambda: splitlib.sql(self._spark, query))


@dataclass(frozen=True)
class _Read:
    df: DataFrame
    schema: str
    rows: tuple[str, ...]

    @classmethod
    def of(cls, df: DataFrame) -> _Read:
        """Return the columns and the sorted rows of a DataFrame."""
        fields = [
            f"{field.name} {field.dataType.simpleString()}"
            + ("" if field.nullable else " NOT NULL")
            for field in df.schema
        ]
        return cls(df, ", ".join(fields), tuple(sorted(map(str, df.collect()))))

    def in_order_of(self, other: DataFrame) -> _Read:
        """Return the same result, with columns in the order of another DataFrame."""
        return self.of(self.df.select(*map(quoted, other.columns)))


def _read(load: Callable[[], DataFrame]) -> _Read | str:
    """Load and collect a DataFrame. Return its result, or the text of the error."""
    try:
        return _Read.of(load())
    except SplitlibError as error:
        return f"refused: {error}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"


def _verdict(expected: _Read | str, found: _Read | str) -> str:
    if isinstance(found, str):
        if found.startswith("refused"):
            return found
        if isinstance(expected, str):
            return "both fail"
        return f"different: {found}"
    if isinstance(expected, str):
        return f"spared: {expected}"
    if expected.schema != found.schema:
        return f"different: schema {found.schema} instead of {expected.schema}"
    if expected.rows != found.rows:
        return f"different: {len(found.rows)} rows, not the {len(expected.rows)} of Spark"
    return "same"
