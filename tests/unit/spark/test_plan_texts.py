"""Properties of a query that splitlib reads from the text of its plan."""

from __future__ import annotations

import pytest

from splitlib.spark.determinism import shows_subquery


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        ("Filter a#1 IN (list#4 [])\n:  +- Relation [k#3] parquet", True),
        ("Filter exists#4 [a#1 && (a#1 = k#3)]", True),
        ("Filter (a#1 = scalar-subquery#4 [])", True),
        ("Filter (a#1 = Subquery subquery#4, [id=#9])", True),
        ("Filter (list#1 = 5)\n+- LocalRelation <empty>, [list#1]", False),
        ("Filter (exists#1 = 5)\n+- LocalRelation <empty>, [price-list#2, exists#1]", False),
        ("Filter (a#1 = list#)", False),
    ],
)
def test_subqueries(plan: str, found: bool) -> None:
    """``list#1`` alone is a column."""
    assert shows_subquery(plan) is found
