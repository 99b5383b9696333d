"""Run random programs of star joins with plain Spark and with splitlib."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self
from unittest.mock import patch

from pyspark.sql import SparkSession

from benchmarks.tpcds.settings import changed
from splitlib.spark.planner import data_keys
from splitlib.spark.planner.scan_sites import prunable
from splitlib.testing import HiveMetastore
from tests.integration.randomized import star_tables
from tests.integration.randomized.programs import Optimizing, Program, Verdict, compare, plain, run
from tests.integration.randomized.spark_settings import QUICK, SettingsDraw, no_settings
from tests.integration.randomized.star_programs import CATALOGS, draw_program
from tests.support.hive_tables import way_of


class StarRunner:
    """Runs programs, compares their results, and counts them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.ingredients: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self.pruned = 0

    @classmethod
    @contextmanager
    def on_tables(cls, spark: SparkSession, metastore: HiveMetastore) -> Iterator[Self]:
        """Create tables, named catalogs and a runner. Drop the tables after the block."""
        star_tables.create(spark)
        catalogs = {
            f"spark.splitlib.catalog.{name}.{option}": value
            for name, connector in CATALOGS.items()
            for option, value in {
                "connector": connector,
                **way_of(metastore, connector),
            }.items()
        }
        # Hand keys of data columns to scans of any size, whatever the bounds of row groups.
        with (
            changed(spark, {**QUICK, **catalogs}),
            patch.object(prunable, "LEAST_BYTES", 0),
            patch.object(data_keys, "MOST_KEPT", 1.0),
        ):
            yield cls(spark)
        star_tables.drop(spark)

    def draw(
        self, seed: int, drawn: random.Random | None = None, more: SettingsDraw = no_settings
    ) -> Program:
        """Draw the program for a seed with :func:`draw_program`."""
        return draw_program(seed, drawn, more)

    def verdict(self, program: Program) -> Verdict:
        """Run a program with plain Spark and with splitlib, and compare the results."""
        spark = self._spark
        optimizing = Optimizing(spark, program.how)
        expected = run(spark, program, plain(spark, CATALOGS))
        found = run(spark, program, optimizing)
        verdict = compare(expected, found)
        if verdict.kind == "different":
            others = (run(spark, p, plain(spark, CATALOGS)) for p in _accepted(program))
            verdicts = (compare(other, found) for other in others)
            verdict = next((v for v in verdicts if v.kind != "different"), verdict)
        if verdict.kind == "same" and (reasons := optimizing.given_up()):
            verdict = Verdict("different", f"left to Spark: {reasons}")
        self.verdicts[verdict.kind] += 1
        if verdict.kind == "same":
            self.ingredients.update(program.ingredients)
        self.pruned += optimizing.pruned
        return verdict


def _accepted(program: Program) -> Iterator[Program]:
    """Yield other forms of a program whose results with plain Spark are accepted too."""
    if program.caches:
        # After a table changes, plain Spark may still return old rows from its cache.
        program = program.without_caches()
        yield program
    # Plain Spark loses rows if the metastore compares text in another way.
    yield program.without_metastore_conditions()
    # Plain Spark 3.5 loses rows if Parquet's reader gets a condition with NaN.
    yield program.without_parquet_filters()
