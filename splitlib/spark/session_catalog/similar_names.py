"""Find the part of a table's name that a session does not have, and similar names."""

from __future__ import annotations

from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from splitlib.catalogs import named_catalogs
from splitlib.errors import SplitlibError
from splitlib.spark.jvm.gateway import JVM_ERRORS
from splitlib.spark.session import settings_of
from splitlib.suggestions import nearest

_UNKNOWN: Final = "check the name."
_MOST_SHOWN: Final = 20


def similar_names(spark: SparkSession, name: str) -> str:
    """Return a hint for the name of a table that a session does not have.

    Args:
        spark: The session. It lists catalogs, databases, and the tables of one database.
        name: The name, as the user wrote it.
    """
    try:
        return _hint(spark, name.split(".")) if "`" not in name else _UNKNOWN
    except (PySparkException, SplitlibError, *JVM_ERRORS):
        return _UNKNOWN  # the catalog cannot be listed


def _hint(spark: SparkSession, parts: list[str]) -> str:
    if len(parts) == 1:
        parts = [spark.catalog.currentDatabase(), *parts]
    catalogs = list(named_catalogs(settings_of(spark)))
    if len(parts) > 2:
        catalogs += [row[0] for row in spark.sql("SHOW CATALOGS").collect()]
        return _of_part("catalog", parts[0], catalogs) or _UNKNOWN
    databases = [row[0] for row in spark.sql("SHOW DATABASES").collect()]
    if parts[0].lower() not in databases:
        kind = "database or catalog" if catalogs else "database"
        return _of_part(kind, parts[0], [*databases, *catalogs]) or _UNKNOWN
    rows = spark.sql("SHOW TABLES IN IDENTIFIER(:name)", args={"name": parts[0]}).collect()
    near = nearest(parts[1], [row[1] for row in rows])
    return _UNKNOWN if near is None else f"did you mean '{parts[0]}.{near}'?"


def _of_part(kind: str, name: str, known: list[str]) -> str | None:
    if name in known or not known:
        return None
    names = sorted(set(known))
    near = nearest(name, names)
    if near is not None:
        return f"there is no {kind} {name!r}; did you mean {near!r}?"
    more = ", …" if len(names) > _MOST_SHOWN else ""
    return f"there is no {kind} {name!r}; there are {', '.join(names[:_MOST_SHOWN])}{more}."
