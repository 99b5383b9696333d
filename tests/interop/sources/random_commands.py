"""Random MERGE, UPDATE, DELETE and other commands on Delta and Iceberg tables.

Each command runs with random settings, in a random thread and session.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from splitlib.spark.conversion import quoted

T = TypeVar("T")

NAMES: Final = "day", "order", "null", "true", "user", "a b", "x.y", "Key", "per%", "dash-ed"
"""Possible names of the join column."""

VALUES: Final[Mapping[str, Sequence[str]]] = {
    "int": ("1", "2", "3", "5", "NULL"),
    "bigint": ("1", "3000000000", "-2", "NULL"),
    "string": (r"'a'", r"'b\nc'", "'😀'", "'ﬁ'", "'it''s'", "'x=y'", "''", "NULL"),
    "date": ("DATE'2024-01-01'", "DATE'2024-02-29'", "DATE'0001-01-01'", "NULL"),
    "timestamp": ("TIMESTAMP'2024-01-01 00:00:00'", "TIMESTAMP'2024-03-10 02:30:00'", "NULL"),
    "decimal(10, 2)": ("1.50", "2.25", "-0.75", "NULL"),
    "boolean": ("true", "false", "NULL"),
    "double": ("1.5D", "0.0D", "-0.0D", "double('NaN')", "NULL"),
}
"""Possible values of the join column as SQL literals, by type."""

SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "spark.sql.session.timeZone": ("UTC", "Asia/Tokyo", "America/New_York"),
    "spark.sql.parser.escapedStringLiterals": ("false", "true"),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.caseSensitive": ("false", "true"),
    "spark.sql.ansi.enforceReservedKeywords": ("false", "false", "true"),
}
"""Values of Spark's settings that change the meaning of a command."""

_MATCHED: Final = (
    "WHEN MATCHED THEN DELETE",
    "WHEN MATCHED THEN UPDATE SET note = s.note",
    "WHEN MATCHED AND t.v > s.v THEN UPDATE SET v = s.v, note = 'a\\nb'",
    "WHEN MATCHED AND t.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET *",
)
_NOT_MATCHED: Final = (
    "WHEN NOT MATCHED THEN INSERT *",
    "WHEN NOT MATCHED AND s.v > 5 THEN INSERT *",
)
_NOT_BY_SOURCE: Final = (
    "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE AND t.v > 4 THEN UPDATE SET note = 'alone'",
)


@dataclass(frozen=True)
class Command:
    """A random command with its tables and settings."""

    seed: int
    format: str
    """``delta`` or ``iceberg``."""
    key: str
    """Unquoted name of the join column."""
    kind: str
    """Type of the join column."""
    text: str
    """The SQL text of the command.

    ``{t}`` stands for the target, ``{s}`` for the source and ``{new}`` for a new table.
    """
    is_partition_key: bool
    source_rows: str
    """SQL condition that selects the rows of the source."""
    settings: Mapping[str, str] = field(default_factory=dict)
    where: str = "here"
    """Where the command runs: ``here``, in a new ``thread``, or in a new ``session`` and thread."""


def draw_command(seed: int) -> Command:
    """Return the random command of a seed."""
    drawn = random.Random(seed)
    key, kind = drawn.choice(NAMES), drawn.choice(list(VALUES))
    k = quoted(key)
    text = drawn.choice((_merge, _merge, _merge, _change, _change, _insert, _create))(drawn, k)
    settings = {
        name: drawn.choice(values) for name, values in SETTINGS.items() if drawn.random() < 0.4
    }
    return Command(
        seed=seed,
        format=drawn.choice(("delta", "iceberg")),
        key=key,
        kind=kind,
        text=text,
        # Delta and Iceberg do not accept every type and name as a partition key.
        is_partition_key=kind in ("int", "string", "date") and drawn.random() < 0.7,
        source_rows=drawn.choice(("v < 4", "v < 4", "v > 100", f"{k} IS NULL", "v % 2 = 0")),
        settings=settings,
        where=drawn.choice(("here", "thread", "session")),
    )


def _source(drawn: random.Random) -> str:
    """Return a random source for a MERGE, as SQL with the alias ``s``."""
    return drawn.choice(
        (
            "{s} s",
            "(SELECT * FROM {s} WHERE {rows}) s",
            "(SELECT * FROM {s} WHERE {rows}) AS s",
            "(WITH w AS (SELECT * FROM {s}) SELECT * FROM w WHERE {rows}) s",
            "(SELECT * FROM {s} WHERE {rows} LIMIT 2) s",
        )
    )


def _merge(drawn: random.Random, k: str) -> str:
    clauses = [drawn.choice(_MATCHED)] if drawn.random() < 0.8 else []
    if not clauses or drawn.random() < 0.6:
        clauses.append(drawn.choice(_NOT_MATCHED))
    if drawn.random() < 0.2:
        clauses.append(drawn.choice(_NOT_BY_SOURCE))
    on = drawn.choice(
        (
            f"t.{k} = s.{k}",
            f"s.{k} = t.{k} AND t.v < 8",
            f"t.{k} <=> s.{k}",
            f"t.{k} = s.{k} AND t.id = s.id",
        )
    )
    return f"MERGE INTO {{t}} t USING {_source(drawn)} ON {on} {' '.join(clauses)}"


def _change(drawn: random.Random, k: str) -> str:
    inner = f"SELECT {k} FROM {{s}} WHERE {{rows}}"
    where = drawn.choice(
        (
            f"{k} IN ({inner})",
            f"EXISTS (SELECT 1 FROM {{s}} s WHERE s.{k} = x.{k} AND {{rows}})",
            f"{k} NOT IN ({inner} AND {k} IS NOT NULL)",
            f"{k} = (SELECT max({k}) FROM {{s}})",
            "v > 3",
        )
    )
    start = drawn.choice(("DELETE FROM {t} x", "UPDATE {t} x SET note = 'a\\nb'"))
    return f"{start} WHERE {where}"


def _insert(drawn: random.Random, k: str) -> str:
    query = (
        f"SELECT f.id + 1000 AS id, f.{k}, f.v, 'a\\nb' AS note, TIMESTAMP'2024-01-01 00:00:00' "
        f"AS ts FROM {{t}} f JOIN {{s}} s ON f.{k} = s.{k} WHERE s.{{rows}}"
    )
    start = drawn.choice(
        ("INSERT INTO {t}", "INSERT OVERWRITE {t}", f"INSERT INTO {{t}} REPLACE WHERE {k} IS NULL")
    )
    if drawn.random() < 0.3:
        return f"WITH w AS ({query}) {start} SELECT * FROM w"
    return f"{start} {query}"


def _create(drawn: random.Random, k: str) -> str:
    query = (
        f"SELECT f.*, TIMESTAMP'2024-01-01 00:00:00' AS at, 'a\\nb' AS b, cast('2024-05-05 12:00' "
        f"AS timestamp) AS c FROM {{t}} f JOIN {{s}} s ON f.{k} = s.{k} WHERE s.{{rows}}"
    )
    return f"CREATE TABLE {{new}} USING {{format}} AS {query}"


def rows(command: Command, count: int, shift: int) -> str:
    """Return a query for ``count`` rows of the target or the source."""
    values = VALUES[command.kind]
    array = f"array({', '.join(values)})"
    key = f"CAST(element_at({array}, CAST((id + {shift}) % {len(values)} + 1 AS int)) AS "
    return (
        f"SELECT id, {key}{command.kind}) AS {quoted(command.key)}, "
        f"IF(id % 5 = 0, NULL, CAST((id + {shift}) % 9 AS int)) AS v, "
        f"concat('r', id) AS note, CAST(NULL AS timestamp) AS ts FROM range({count})"
    )


def in_a_place(place: str, spark: SparkSession, work: Callable[[SparkSession], T]) -> T:
    """Run ``work`` in this thread if ``place`` is ``here``, otherwise in a new thread."""
    if place == "here":
        return work(spark)
    results: list[T | BaseException] = []

    def run() -> None:
        try:
            results.append(work(spark))
        except BaseException as error:
            results.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    result = results[0]
    if isinstance(result, BaseException):
        raise result
    return result
