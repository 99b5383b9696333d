"""Small tables for random reads: one for each type of partition key.

Each table also has data columns of many types.
"""

from __future__ import annotations

import re

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.abilities import without_collations

_DATA = """v bigint, i int, l bigint, s string, lc string COLLATE UTF8_LCASE,
  ci string COLLATE UNICODE_CI, rt string COLLATE UTF8_BINARY_RTRIM, uc string COLLATE UNICODE,
  d date, t timestamp, n timestamp_ntz, m decimal(8, 2), g float, f double, b boolean, ch char(4),
  vc varchar(6), `x.y` int, st struct<id: int, name: string>"""

_NUMBERS = "1", "2", "3", "-1", "70000", "0"
_FLOATS = "double('NaN')", "-0.0D", "0.0D", "1.5D", "2.0D", "-3.0D"
_TEXTS = "'a'", "'A'", "'b'", "'it''s'", r"'a\\b'", "'\"q\"'", "'a%'", "'1'", "'01'", "'2020-02-27'"
_PADDED = "'a'", "'A'", "'a '", "'b'", "'B '", "'é'"
# Local times in New York. Some of them are midnight in UTC or in India, others near clock changes.
_ZONELESS = (
    "TIMESTAMP_NTZ'2020-02-27 00:00:00'", "TIMESTAMP_NTZ'2020-02-27 19:00:00'",
    "TIMESTAMP_NTZ'2020-02-27 13:30:00'", "TIMESTAMP_NTZ'2020-02-28 00:00:00'",
    "TIMESTAMP_NTZ'2020-03-08 02:30:00'", "TIMESTAMP_NTZ'2020-03-08 03:30:00'",
    "TIMESTAMP_NTZ'2019-11-03 01:30:00.5'",
)  # fmt: skip
_DATES = "DATE'2020-02-27'", "DATE'2020-02-28'", "DATE'2020-03-08'", "DATE'1969-12-31'"

# SQL type and literals of each kind of column. The kind is also the name of the data column.
_KINDS = {
    "i": ("int", _NUMBERS),
    "l": ("bigint", _NUMBERS),
    "s": ("string", _TEXTS),
    "lc": ("string", _PADDED),
    "ci": ("string", _PADDED),
    "rt": ("string", _PADDED),
    "uc": ("string", _PADDED),
    "d": ("date", _DATES),
    "t": ("timestamp", _ZONELESS),
    "n": ("timestamp_ntz", _ZONELESS),
    "m": ("decimal(8, 2)", ("1", "2", "1.5", "-1", "0", "70000.25")),
    "g": ("float", _FLOATS),
    "f": ("double", _FLOATS),
    "b": ("boolean", ("true", "false")),
    "ch": ("string", ("'a'", "'A'", "'ab'", "'abcd'")),
    "vc": ("string", ("'a'", "'A'", "'ab'", "'abcd'", "'1'")),
    "x.y": ("int", _NUMBERS),
}

# No key has the kind ``lc``, ``ci``, ``rt`` or ``uc``. Spark does not allow collations for
# partition keys, and the metastore's database Derby treats ``'a'`` and ``'a '`` as equal.
KEYS = {
    "q_int": (("k", "int", "i"),),
    "q_long": (("k", "bigint", "l"),),
    "q_text": (("k", "string", "s"),),
    "q_date": (("k", "date", "d"),),
    "q_time": (("k", "timestamp", "t"),),
    "q_zoneless": (("k", "timestamp_ntz", "n"),),
    "q_decimal": (("k", "decimal(8, 2)", "m"),),
    "q_float": (("k", "float", "g"),),
    "q_double": (("k", "double", "f"),),
    "q_boolean": (("k", "boolean", "b"),),
    "q_char": (("k", "char(4)", "ch"),),
    "q_varchar": (("k", "varchar(6)", "vc"),),
    "q_two": (("k", "int", "i"), ("day", "date", "d")),
    "q_none": (),
}
"""Partition keys by table. Each key is a tuple of name, SQL type and kind."""
ORC = ("q_date", "q_double", "q_none")
DIMENSION = "q_dim"
"""Name of a table without partition keys, from which random dimensions are taken."""
KINDS = ("v", *_KINDS)
"""Kinds of data columns, which are also their names. ``v`` is the number of the row."""
KINDS_OF_ORC = tuple(kind for kind in KINDS if kind not in ("lc", "ci", "rt", "uc", "x.y"))
"""Kinds of data columns that ORC tables have."""


def create(spark: SparkSession) -> None:
    """Create and fill the tables."""
    for statement in map(without_collations, statements()):
        try:
            spark.sql(statement)
        except AnalysisException:  # some metastores do not have such partition keys
            spark.sql(statement.replace(", k timestamp_ntz", ", k timestamp"))


def drop(spark: SparkSession) -> None:
    """Drop the tables."""
    for table in (*KEYS, DIMENSION):
        spark.sql(f"DROP TABLE {table}")


def statements(only: str | None = None) -> list[str]:
    """Return the statements that create and fill all tables, or only the table ``only``."""
    found = []
    for table, keys in {**KEYS, DIMENSION: ()}.items():
        if only not in (None, table):
            continue
        columns = ", ".join(f"{name} {kind}" for name, kind, _ in keys)
        names = ", ".join(name for name, _, _ in keys)
        found.append(
            f"CREATE TABLE {table} ({_columns(table)}{', ' if keys else ''}{columns}) "
            f"USING {'orc' if table in ORC else 'parquet'}"
            + (f" PARTITIONED BY ({names})" if keys else "")
        )
        # A task writes 0.0 and -0.0 to one partition, so the two values need separate statements.
        parts = ("id % 6 != 1", "id % 6 = 1") if table in ("q_float", "q_double") else ("true",)
        found += [f"INSERT INTO {table} {_rows(keys, part)}" for part in parts]
    return found


def _columns(table: str) -> str:
    """Return the SQL definitions of a table's data columns.

    ORC tables omit features that Spark's ORC reader does not support.
    """
    if table not in ORC:
        return _DATA
    return re.sub(r" COLLATE \w+", "", _DATA).replace("`x.y`", "x_y")


def _rows(keys: tuple[tuple[str, str, str], ...], part: str) -> str:
    data = ["id AS v", *(f"{_value(kind, i + 1)} AS `{kind}`" for i, kind in enumerate(_KINDS))]
    data.append(
        "named_struct('id', CAST(id % 3 AS int), 'name', concat('n', CAST(id % 2 AS string))) AS st"
    )
    data += [f"{_value(kind, 7 * i)} AS {name}" for i, (name, _, kind) in enumerate(keys)]
    return f"SELECT {', '.join(data)} FROM range(0, 30, 1, 1) WHERE {part}"


def _value(kind: str, shift: int) -> str:
    """Return an SQL expression that selects a value of a kind, or null, by the row number ``id``.

    Each column has another ``shift``, so that the columns of a row have different values.
    """
    type_name, values = _KINDS[kind]
    position = f"CAST((id + {shift}) % {len(values)} + 1 AS int)"
    null = "id = 29" if shift % 7 == 0 else f"(id + {shift}) % 11 = 0"
    value = f"element_at(array({', '.join(values)}), {position})"
    return f"CAST(if({null}, NULL, {value}) AS {type_name})"


def literals(kind: str) -> tuple[str, ...]:
    """Return the SQL literals with which columns of a kind are compared."""
    return tuple(map(str, range(0, 30, 4))) if kind == "v" else _KINDS[kind][1]
