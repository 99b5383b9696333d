"""Statements that are recognized as queries."""

import pytest

from splitlib.spark.allowed_scans import is_query


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "  select\n* FROM t",
        "((SELECT 1) UNION (SELECT 2))",
        "-- DROP TABLE t\n/* INSERT */ Select/**/1",
        "/*+ no hint here */VALUES (1)",
    ],
)
def test_a_query(text):
    assert is_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "DROP TABLE t -- SELECT",
        "INSERT INTO t SELECT 1",
        "WITH s AS (SELECT 1) INSERT INTO t SELECT * FROM s",
        "FROM s INSERT INTO t SELECT *",
        "SELECTED",
        "-- SELECT 1",
        # Spark supports nested comments, so everything before DROP is one comment.
        "/* /* */ SELECT 1 */ DROP TABLE t",
        "/* SELECT 1 */ DROP TABLE t",
        "-- \\\nDROP TABLE t",
    ],
)
def test_what_may_be_a_command(text):
    assert not is_query(text)
