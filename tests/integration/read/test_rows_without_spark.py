"""The same keys select the same rows with Spark, pyarrow, Polars and DuckDB."""

from __future__ import annotations

from functools import reduce
from operator import and_

import pytest
from hypothesis import HealthCheck, given, settings

import splitlib
from splitlib import DynamicFilteringData
from splitlib.spark.compat import to_arrow
from splitlib.spark.conversion import local_rows
from tests.support.abilities import skip_unless_it_widens
from tests.unit.rows import drawn_tables as drawn
from tests.unit.rows.test_engines import ENGINES

pytestmark = pytest.mark.spark


def by_spark(spark, root, keys):
    """Return the rows of a null-safe semi join in Spark."""
    reader = splitlib.read(spark).table(
        str(root), "files", schema=drawn.DATA, partition_schema=drawn.KEYS
    )
    facts = reader.filtered_by(DynamicFilteringData.from_arrow(keys), null_safe=True).load()
    dimension = local_rows(spark, keys)
    same = [facts[name].eqNullSafe(dimension[name]) for name in keys.column_names]
    return to_arrow(facts.join(dimension, reduce(and_, same), "left_semi"))


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(written=drawn.tables(), keys=drawn.keys())
def test_equal_rows(spark, tmp_path_factory, written, keys):
    skip_unless_it_widens(spark)
    root = tmp_path_factory.mktemp("t") / "table"
    drawn.write(root, written)
    expected = drawn.shown(by_spark(spark, root, keys).to_pylist())
    options = {"schema": drawn.DATA, "partition_schema": drawn.KEYS, "percent_escapes": "spark"}
    with splitlib.load_table(str(root), "files", **options) as table:
        for name, read in ENGINES.items():
            found = read(table, [DynamicFilteringData.from_arrow(keys)])
            assert drawn.shown(found.to_pylist()) == expected, name
