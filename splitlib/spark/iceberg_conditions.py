"""PyIceberg's row filters as SQL, which rows are then filtered by.

PyIceberg is imported by whoever makes such a filter, so that it need not be installed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyspark.sql.types import DataType, StringType, StructType, TimestampNTZType

from splitlib.errors import InvalidFilter

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

# By the name of PyIceberg's class: a column and its literals to a condition. Where a null makes it
# neither true nor false is as in a scan of PyIceberg's.
_CONDITIONS: Final[dict[str, Callable[..., str]]] = {
    "IsNull": lambda column: f"{column} IS NULL",
    "NotNull": lambda column: f"{column} IS NOT NULL",
    # Spark's isnan is false for null
    "IsNaN": lambda column: f"isnan({column})",
    "NotNaN": lambda column: f"({column} IS NOT NULL AND NOT isnan({column}))",
    "EqualTo": lambda column, value: f"{column} = {value}",
    "NotEqualTo": lambda column, value: f"{column} <> {value}",
    "LessThan": lambda column, value: f"{column} < {value}",
    "LessThanOrEqual": lambda column, value: f"{column} <= {value}",
    "GreaterThan": lambda column, value: f"{column} > {value}",
    "GreaterThanOrEqual": lambda column, value: f"{column} >= {value}",
    "In": lambda column, *values: f"{column} IN ({', '.join(values)})",
    "NotIn": lambda column, *values: f"({column} IS NULL OR {column} NOT IN ({', '.join(values)}))",
    "StartsWith": lambda column, value: f"startswith({column}, {value})",
    "NotStartsWith": lambda column, value: f"NOT startswith({column}, {value})",
}


def condition_sql(condition: str | BooleanExpression, schema: StructType) -> str:
    """A condition as SQL; text is SQL already.

    Raises:
        InvalidFilter: for a column that does not exist, or a condition that is not known.
    """
    if isinstance(condition, str):
        return condition
    from pyiceberg.expressions import Not
    from pyiceberg.expressions.visitors import rewrite_not

    try:
        # as PyIceberg does: a negation then says of nulls what the negated condition does
        return _sql(rewrite_not(Not(Not(condition))), schema)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise InvalidFilter(f"{condition!r} cannot be a condition: {error}") from error


def _sql(expression: Any, schema: StructType) -> str:
    match type(expression).__name__:
        case "AlwaysTrue":
            return "true"
        case "AlwaysFalse":
            return "false"
        case "And" | "Or" as both:
            left, right = _sql(expression.left, schema), _sql(expression.right, schema)
            return f"({left} {both.upper()} {right})"
        case name if name in _CONDITIONS:
            path = expression.term.name.split(".")
            kind = _type_of(path, schema)
            column = ".".join("`" + part.replace("`", "``") + "`" for part in path)
            literals = _literals(expression)
            # in some order, so that equal conditions are equal text
            values = sorted(_literal(literal, kind) for literal in literals)
            return _CONDITIONS[name](column, *values)
    raise InvalidFilter(f"{expression!r} cannot be a condition on rows.")


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


def _literal(literal: Any, kind: DataType) -> str:
    value = literal.value
    match type(literal).__name__:
        case "BooleanLiteral":
            return str(value).lower()
        case "BinaryLiteral" | "FixedLiteral":
            return f"X'{value.hex()}'"
        case "UUIDLiteral":
            value = UUID(bytes=value)
        case "DateLiteral":
            value = date(1970, 1, 1) + timedelta(days=value)
        case "TimestampLiteral":
            instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
            local = isinstance(kind, TimestampNTZType)
            value = instant.replace(tzinfo=None) if local else instant
    text = f"CAST(X'{str(value).encode().hex()}' AS STRING)"
    return text if isinstance(kind, StringType) else f"CAST({text} AS {kind.simpleString()})"
