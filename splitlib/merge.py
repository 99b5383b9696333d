"""``splitlib.merge_condition``: the keys of a MERGE's source as a condition on its target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.utf8 import valid_ends
from splitlib.checks import given_pairs, name_parts
from splitlib.config import SplitConfig
from splitlib.errors import InvalidFilter
from splitlib.filtering.data import DynamicFilteringData
from splitlib.filtering.domains import Ranges, ValueDomain, has_range, plain_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DAY_MS: Final = 86_400_000
# delta-rs converts the bounds of DECIMAL columns to doubles, which have this relative error, and
# stores larger numbers without fraction as 2**63 - 1. The target's type is unknown here, so keys
# that are integers are treated in the same way.
_ROUNDING: Final = Decimal("1e-15")
_SATURATED: Final = 2**63 - 1
_MOST_DIGITS: Final = 38


def merge_condition(
    source: DataFrame | Any,
    on: Mapping[str, str] | Iterable[str | tuple[str, str]] | str,
    *,
    null_safe: bool = False,
) -> str:
    """Return an SQL condition that prunes the target of a MERGE. Add it to ``ON`` with ``AND``.

    The condition is true for every pair of rows whose columns in ``on`` are equal. So it does not
    change which rows match. With WHEN NOT MATCHED BY SOURCE, the whole target is still read.

    For a Spark DataFrame, the condition is in Spark's SQL. Any other table of rows is the source of
    ``deltalake``'s own ``DeltaTable.merge``. Then the condition is in the SQL of DataFusion, and
    PySpark is not needed. Floats and times of day get no condition there.

    Args:
        source: Source of the MERGE: a Spark DataFrame, an Arrow table, or anything else with
            ``__arrow_c_stream__`` (pandas, Polars). Its rows must be the same when the MERGE runs.
        on: Mapping from target columns, qualified by the target's alias, to source columns, such as
            ``{"t.dt": "dt"}``.
        null_safe: Whether null keys match nulls. ``=`` in SQL never matches null.

    Raises:
        NonDeterministicDimension: in the same cases as :func:`condition`.
        InvalidFilter: in the same cases as :func:`condition`, and if ``source`` is not a table.
        ConfigError: if a setting of the session or of the environment is unknown or malformed.
    """
    if any(kind.__module__.startswith("pyspark.") for kind in type(source).__mro__):
        from splitlib.spark.dimension import merge_condition as for_spark

        return for_spark(source, on, null_safe=null_safe)
    return _for_datafusion(_table(source), given_pairs(on), null_safe=null_safe)


def _table(source: Any) -> pa.Table:
    try:
        return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidFilter(
            f"A {type(source).__name__} is not a table of rows.",
            hint="pass a Spark DataFrame, an Arrow table, or a table of pandas or Polars.",
        ) from error


def _for_datafusion(source: pa.Table, on: Mapping[str, str], *, null_safe: bool) -> str:
    most = SplitConfig.resolve().condition_literals
    if missing := [name for name in on.values() if name not in source.column_names]:
        raise InvalidFilter(
            f"The source has no column {', '.join(missing)}.",
            hint=f"its columns are {', '.join(source.column_names)}.",
        )
    usable = [target for target, name in on.items() if _has_literals(source[name].type)]
    if not usable:
        return "true"
    keys = plain_rows(pa.table({target: source[on[target]] for target in usable}))
    data = DynamicFilteringData.from_arrow(keys)
    if not null_safe:
        every_key = pa.table({target: source[name] for target, name in on.items()})
        kept = [pc.is_valid(column) for column in every_key.columns]
        for mask in kept[1:]:
            kept[0] = pc.and_(kept[0], mask)
        data = DynamicFilteringData.from_arrow(keys.filter(kept[0]))
    (domain,) = data.domains
    assert isinstance(domain, ValueDomain)
    rows, columns = domain.rows, {target: _column(target) for target in usable}
    if not rows.num_rows:
        return "false"
    if len(usable) > 1 and rows.num_rows * len(usable) <= most:
        each = [[_equals(columns[t], key) for key in rows[t]] for t in usable]
        return _any_of(f"({' AND '.join(row)})" for row in zip(*each, strict=True))
    found = (_of_column(columns[t], pc.unique(rows[t]), most) for t in usable)
    return " AND ".join(filter(None, found)) or "true"


def _of_column(column: str, keys: pa.Array, most: int) -> str | None:
    """Return a condition that one column equals one of the keys, or None if it is too long."""
    ordered = keys.drop_null()
    if len(ordered) <= most:
        values = [_equals(column, key) for key in ordered]
    elif has_range(keys.type):
        ranges = Ranges.covering(ordered.take(pc.sort_indices(ordered)), max(1, most // 2))
        values = [_between(column, low, high) for low, high in ranges]
    else:
        return None
    return _any_of([*values, *([f"{column} IS NULL"] if keys.null_count else [])])


def _any_of(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(conditions)})"


def _column(name: str) -> str:
    return ".".join('"' + part.replace('"', '""') + '"' for part in name_parts(name))


def _has_literals(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, _is_binary)
    other = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)
    return any(is_one(kind) for is_one in (*text, *other, pa.types.is_boolean))


def _is_binary(kind: pa.DataType) -> bool:
    fixed_or_view = pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind)
    return bool(fixed_or_view or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _equals(column: str, key: pa.Scalar) -> str:
    if not key.is_valid:
        return f"{column} IS NULL"
    if _is_number(key.type):
        return _between(column, key, key)
    low, high = valid_ends(key, key) if pa.types.is_string(key.type) else (key, key)
    return f"{column} = {_literal(key)}" if low.equals(high) else _between(column, key, key)


def _between(column: str, low: pa.Scalar, high: pa.Scalar) -> str:
    if _is_number(low.type):
        around = ((">", _beside(low, -1)), ("<", _beside(high, 1)))
        tests = [f"{column} {sign} {end}" for sign, end in around if end is not None]
        return f"({' AND '.join(tests)})" if tests else f"{column} IS NOT NULL"
    if pa.types.is_string(low.type):
        low, high = valid_ends(low, high)
    ends = ((">=", low), ("<=", high))
    tests = [f"{column} {sign} {_literal(end)}" for sign, end in ends if end.is_valid]
    return f"({' AND '.join(tests)})"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _beside(value: pa.Scalar, side: int) -> str | None:
    """Return a literal for a number below or above ``value``, or None if it would be too large.

    delta-rs skips files by rounded bounds. The distance to ``value`` is at least their error.

    Args:
        value: The number.
        side: -1 for a lower number, 1 for a greater one.
    """
    is_decimal = pa.types.is_decimal(value.type)
    unit = Decimal(1).scaleb(-value.type.scale if is_decimal else 0)
    number = Decimal(value.as_py())
    with localcontext(prec=100):
        moved = number + side * max(unit, abs(number) * _ROUNDING)
        moved = moved.quantize(unit, ROUND_FLOOR if side < 0 else ROUND_CEILING)
        if abs(moved) >= _SATURATED or len(moved.as_tuple().digits) > _MOST_DIGITS:
            return None
    if not is_decimal:
        return str(moved)
    precision = min(value.type.precision + 1, _MOST_DIGITS)
    return f"CAST('{moved:f}' AS DECIMAL({precision}, {value.type.scale}))"


def _literal(value: pa.Scalar) -> str:
    kind = value.type
    if pa.types.is_string(kind):
        text = str(value.as_py())
        return "'" + text.replace("'", "''") + "'"
    if _is_binary(kind):
        return f"X'{value.as_py().hex()}'"
    if pa.types.is_date(kind):
        # Dates are written as a number of days, because DataFusion cannot parse every date. A
        # date64 may have a time of day, and then equals no date. A condition on its whole day keeps
        # more rows than necessary, which is allowed.
        number = int(value.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).as_py())
        days = number if pa.types.is_date32(kind) else number // _DAY_MS
        return f"arrow_cast({days}, 'Date32')"
    if pa.types.is_timestamp(kind):
        unit, zone = "Nanosecond", 'Some("UTC")' if kind.tz else "None"
        if kind.unit != "ns":  # deltalake cannot write literals in seconds or milliseconds
            unit, value = "Microsecond", _in_microseconds(value)
        return f"arrow_cast({value.cast(pa.int64())}, 'Timestamp({unit}, {zone})')"
    return str(value.as_py()).lower()


def _in_microseconds(moment: pa.Scalar) -> pa.Scalar:
    try:
        return moment.cast(pa.timestamp("us", moment.type.tz))
    except pa.ArrowInvalid as error:
        raise InvalidFilter(f"Key {moment} is not in the range of Delta's timestamps.") from error
