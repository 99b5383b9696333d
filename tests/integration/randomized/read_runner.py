"""Run random reads of tables with plain Spark and with ``splitlib.read``."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.spark.read.reader import TableReader
from splitlib.testing import HiveMetastore
from tests.integration.randomized import read_tables
from tests.integration.randomized.programs import METASTORE_CONDITIONS, Verdict, compare, outcome
from tests.integration.randomized.read_tables import KEYS
from tests.integration.randomized.read_trials import FORMATS, Dimension, Trial, draw_trial
from tests.integration.randomized.spark_settings import QUICK, SettingsDraw, no_settings
from tests.integration.randomized.star_tables import location
from tests.support.hive_tables import way_of


class ReadRunner:
    """Runs random reads, compares their results, and counts them."""

    def __init__(self, spark: SparkSession, metastore: HiveMetastore) -> None:
        self._spark = spark
        self._metastore = metastore
        self._locations = {table: str(location(spark, table)) for table in KEYS}
        self.ingredients: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.forms: Counter[str] = Counter()
        self.pruning: Counter[str] = Counter()
        self.pruned = 0

    @classmethod
    @contextmanager
    def on_tables(cls, spark: SparkSession, metastore: HiveMetastore) -> Iterator[Self]:
        """Create the tables and return a runner. Drop the tables after the block."""
        read_tables.create(spark)
        with changed(spark, QUICK):
            yield cls(spark, metastore)
        read_tables.drop(spark)

    def draw(
        self, seed: int, drawn: random.Random | None = None, more: SettingsDraw = no_settings
    ) -> Trial:
        """Draw the read for a seed with :func:`draw_trial`."""
        return draw_trial(seed, drawn, more)

    def verdict(self, trial: Trial) -> Verdict:
        """Run a random read with plain Spark and with splitlib, and compare the results."""
        with changed(self._spark, trial.settings):
            expected = outcome(lambda: self._joined(trial, self._plain(trial)))
            found = outcome(lambda: self._joined(trial, self._loaded(trial)))
        verdict = compare([expected], [found])
        if verdict.kind == "different":
            # Plain Spark fails if the metastore cannot evaluate a condition, such as one with a
            # quotation mark.
            with changed(self._spark, {**trial.settings, METASTORE_CONDITIONS: "false"}):
                expected = outcome(lambda: self._joined(trial, self._plain(trial)))
            verdict = compare([expected], [found])
        self.verdicts[verdict.kind] += 1
        self.forms.update(trial.forms)
        if verdict.kind == "same":
            self.ingredients.update(trial.ingredients)
        if verdict.kind == "refused":
            self.refused[verdict.text.partition("[")[0]] += 1
        return verdict

    def _plain(self, trial: Trial) -> DataFrame:
        if trial.connector == "files":
            schema = self._reader(trial).load().schema
            files = self._spark.read.schema(schema).format(FORMATS[trial.table])
            df = files.load(self._locations[trial.table])
        else:
            df = self._spark.table(trial.table)
        for condition in trial.conditions:
            df = df.where(condition)
        return df

    def _loaded(self, trial: Trial) -> DataFrame:
        reader = self._reader(trial)
        for condition in trial.conditions:
            reader = reader.where(condition)
        for dimension in trial.dimensions:
            keys = self._spark.sql(dimension.query)
            reader = reader.filtered_by(keys, on=dimension.on, null_safe=dimension.null_safe)
        df = reader.load()
        report = splitlib.explain(df)
        if report.metrics.partitions_matched < report.metrics.partitions_total:
            self.pruned += 1
            self.pruning.update(trial.forms)
        return df

    def _reader(self, trial: Trial) -> TableReader:
        reader = splitlib.read(self._spark)
        if trial.connector == "files":
            keys = ", ".join(f"{name} {kind}" for name, kind, _ in KEYS[trial.table])
            reader = reader.table(
                self._locations[trial.table],
                connector="files",
                format=FORMATS[trial.table],
                partition_schema=keys or None,
            )
        else:
            way = way_of(self._metastore, trial.connector)
            reader = reader.table(f"default.{trial.table}", **way)
        return reader.config(**trial.config)

    def _joined(self, trial: Trial, fact: DataFrame) -> DataFrame:
        """Join the fact with each dimension. Return the fact's columns, sorted by name."""
        names = sorted(fact.columns)
        if trial.narrow:
            used = {name.lower() for d in trial.dimensions for name in d.on}
            used |= {"v", *(key for key, _, _ in KEYS[trial.table])}
            names = [name for name in names if name.lower() in used]
        for dimension in trial.dimensions:
            # No column may have these names: in a struct ``f``, ``f.k`` could also be a field.
            keys = self._spark.sql(dimension.query).alias("keys")
            joined = fact.alias("fact").join(keys, _equal(dimension), dimension.join)
            fact = joined.select(*(F.col(f"fact.`{name}`") for name in names))
        return fact.select(*(f"`{name}`" for name in names))


def _equal(dimension: Dimension) -> Column:
    found = F.lit(True)
    for name, column in dimension.on.items():
        # In backticks, the struct field ``st.id`` would mean a column with a dot in its name.
        other = F.col("keys.st.id" if column.lower() == "st.id" else f"keys.`{column}`")
        one = F.col(f"fact.`{name}`")
        found = found & (one.eqNullSafe(other) if dimension.null_safe else one == other)
    return found
