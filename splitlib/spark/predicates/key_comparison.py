"""Compare join keys with partition values of a different type, with Spark.

Spark's analyzer and settings decide which side is cast, and how. So the keys are joined with the
partition values by ``=``, as in the query itself. The planner does the same.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, YearMonthIntervalType

from splitlib.filtering.coercion import coerce
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import ValueDomain
from splitlib.model import TableMetadata
from splitlib.spark.keys.columns import in_months
from splitlib.spark.local_rows import local_rows
from splitlib.spark.predicates.where import StaticCondition
from splitlib.spark.schema import is_char_or_varchar
from splitlib.spark.sql_text import quoted


def compared_by_spark(
    spark: SparkSession,
    data: DynamicFilteringData,
    schema: StructType,
    table: TableMetadata,
    *,
    null_safe: bool,
) -> tuple[StaticCondition | None, DynamicFilteringData | None]:
    """Return the filter for Spark to evaluate, and the keys that need no Spark; None = not needed.

    Args:
        spark: Session whose settings decide how values are compared.
        data: Keys under the names of the table's columns.
        schema: Spark schema of the table.
        table: Metadata of the table.
        null_safe: Whether the join is ``<=>``.
    """
    keys = {key: schema[key] for key in table.partition_keys if key in schema.names}
    names = [name for name in data.fields if name in keys and not is_char_or_varchar(keys[name])]
    others = {name for name in names if not _is_comparable(data.schema.field(name), table)}
    if not others:
        return None, data
    match data.domains:
        case (ValueDomain(rows=rows),) if data.is_exact and rows.num_rows:
            given = rows.select(names)
        case _:
            return None, data

    numbered = [f"__splitlib_k{i}" for i in range(len(names))]
    wanted = local_rows(spark, given.rename_columns(numbered))
    condition = F.lit(True)
    for name, number in zip(names, numbered, strict=True):
        one, other = F.col(quoted(name)), F.col(number)
        if isinstance(keys[name].dataType, YearMonthIntervalType):
            one = in_months(one)  # collected keys are months too
        condition &= one.eqNullSafe(other) if null_safe else one == other

    def kept(values: DataFrame) -> DataFrame:
        return values.join(wanted, condition, "left_semi")

    of_keys = StructType([keys[name] for name in names])
    rest = [name for name in data.fields if name not in others]
    condition_on_keys = StaticCondition(spark, of_keys, kept, data.describe(), keeps_undecided=True)
    return condition_on_keys, data.only(rest) if rest else None


def _is_comparable(key: pa.Field, table: TableMetadata) -> bool:
    own = table.schema.field(key.name)
    return own.type == key.type or coerce(pa.array([], key.type), own) is not None
