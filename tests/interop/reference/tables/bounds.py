"""Tables with file statistics of columns that are not partition keys."""

from __future__ import annotations

from tests.interop.reference.lake import Lake
from tests.interop.reference.recipe import recipe

_LONG = "a" * 30


@recipe("i", "s", "d", "f", "dec", "bin", "ts", ("i", "s"))
def files_with_bounds(lake: Lake) -> None:
    lake.create(
        """i INT, s STRING, d DATE, f DOUBLE, dec DECIMAL(20, 2), bin BINARY, ts TIMESTAMP,
           n STRING"""
    )
    for first in range(0, 50, 10):
        lake.insert(
            f"""SELECT CAST(id AS INT), concat('s', id),
                       date_add(DATE'2020-01-01', CAST(id AS INT)), id / 2,
                       CAST(id AS DECIMAL(20, 2)) / 4, unhex(lpad(hex(id), 4, '0')),
                       TIMESTAMP'2020-01-01 00:00:00Z' + make_interval(0, 0, 0, 0, id), NULL
                FROM range({first}, {first + 10})"""
        )
    lake.insert("(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    lake.insert("(1, 's1', NULL, DOUBLE('NaN'), NULL, X'', NULL, 'not null')")
    lake.insert(
        "(2, NULL, NULL, DOUBLE('-Infinity'), -1, NULL, TIMESTAMP'1900-01-01 00:00:00Z', '')"
    )


@recipe("s", "b")
def truncated_bounds(lake: Lake) -> None:
    """Iceberg cuts bounds of strings after 16 characters, and increments a cut upper bound."""
    lake.create("id INT, s STRING, b BINARY")
    texts = [
        f"{_LONG}1",
        f"{_LONG}2",
        f"{_LONG}z",
        "a" * 16,
        "a" * 15 + "b",
        "b",
        "😀" * 20,
        "日" * 17,
    ]
    texts += ["\uffff" * 20, "\U0010ffff" * 20, ""]
    for i, text in enumerate(texts):
        lake.insert(f"({i}, '{text}', unhex('{text.encode().hex()}'))")
    lake.insert(f"(100, '{_LONG}', unhex('{'ff' * 20}'))", "(101, NULL, NULL)")


@recipe("i", "s")
def without_bounds(lake: Lake) -> None:
    lake.create("i INT, s STRING, c INT", properties={"write.metadata.metrics.default": "none"})
    lake.insert("(1, 'a', 1), (2, 'b', 2)", "(3, 'c', 3)")
    lake.alter("SET TBLPROPERTIES ('write.metadata.metrics.default' = 'counts')")
    lake.insert("(1, 'a', 1), (4, NULL, 4)", "(NULL, NULL, 5)")
    lake.alter("SET TBLPROPERTIES ('write.metadata.metrics.default' = 'truncate(1)')")
    lake.insert("(5, 'ab', 1), (6, 'zz', 4)", "(7, 'aa', 5)")


@recipe("f", "d")
def nan_and_zeros(lake: Lake) -> None:
    """Bounds ignore NaN. In a join, -0.0 equals 0.0."""
    lake.create("id INT, f FLOAT, d DOUBLE", "bucket(2, id)")
    nan, minus = "FLOAT('NaN')", "FLOAT('-0.0')"
    lake.insert(
        f"(1, {nan}, {nan})",
        f"(2, {nan}, 1), (3, 1, {nan})",
        f"(4, {minus}, {minus})",
        "(5, 0, 0)",
        "(6, NULL, NULL)",
        "(7, FLOAT('Infinity'), DOUBLE('-Infinity'))",
    )


@recipe("c0", "c119")
def a_wide_table(lake: Lake) -> None:
    """Iceberg writes statistics only for the first hundred columns."""
    lake.create(", ".join(f"c{i} INT" for i in range(120)))
    for start in (0, 1000):
        lake.insert(f"({', '.join(str(start + i) for i in range(120))})")
