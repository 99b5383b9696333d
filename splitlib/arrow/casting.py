"""Arrow's casts, value by value: what does not convert becomes null instead of an error.

Arrow stops at the first value that fails and does not say which. So what fails is found beforehand,
with a few passes over all values, by its spelling or by its range.
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

# How many casts are tried for what the spelling does not decide, such as leap years.
ATTEMPTS = 20_000


def try_cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """``values`` as ``kind``, null where that would fail or lose something.

    The time is about linear in the values, however many do not convert. Text that would convert may
    become null if very many values are spelled in rare ways. Hexadecimal numbers always become
    null, as no reader but Arrow takes them for numbers.
    """
    if pa.types.is_decimal(values.type) and pa.types.is_decimal(kind):
        return _of_others(values, kind)  # Arrow itself does not notice every overflow
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
    """What nothing but a value of the type looks like, or very little else."""
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
    """Numbers and times, of which some do not fit the type."""
    try:
        fits = _fits_decimal(values, kind) if pa.types.is_decimal(values.type) else None
        if fits is None:
            converted = values.cast(kind, safe=False)
            fits = pc.equal(converted.cast(values.type, safe=False), values)
            if pa.types.is_integer(kind) and pa.types.is_integer(values.type):
                # the largest unsigned number becomes -1, which becomes that number again
                fits = pc.and_(fits, pc.equal(pc.less(converted, 0), pc.less(values, 0)))
        return pc.if_else(fits, values, pa.scalar(None, values.type)).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _halved(values, kind)


def _fits_decimal(values: pa.Array, kind: pa.DataType) -> pa.BooleanArray | None:
    """Whether a decimal is a number of ``kind``; None where that is no type of exact numbers."""
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
    # room for the ends of any type beside all digits after the point
    wide = values.cast(pa.decimal256(76, values.type.scale))
    whole = pc.trunc(wide)
    inside = pc.and_(
        pc.greater_equal(whole, pa.scalar(Decimal(least), wide.type)),
        pc.less_equal(whole, pa.scalar(Decimal(most), wide.type)),
    )
    return pc.and_(inside, pc.equal(pc.round(wide, ndigits=scale), wide))


def _halved(values: pa.Array, kind: pa.DataType, attempts: int | None = None) -> pa.Array:
    """``values`` as ``kind``: what fails is halved and tried again until each failure stands alone.

    Args:
        values: To cast.
        kind: To what.
        attempts: How many casts are tried before what is left becomes null; None = all it takes.
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
