"""The planner's decisions about all test queries (shapes), with plans of every Spark version."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from tests.unit.planner.recorded import PLANS, RecordedQuery, load
from tests.unit.planner.sentences import sentences
from tests.unit.planner.shapes import Shape, shapes

SHAPES = list(shapes())
_ONLY = re.compile(r"\[(\S+)\] ")

NEW_SYNTAX = ("COLLATE",)
"""Words of queries that some supported version of Spark cannot parse."""

plans = cache(load)


def expected(shape: Shape, version: str) -> tuple[str, ...]:
    """Return the expected lines for one version. A line with ``[4.0]`` is only for Spark 4.0,
    one with ``[4]`` for all of Spark 4."""
    found = []
    for line in shape.decided:
        only = _ONLY.match(line)
        if only is None or version.startswith(only[1]):
            found.append(_ONLY.sub("", line, count=1))
    return tuple(found)


def recorded(shape: Shape, version: str) -> dict[str, Any]:
    """Return the plan that Spark made for the shape's current SQL."""
    plan = plans(version).get(shape.name)
    assert plan is not None, "run tests/unit/planner/record_plans.py"
    assert plan["sql"] == shape.sql, "run tests/unit/planner/record_plans.py"
    return plan


@pytest.mark.parametrize("version", PLANS)
@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_decisions(shape: Shape, version: str) -> None:
    """Join keys reach every scan that they may prune, and no other."""
    if "refused" in recorded(shape, version):
        return  # the version does not have the syntax; see the next test
    assert sentences(RecordedQuery(recorded(shape, version))) == expected(shape, version)


@pytest.mark.parametrize("version", PLANS)
def test_versions_refuse_new_syntax_only(version: str) -> None:
    refused = [plan["sql"] for plan in plans(version).values() if "refused" in plan]
    assert all(any(word in sql for word in NEW_SYNTAX) for sql in refused)


def test_all_shapes_have_names_of_their_own() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 150


@pytest.mark.parametrize("version", PLANS)
def test_no_plan_is_left_over(version: str) -> None:
    assert plans(version).keys() == {shape.name for shape in SHAPES}


def test_decisions_need_no_pyspark() -> None:
    """The planner's decisions do not import PySpark, so that these tests are fast."""
    code = (
        "import sys, splitlib.spark.planner.decide, splitlib.spark.planner.materializable; "
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
