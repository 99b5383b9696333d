"""The parser of partition values gives the value that Spark reads, or leaves the text undecided.

A partition with undecided text is never pruned.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import pyarrow as pa
import pytest

from splitlib.hive.partition_values import comparable, parse
from splitlib.spark.compat import to_arrow
from tests.spark_session import JVM_ZONE

pytestmark = pytest.mark.spark

_SIGNS = ["", "-", "+", "--"]
_NUMBERS = """
0 1 01 1. 1.0 .5 . 1.5 0.005 0.1 127 128 129 32768 2147483648 9223372036854775808 999.99 999.995
1e3 1E3 1e+2 1e-3 12345e-2 12345e-3 1e 1e3.5 e1 1e37 1e38 3.4028235e38 3.4028236e38 1e39 1e400 1e-46
1e-400 0E-18 1E-7 0x1F 0X1f 0x1p3 1_000 1,000 1L 1l 1d 1D 1f 1.5F 1e3d 1.0.0 16777217
9007199254740993 inf Inf INF infinity Infinity nan NaN NAN nan(1) NaN(x) infd nand true True TRUE t
T f false y Y yes n no on off null NULL \u0661 \uff11 '1' 1;
"""
_LONG = [
    *("9" * digits for digits in (37, 38, 39, 40, 76, 77)),
    *("1" + "0" * zeros for zeros in (37, 38, 39)),
    *("3" + "0" * zeros + end for zeros in (37, 38) for end in ("", ".0", "e-1", "e-39")),
    "0" * 40 + "1",
    "0." + "0" * 40 + "1",
    "12345678901234567890.123456789012345678",
    "9" * 38 + "e-1",
    "9" * 39 + "e-30",
]
_DAYS = """
2024-01-05 2024-1-5 2024-01-5 2024-1-05 2024-01 2024 2024- 24-01-05 02024-01-05 10000-01-01
-2024-01-05 +2024-01-05 99999-01-01 0000-01-01 0001-01-01 1582-10-04 1582-10-10 1500-02-29
1600-02-29 1800-01-01 1883-11-18 1900-02-29 2000-02-29 2020-03-08 2020-11-01 2023-02-29 2024-02-30
2024-13-01 2024-00-01 2024-01-00 2024-01-32 2024-04-31 2024/01/05 20240105 epoch today 2037-07-01
2038-01-19 2050-07-01 9999-07-01 9999-12-31 2262-04-12 1677-09-21
"""
_TIMES = """
12:30 12 1:2:3 12:30:00 12:30:00.1 12:30:00.123456 12:30:00.1234567 12:30:00. 23:59:59.999999
24:00:00 23:59:60 12:60:00 00:00:00 00:00 02:30:00 01:30:00 12:3 1:30 12:30:00,5 123000 12:30:00Z
12:30:00z 12:30:00UTC 12:30:00+00:00 12:30:00+01:00 12:30:00+0100 12:30:00+1 12:30:00-18:00
12:30:00+19:00 12:30Z 12Z 12:30:00[Europe/Paris] 12:30:00PST abc
"""
_SPACED = [
    f"{before}{text}{after}"
    for text in ("1", "true", "2024-01-05")
    for before, after in [
        (" ", ""),
        ("", " "),
        ("\t", ""),
        ("", "\n"),
        ("\u00a0", ""),
        ("\x00", ""),
        ("", "\x00"),
    ]
]
TEXTS = list(
    dict.fromkeys(
        [
            "",
            *map("".join, product(_SIGNS, [*_NUMBERS.split(), *_LONG])),
            *_DAYS.split(),
            *_TIMES.split(),
            *map("".join, product(_DAYS.split(), [" ", "T"], _TIMES.split())),
            *_SPACED,
            "2024-01-05  12:30:00",
            "2024-01-05t12:30:00",
            "2024-01-05 12:30:00 UTC",
            "2024-01-05 12:30:00 Europe/Paris",
        ]
    )
)
KINDS = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(5,2)": pa.decimal128(5, 2),
    "decimal(38,0)": pa.decimal128(38, 0),
    "decimal(38,18)": pa.decimal128(38, 18),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", JVM_ZONE),
    "binary": pa.binary(),
    "string": pa.string(),
}


@pytest.fixture(scope="module", params=["try_cast", "legacy cast"])
def casts(request, spark):
    """Return the value that Spark reads from each text, with one column per type."""
    function = request.param.split()[-1]
    kept = spark.conf.get("spark.sql.ansi.enabled")
    rows = spark.createDataFrame(list(enumerate(TEXTS)), "i int, t string").coalesce(1)
    try:
        spark.conf.set("spark.sql.ansi.enabled", str(function == "try_cast").lower())
        columns = [f"{function}(t AS {kind}) AS `{kind}`" for kind in KINDS]
        return to_arrow(rows.orderBy("i").selectExpr(*columns)).combine_chunks()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", kept)


@cache
def decided(kind):
    """Return index and value of the texts in :data:`TEXTS` that the parser can decide."""
    key = pa.field("k", KINDS[kind])
    # The parser may treat a mixed array and a single text differently, so the texts are parsed in
    # both ways.
    parsed = [(parse(pa.array(TEXTS), key), list(range(len(TEXTS))))]
    parsed += [(parse(pa.array([text]), key), [i]) for i, text in enumerate(TEXTS)]
    return [
        (i, value)
        for (values, undecided), places in parsed
        for row, (i, value) in enumerate(zip(places, values, strict=True))
        if undecided is None or not undecided[row].as_py()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_undecided_or_what_spark_takes_it_for(casts, kind):
    key = pa.field("k", KINDS[kind])
    expected = comparable(casts[kind].combine_chunks().cast(key.type), key)
    for i, value in decided(kind):
        assert same(value, expected[i]), (TEXTS[i], value, expected[i])
    assert len(decided(kind)) > 10  # The parser must decide valid texts.


def same(one, other):
    if not (one.is_valid and other.is_valid):
        return one.is_valid == other.is_valid
    if pa.types.is_floating(one.type) and math.isnan(one.as_py()):
        return math.isnan(other.as_py())
    return one.equals(other)
