"""Names of time zones in Java's notation."""

from __future__ import annotations

import pyarrow as pa
import pytest

import splitlib
from splitlib.arrow.values import arrow_zone, in_zone, is_east

# The short names of time zones in the documentation of ``java.time.ZoneId.SHORT_IDS``.
DOCUMENTED = """
EST -05:00            HST -10:00            MST -07:00              ACT Australia/Darwin
AET Australia/Sydney  ART Africa/Cairo      AST America/Anchorage   BET America/Sao_Paulo
BST Asia/Dhaka        CAT Africa/Harare     CNT America/St_Johns    CST America/Chicago
CTT Asia/Shanghai     ECT Europe/Paris      EAT Africa/Addis_Ababa  JST Asia/Tokyo
IST Asia/Kolkata      MIT Pacific/Apia      NET Asia/Yerevan        NST Pacific/Auckland
PLT Asia/Karachi      PNT America/Phoenix   PRT America/Puerto_Rico PST America/Los_Angeles
SST Pacific/Guadalcanal                     VST Asia/Ho_Chi_Minh
AGT America/Argentina/Buenos_Aires          IET America/Indiana/Indianapolis
"""
NAMES = DOCUMENTED.split()


@pytest.mark.parametrize(("short", "zone"), [*zip(NAMES[::2], NAMES[1::2], strict=True)])
def test_short_names(short, zone):
    assert arrow_zone(short) == zone


@pytest.mark.parametrize(
    ("java", "arrow"),
    [
        ("Z", "UTC"),
        ("UT", "UTC"),
        ("UTC", "UTC"),
        ("+8", "+08:00"),
        ("-03:30", "-03:30"),
        ("UTC+1", "+01:00"),
        ("GMT-0530", "-05:30"),
        ("UT+05:30:00", "+05:30"),
        ("Europe/Berlin", "Europe/Berlin"),
    ],
)
def test_other_names(java, arrow):
    assert arrow_zone(java) == arrow


@pytest.mark.parametrize("name", ["Nowhere/Town", "XST"])
def test_what_is_no_zone(name):
    with pytest.raises(splitlib.ConfigError, match="is unknown"):
        arrow_zone(name)


def test_instants_alone_are_shown_in_a_zone():
    fields = [
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("n", pa.int64()),
    ]
    assert in_zone(fields, "EST").types == [
        pa.timestamp("us", "-05:00"),
        pa.timestamp("us"),
        pa.int64(),
    ]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "+00:30", "Europe/Berlin", "Pacific/Auckland"])
def test_east_of_greenwich(zone):
    assert is_east(zone)


@pytest.mark.parametrize("zone", ["UTC", "Z", "Europe/London", "America/New_York", "-00:30"])
def test_not_east_of_greenwich(zone):
    assert not is_east(zone)
