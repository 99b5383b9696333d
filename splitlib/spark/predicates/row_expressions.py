"""The conditions that ``where`` accepts: SQL, a column, or a PyIceberg row filter.

PyIceberg is optional: a caller that passes such a filter has imported it already.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType, TimestampNTZType

from splitlib.errors import InvalidFilter
from splitlib.spark.sql_text import quoted, text_literal

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

# By the name of PyIceberg's class: builds a condition from a column and literals. Nulls are treated
# as in a PyIceberg scan.
_CONDITIONS: Final[dict[str, Callable[..., Column]]] = {
    "IsNull": lambda column: column.isNull(),
    "NotNull": lambda column: column.isNotNull(),
    # Spark's isnan returns false for null.
    "IsNaN": F.isnan,
    "NotNaN": lambda column: column.isNotNull() & ~F.isnan(column),
    "EqualTo": lambda column, value: column == value,
    "NotEqualTo": lambda column, value: column != value,
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
    "In": lambda column, *values: column.isin(list(values)),
    "NotIn": lambda column, *values: column.isNull() | ~column.isin(list(values)),
    "StartsWith": F.startswith,
    "NotStartsWith": lambda column, value: ~F.startswith(column, value),
}


def checked_condition(condition: Any) -> str | Column | BooleanExpression:
    """Return the condition if its type is supported.

    Raises:
        InvalidFilter: for any other type.
    """
    iceberg = sys.modules.get("pyiceberg.expressions")  # not imported: not a PyIceberg filter
    if isinstance(condition, str | Column) or (
        iceberg is not None and isinstance(condition, iceberg.BooleanExpression)
    ):
        found: str | Column | BooleanExpression = condition
        return found
    raise InvalidFilter(
        f"A {type(condition).__name__} is not a condition.",
        hint="pass SQL such as \"day > '2024-01-05'\", a Column such as F.col('day') > …, or a "
        "PyIceberg row filter.",
    )


def condition_column(condition: str | Column | BooleanExpression, schema: StructType) -> Column:
    """Convert a condition to a column. The session parses SQL when Spark analyzes the query.

    Raises:
        InvalidFilter: for a missing column or an unsupported condition.
    """
    if isinstance(condition, str):
        return F.expr(condition)
    if isinstance(condition, Column):
        return condition
    from pyiceberg.expressions import Not
    from pyiceberg.expressions.visitors import rewrite_not

    try:
        # PyIceberg moves negations into the comparisons, too. That changes how nulls are treated.
        return _column_of(rewrite_not(Not(Not(condition))), schema)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise InvalidFilter(f"{condition!r} cannot be a condition: {error}") from error


def _column_of(expression: Any, schema: StructType) -> Column:
    match type(expression).__name__:
        case "AlwaysTrue" | "AlwaysFalse" as constant:
            return F.lit(constant == "AlwaysTrue")
        case "And" | "Or" as both:
            left, right = _column_of(expression.left, schema), _column_of(expression.right, schema)
            return left & right if both == "And" else left | right
        case name if name in _CONDITIONS:
            path = expression.term.name.split(".")
            kind = _type_of(path, schema)
            column = F.col(quoted(path[0]))
            for part in path[1:]:
                column = column.getField(part)
            # Sort the literals, so that equal conditions have the same text.
            literals = sorted(_literals(expression), key=lambda literal: repr(literal.value))
            return _CONDITIONS[name](column, *(_literal(literal, kind) for literal in literals))
    raise InvalidFilter(f"{expression!r} is not supported as a condition on rows.")


def _literals(expression: Any) -> list[Any]:
    if hasattr(expression, "literals"):
        return list(expression.literals)
    return [expression.literal] if hasattr(expression, "literal") else []


def _type_of(path: list[str], schema: StructType) -> DataType:
    kind: DataType = schema
    for name in path:
        found = [
            field.dataType
            for field in (kind if isinstance(kind, StructType) else ())
            if field.name.lower() == name.lower()
        ]
        if not found:
            raise InvalidFilter(f"The table has no column {'.'.join(path)!r}.")
        kind = found[0]
    return kind


def _literal(literal: Any, kind: DataType) -> Column:
    value = literal.value
    match type(literal).__name__:
        case "BooleanLiteral":
            return F.lit(value)
        case "BinaryLiteral" | "FixedLiteral":
            return F.lit(bytes(value))
        case "UUIDLiteral":
            value = UUID(bytes=value)
        case "DateLiteral":
            value = date(1970, 1, 1) + timedelta(days=value)
        case "TimestampLiteral":
            instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
            local = isinstance(kind, TimestampNTZType)
            value = instant.replace(tzinfo=None) if local else instant
    return text_literal(str(value), kind)
