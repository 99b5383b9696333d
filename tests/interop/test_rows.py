"""splitlib reads the same rows from Iceberg tables as Iceberg's own reader."""

from __future__ import annotations

from collections import Counter
from datetime import date
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

import splitlib
from splitlib import DynamicFilteringData
from tests.interop.reference import TABLES

pytestmark = pytest.mark.spark
READ = [name for name, recipe in TABLES.items() if not recipe.refused]
REFUSED = {name: recipe.refused for name, recipe in TABLES.items() if recipe.refused}


def _same(found, expected, *what):
    """Describe each difference between two lists of rows."""
    # ``repr`` distinguishes types, scales and signs of zero. The texts of two NaN are equal.
    found, expected = Counter(map(repr, found)), Counter(map(repr, expected))
    for label, rows in (("extra", found - expected), ("missing", expected - found)):
        if rows:
            yield f"{what}: {rows.total()} {label}, such as {next(iter(rows))}"


@pytest.mark.parametrize("table", READ)
def test_every_version(reference, table):
    differences = []
    for version in reference.tables[table]:
        loaded = reference.reader(table, version).load()
        assert _types(loaded.schema) == _types(reference.schema(version))
        differences += _same(loaded.collect(), reference.expected(version), version["options"])
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("table", REFUSED)
def test_what_cannot_be_read_is_refused(reference, table):
    current, *_ = reference.tables[table]
    with pytest.raises(splitlib.UnsupportedTable, match=REFUSED[table]):
        reference.reader(table, current).load()


def _types(schema):
    """Return only names and types. Nullability differs, as columns read from files are nullable."""
    return [(f.name, f.dataType.simpleString()) for f in schema]


@pytest.mark.parametrize("table", READ)
def test_joins(reference, table):
    """Joins return the expected rows, and read no more files than Iceberg plans for the keys."""
    differences = []
    for version in reference.tables[table]:
        expected = reference.expected(version)
        for join in version["joins"]:
            columns, null_safe = join["columns"], join["null_safe"]
            keys = _keys([expected[row] for row in join["keys"]], columns)
            rows = pa.array(join["keys"], pa.int64())
            given = pq.read_table(version["rows"], columns=columns).take(rows)
            data = DynamicFilteringData.from_arrow(given, columns)
            reader = reference.reader(table, version)
            loaded = reader.filtered_by(data, columns, null_safe=null_safe).load()
            what = (version["options"], columns, keys)
            differences += _same(
                _semi_joined(loaded.collect(), columns, keys),
                _semi_joined(expected, columns, keys),
                *what,
            )
            report = splitlib.explain(loaded)
            selected = report.metrics.files_selected
            if selected > join["files"] and TABLES[table].misleading.isdisjoint(columns):
                differences.append(f"{what}: {selected} files, Iceberg plans {join['files']}")
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("table", READ)
def test_conditions(reference, table):
    """Conditions return the expected rows.

    Spark pushes them into the scan, and in older files a column may have another name.
    """
    differences = []
    for version in reference.tables[table]:
        expected = reference.expected(version)
        for join in version["joins"]:
            columns = join["columns"]
            for key in [expected[row] for row in join["keys"][:1]]:
                loaded = reference.reader(table, version).load()
                same = (
                    F.col(f"`{name}`").eqNullSafe(_literal(key[name], loaded.schema[name].dataType))
                    for name in columns
                )
                loaded = loaded.where(reduce(and_, same))
                differences += _same(
                    loaded.collect(),
                    _semi_joined(expected, columns, _keys([key], columns)),
                    version["options"],
                    key,
                )
    assert not differences, "\n".join(differences)


def _literal(value, of_type):
    if isinstance(value, date) and not isinstance(of_type, TimestampType):
        # PySpark converts a datetime with the local time zone, and fails for years before 1000.
        return F.lit(value.isoformat()).cast(of_type)
    return F.lit(value)


def _semi_joined(rows, columns, keys):
    return [row for row, key in zip(rows, _keys(rows, columns), strict=True) if key in keys]


def _keys(rows, columns):
    """Return comparable texts of keys: NaN equals itself, and 0.0 equals -0.0."""
    return [
        repr([v + 0.0 if isinstance(v, float) else v for v in map(row.__getitem__, columns)])
        for row in rows
    ]
