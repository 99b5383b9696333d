"""Tables read in random ways, and joined with their dimensions, have the rows of plain Spark."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import splitlib
from benchmarks.tpcds.settings import changed
from splitlib.enumeration.report import ScanReport
from splitlib.spark.read.reader import TableReader
from splitlib.testing import HiveMetastore
from tests.integration.randomized import read_tables
from tests.integration.randomized.programs import Verdict, compare, outcome
from tests.integration.randomized.read_tables import KEYS
from tests.integration.randomized.read_trials import (
    EVERY_INGREDIENT,
    FORMATS,
    Dimension,
    Trial,
    draw_trial,
)
from tests.integration.randomized.star_tables import location
from tests.integration.randomized.test_star_joins import QUICK
from tests.support.hive_tables import way_of

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

QUERIES = int(os.environ.get("RANDOM_QUERIES", "300"))
SEED = int(os.environ.get("RANDOM_SEED", "20210304"))
_AT_A_TIME = 5
_MANY = 3000


class Trials:
    """What has been tried so far."""

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

    def of(self, seed: int) -> tuple[Trial, Verdict]:
        """The verdict on a seed's trial, read by plain Spark and by splitlib."""
        trial = draw_trial(seed)
        with changed(self._spark, trial.settings):
            expected = outcome(lambda: self._joined(trial, self._plain(trial)))
            found = outcome(lambda: self._joined(trial, self._loaded(trial)))
        verdict = compare([expected], [found])
        self.verdicts[verdict.kind] += 1
        self.forms.update(trial.forms)
        if verdict.kind == "same":
            self.ingredients.update(trial.ingredients)
        if verdict.kind == "refused":
            self.refused[verdict.text.partition("[")[0]] += 1
        return trial, verdict

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
        assert isinstance(report, ScanReport)
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
        """The join that the keys were collected for; rows in the order of the columns' names."""
        names = sorted(fact.columns)
        if trial.narrow:
            used = {name.lower() for d in trial.dimensions for name in d.on}
            used |= {"v", *(key for key, _, _ in KEYS[trial.table])}
            names = [name for name in names if name.lower() in used]
        for dimension in trial.dimensions:
            keys = self._spark.sql(dimension.query).alias("d")
            joined = fact.alias("f").join(keys, _equal(dimension), dimension.join)
            fact = joined.select(*(F.col(f"f.`{name}`") for name in names))
        return fact.select(*(f"`{name}`" for name in names))


def _equal(dimension: Dimension) -> Column:
    found = F.lit(True)
    for name, column in dimension.on.items():
        # a field of a struct is no name to quote
        other = F.col("d.st.id" if column.lower() == "st.id" else f"d.`{column}`")
        one = F.col(f"f.`{name}`")
        found = found & (one.eqNullSafe(other) if dimension.null_safe else one == other)
    return found


@pytest.fixture(scope="module")
def trials(spark: SparkSession, metastore: HiveMetastore) -> Iterator[Trials]:
    """The tables, and the results of the trials so far."""
    read_tables.create(spark)
    with changed(spark, QUICK):
        yield Trials(spark, metastore)
    read_tables.drop(spark)


@pytest.mark.parametrize("start", range(0, QUERIES, _AT_A_TIME))
def test_same_rows(start: int, trials: Trials) -> None:
    """Each trial with plain Spark and with splitlib."""
    done = [trials.of(SEED + start + i) for i in range(min(_AT_A_TIME, QUERIES - start))]
    different = [
        "\n".join((v.text, str(trial), *read_tables.statements(trial.table)))
        for trial, v in done
        if v.kind == "different"
    ]
    assert not different, "\n\n".join(different)


@pytest.mark.skipif(QUERIES < 300, reason="too few queries to draw every ingredient")
def test_enough_were_pruned(trials: Trials) -> None:
    """If nothing were pruned, equal rows would prove nothing."""
    assert trials.pruned >= QUERIES // 4
    assert trials.verdicts["same"] >= QUERIES * 3 // 4, (trials.verdicts, trials.refused)
    # each on one partition key, of which most values are out of it
    tried = {form for form, count in trials.forms.items() if count >= 4}
    assert tried <= trials.pruning.keys()


@pytest.mark.skipif(QUERIES < 300, reason="too few queries to draw every ingredient")
def test_every_ingredient_was_compared(trials: Trials) -> None:
    """Only a long run has every ingredient."""
    missing = EVERY_INGREDIENT - trials.ingredients.keys()
    assert len(missing) <= (0 if QUERIES >= _MANY else len(EVERY_INGREDIENT) // 4), missing


def test_every_ingredient_can_be_drawn() -> None:
    """Drawn without running any."""
    drawn = {name for seed in range(_MANY) for name in draw_trial(seed).ingredients}
    assert drawn >= EVERY_INGREDIENT
