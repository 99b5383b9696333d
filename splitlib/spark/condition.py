"""``splitlib.condition``: what a join implies for its other side, to hand to whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame

from splitlib.config import SplitConfig
from splitlib.spark.arguments import given_dataframe, given_pairs
from splitlib.spark.join_condition import ConditionWriter, JoinCondition, Operand, has_literals
from splitlib.spark.jvm.active_session import in_its_session
from splitlib.spark.keys.collect import collect_keys
from splitlib.spark.keys.columns import key_columns
from splitlib.spark.session import settings_of
from splitlib.spark.sql_text import quoted

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
            same. The fact's columns may have an alias (``t.dt``); a dot inside of a name is put
            in backticks.
        null_safe: The join is ``<=>``: null keys match nulls.

    Raises:
        NonDeterministicDimension: see :func:`splitlib.freeze`.
        InvalidFilter: if a column does not exist.
    """
    pairs = given_pairs(on)
    dimension = given_dataframe(dimension)
    config = SplitConfig.resolve(spark_conf=settings_of(dimension.sparkSession))
    columns = key_columns(dimension, pairs.values())
    operands = {
        name: Operand(_column(name), columns[of_dimension].field.dataType)
        for name, of_dimension in pairs.items()
    }
    usable = {name: c for name, c in pairs.items() if has_literals(operands[name].kind)}
    if not usable:
        return JoinCondition("true", False, tuple(f"{name}: nothing" for name in pairs))
    data = collect_keys(dimension, usable, None, config, null_safe=null_safe)
    return ConditionWriter(operands, config.condition_literals).of(data)


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
    return condition(source, on, null_safe=null_safe).sql


def _column(name: str) -> str:
    """A column of the fact as SQL text, whatever characters its user did not think of."""
    if "`" in name:
        return name
    return ".".join(p if _IDENTIFIER.fullmatch(p) else quoted(p) for p in name.split("."))
