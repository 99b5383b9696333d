"""``splitlib.condition``: what a join implies for its other side, to hand to whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField

from splitlib.config import SplitConfig
from splitlib.errors import InvalidFilter
from splitlib.spark.allowed_scans import refuse_dataframe
from splitlib.spark.arguments import given_dataframe, given_pairs
from splitlib.spark.join_condition import ConditionWriter, JoinCondition, Operand, has_literals
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.keys.collect import collect_keys
from splitlib.spark.keys.columns import key_columns
from splitlib.spark.schema import char_length
from splitlib.spark.session import settings_of
from splitlib.spark.sql_text import column_text, has_variable

# A part of a name: in backticks whatever is in it, else up to the next dot.
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


@in_its_session
def condition(
    dimension: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool = False,
) -> JoinCondition:
    """What an inner or semi join with ``dimension`` implies for the other side, the fact.

    A source that knows nothing of joins prunes by it: Delta and Iceberg tables skip partitions
    and files, a database gets it as a ``WHERE``. The dimension is run here, for its distinct keys.
    Few keys are told one by one, more of them as ranges with the gaps between them left out
    (``condition_literals``), far more by their least and greatest. Strings get no ranges, since
    a metastore or a database may order them otherwise: with more of them than
    ``condition_literals`` their column is not in the condition.

    Each key is compared by the ``=`` that the join uses, with a literal of the type that the
    dimension's column has, so that whatever Spark converts for the join it converts here.

    Args:
        dimension: With the keys. It has to have the same rows when it is joined.
        on: Fact column to dimension column, as a mapping or pairs, or the name where it is the
            same. The fact's columns may have an alias (``t.dt``); a name with a dot or a backtick
            in it is put in backticks.
        null_safe: The join is ``<=>``: null keys match nulls.

    Raises:
        NonDeterministicDimension: see :func:`splitlib.freeze`.
        InvalidFilter: if a column does not exist, or if the fact's column has ``${…}`` in its
            name, which Spark replaces in SQL text.
        LocationNotAllowed: if the dimension reads outside of ``allowed_locations``.
    """
    return _condition(dimension, on, null_safe=null_safe, for_command=False)


@in_its_session
def merge_condition(
    source: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool = False,
) -> str:
    """Text to add with ``AND`` to the ``ON`` of a MERGE, by which its target is pruned.

    It is implied by the equality of ``on`` for every pair of rows, so that all WHEN clauses keep
    their meaning; where one says NOT MATCHED BY SOURCE, the whole target is read all the same.

    Args:
        source: What is merged. It has to have the same rows when the MERGE runs.
        on: Column of the target, with its alias, to column of the source, such as
            ``{"t.dt": "dt"}``.
        null_safe: As for :func:`condition`.

    Raises:
        NonDeterministicDimension: as :func:`condition`.
        InvalidFilter: as :func:`condition`.
    """
    return _condition(source, on, null_safe=null_safe, for_command=True).sql


def _condition(
    dimension: DataFrame,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool,
    for_command: bool,
) -> JoinCondition:
    pairs = given_pairs(on)
    dimension = given_dataframe(dimension)
    config = SplitConfig.resolve(spark_conf=settings_of(dimension.sparkSession))
    refuse_dataframe(dimension, config)
    columns = key_columns(dimension, pairs.values())
    operands = {
        name: Operand(_column(dimension.sparkSession, name), columns[of_dimension].field.dataType)
        for name, of_dimension in pairs.items()
    }
    usable = {name: c for name, c in pairs.items() if has_literals(operands[name].kind)}
    if not usable:
        return JoinCondition("true", False, tuple(f"{name}: nothing" for name in pairs))
    data = collect_keys(dimension, usable, None, config, null_safe=null_safe)
    writer = ConditionWriter(operands, config.condition_literals, for_command=for_command)
    found = writer.of(data)
    padded = [name for name in usable if _may_be_padded(columns[pairs[name]].field)]
    if padded and found.is_exact and not data.is_empty:
        # with a CHAR the join compares the key as it is, while Spark pads a literal
        return found.inexact(f"{', '.join(padded)}: a literal is padded where the column is CHAR")
    return found


def _may_be_padded(key: StructField) -> bool:
    """Whether a literal equals values of CHAR(n) that the key does not."""
    return isinstance(key.dataType, StringType) and char_length(key) is None


def _column(spark: SparkSession, name: str) -> str:
    """A column of the fact as SQL text: always quoted, since any name may be a word of SQL."""
    if has_variable(name) and spark.conf.get("spark.sql.variable.substitute", "true") == "true":
        raise InvalidFilter(
            f"Column {name!r} cannot be named in SQL text: Spark replaces `${{…}}` there.",
            hint="rename the column in a view, or set spark.sql.variable.substitute to false.",
        )
    parts, end = [], -1
    while end < len(name):
        found = _PART.match(name, end + 1)
        if found is None or name[found.end() : found.end() + 1] not in ("", "."):
            raise InvalidFilter(
                f"{name!r} is no name of a column.",
                hint="put each part in backticks that has a dot or a backtick in it: `a.b`.",
            )
        parts.append(found[2] or found[1].replace("``", "`"))
        end = found.end()
    return column_text(spark, *parts)
