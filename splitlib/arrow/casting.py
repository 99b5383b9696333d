"""Cast Arrow arrays value by value: a value that does not convert becomes null, not an error.

Arrow stops at the first bad value without reporting its position. So bad values are found
beforehand, in a few passes over the whole array, by their spelling or their range.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.arrow.texts import contains_any

_DECIMAL = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_EXPONENT = "[eE][+-]?[0-9]+"
_DAY = (
    r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|[12][0-9]))"
)
_TIME = r"([01][0-9]|2[0-3])(:[0-5][0-9](:[0-5][0-9]%s)?)?"
_FRACTION = {"s": "", "ms": r"(\.[0-9]{1,3})?", "us": r"(\.[0-9]{1,6})?", "ns": r"(\.[0-9]{1,9})?"}

# Maximum number of casts for text whose spelling does not decide, such as leap days.
ATTEMPTS = 20_000


def try_cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast ``values`` to ``kind``; values that fail or would lose information become null.

    Takes about linear time, however many values do not convert. If very many values have rare
    spellings, text that would convert may become null. Hexadecimal numbers always become null,
    because only Arrow parses them as numbers.
    """
    if pa.types.is_decimal(values.type) and pa.types.is_decimal(kind):
        return _of_others(values, kind)  # Arrow's own cast misses some overflows
    is_text = pa.types.is_string(values.type)
    try:
        if not (is_text and pa.types.is_integer(kind) and contains_any(values, b"xX")):
            return values.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(values), kind)
    except pa.ArrowInvalid:
        pass
    return _of_text(values, kind) if is_text else _of_others(values, kind)


def _of_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    encoded = texts.dictionary_encode()
    words = encoded.dictionary
    likely = pc.match_substring_regex(words, f"^({_spelling(kind)})$")
    chosen = words.filter(likely)
    if pa.types.is_integer(kind):
        found = try_cast(chosen.cast(pa.decimal128(38, 0)), kind)
    else:
        found = _halved(chosen, kind, ATTEMPTS)
    places = pc.subtract(pc.cumulative_sum(likely.cast(pa.int64())), 1)
    of_words = found.take(pc.if_else(likely, places, pa.scalar(None, pa.int64())))
    return of_words.take(encoded.indices)


def _spelling(kind: pa.DataType) -> str:
    """Return a regular expression that matches all text of the type, and hardly any other text."""
    if pa.types.is_unsigned_integer(kind):
        return "[0-9]{1,38}"
    if pa.types.is_integer(kind):
        return "-?[0-9]{1,38}"
    if pa.types.is_floating(kind):
        return f"{_DECIMAL}({_EXPONENT})?|(?i:nan|[+-]?inf(inity)?)"
    if pa.types.is_decimal(kind):
        scale = max(kind.scale, 0)
        digits = rf"0*[0-9]{{0,{kind.precision - kind.scale}}}(\.[0-9]{{0,{scale}}}0*)?"
        return f"[+-]?{digits}|{_DECIMAL}{_EXPONENT}"
    if pa.types.is_date(kind):
        return _DAY
    if pa.types.is_timestamp(kind):
        return f"{_DAY}([ T]{_TIME % _FRACTION[kind.unit]})?"
    if pa.types.is_boolean(kind):
        return "(?i:true|false|0|1)"
    return "(?s:.*)"


def _of_others(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast numbers and times; values that do not fit the type become null."""
    try:
        fits = _fits_decimal(values, kind) if pa.types.is_decimal(values.type) else None
        if fits is None:
            converted = values.cast(kind, safe=False)
            fits = pc.equal(converted.cast(values.type, safe=False), values)
            if pa.types.is_integer(kind) and pa.types.is_integer(values.type):
                # The largest uint64 casts to -1 and back, so compare the signs too.
                fits = pc.and_(fits, pc.equal(pc.less(converted, 0), pc.less(values, 0)))
        return pc.if_else(fits, values, pa.scalar(None, values.type)).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _halved(values, kind)


def _fits_decimal(values: pa.Array, kind: pa.DataType) -> pa.BooleanArray | None:
    """Return whether each decimal fits ``kind``; None if ``kind`` is not decimal or integer."""
    if pa.types.is_decimal(kind):
        scale, limit = kind.scale, 10 ** (kind.precision - kind.scale)
        least, most = 1 - limit, limit - 1
    elif pa.types.is_integer(kind):
        scale = 0
        signed = pa.types.is_signed_integer(kind)
        least = -(2 ** (kind.bit_width - 1)) if signed else 0
        most = 2 ** (kind.bit_width - signed) - 1
    else:
        return None
    # Wide enough for the limits of any type and all digits after the point.
    wide = values.cast(pa.decimal256(76, values.type.scale))
    whole = pc.trunc(wide)
    inside = pc.and_(
        pc.greater_equal(whole, pa.scalar(Decimal(least), wide.type)),
        pc.less_equal(whole, pa.scalar(Decimal(most), wide.type)),
    )
    return pc.and_(inside, pc.equal(pc.round(wide, ndigits=scale), wide))


def _halved(values: pa.Array, kind: pa.DataType, attempts: int | None = None) -> pa.Array:
    """Cast ``values`` to ``kind``, halving arrays that fail until each bad value is alone.

    Args:
        values: Values to cast.
        kind: Target type.
        attempts: Maximum number of casts; values left after that become null. None = no limit.
    """
    found = []
    waiting = [values]
    tried = 0
    while waiting:
        piece = waiting.pop()
        tried += 1
        try:
            if attempts is not None and tried > attempts:
                found.append(pa.nulls(len(piece), kind))
            else:
                found.append(piece.cast(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if len(piece) == 1:
                found.append(pa.nulls(1, kind))
            else:
                half = len(piece) // 2
                waiting += [piece[half:], piece[:half]]
    return pa.concat_arrays(found)
