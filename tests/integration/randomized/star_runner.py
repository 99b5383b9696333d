"""Run programs of star joins with plain Spark and with splitlib."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from splitlib.testing import HiveMetastore
from tests.integration.randomized import star_tables
from tests.integration.randomized.programs import Optimizing, Program, Verdict, compare, plain, run
from tests.integration.randomized.spark_settings import QUICK, SettingsDraw, no_settings
from tests.integration.randomized.star_programs import CATALOGS, draw_program
from tests.support.hive_tables import way_of


class StarRunner:
    """Runs programs, and counts the results."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.ingredients: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.pruned = 0

    @classmethod
    @contextmanager
    def on_tables(cls, spark: SparkSession, metastore: HiveMetastore) -> Iterator[Self]:
        """Create the tables, and drop them after the block. No table is too small for pruning."""
        star_tables.create(spark)
        catalogs = {
            f"spark.splitlib.catalog.{name}.{option}": value
            for name, connector in CATALOGS.items()
            for option, value in {
                "connector": connector,
                **way_of(metastore, connector),
            }.items()
        }
        with changed(spark, {**QUICK, **catalogs}):
            yield cls(spark)
        star_tables.drop(spark)

    def draw(
        self, seed: int, drawn: random.Random | None = None, more: SettingsDraw = no_settings
    ) -> Program:
        """See :func:`draw_program`."""
        return draw_program(seed, drawn, more)

    def verdict(self, program: Program) -> Verdict:
        """Run a program with plain Spark and with splitlib, and compare the results."""
        spark = self._spark
        optimizing = Optimizing(spark, program.how)
        expected = run(spark, program, plain(spark, CATALOGS))
        found = run(spark, program, optimizing)
        verdict = compare(expected, found)
        if verdict.kind == "different" and program.caches:
            # After a change, Spark itself may still answer some queries from its cache.
            verdict = compare(run(spark, program.without_caches(), plain(spark, CATALOGS)), found)
        if verdict.kind == "same" and (reasons := optimizing.given_up()):
            verdict = Verdict("different", f"left to Spark: {reasons}")
        self.verdicts[verdict.kind] += 1
        if verdict.kind == "same":
            self.ingredients.update(program.ingredients)
        self.pruned += optimizing.pruned
        return verdict
