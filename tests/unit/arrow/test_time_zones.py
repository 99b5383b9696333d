"""Names of time zones in Java's notation."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import splitlib
from splitlib.arrow.values import arrow_zone, in_zone, is_east, is_known

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
OFFSETS = pytest.mark.skipif(not is_known("+00:30"), reason="this pyarrow has no offsets as zones")

HALF_HOUR = [pytest.param(zone, marks=OFFSETS) for zone in ("+00:30", "-00:30")]


def names(*pairs: tuple[str, str]):
    """Mark the names that stand for offsets."""
    return [pytest.param(*p, marks=OFFSETS if p[1].startswith(("+", "-")) else ()) for p in pairs]


@pytest.mark.parametrize(("short", "zone"), names(*zip(NAMES[::2], NAMES[1::2], strict=True)))
def test_short_names(short, zone):
    assert arrow_zone(short) == zone


@pytest.mark.parametrize(
    ("java", "arrow"),
    names(
        ("Z", "UTC"),
        ("UT", "UTC"),
        ("UTC", "UTC"),
        ("+8", "+08:00"),
        ("-03:30", "-03:30"),
        ("UTC+1", "+01:00"),
        ("GMT-0530", "-05:30"),
        ("UT+05:30:00", "+05:30"),
        ("Europe/Berlin", "Europe/Berlin"),
    ),
)
def test_other_names(java, arrow):
    assert arrow_zone(java) == arrow


@pytest.mark.parametrize(("zone", "hours"), [("+08:00", 8), ("EST", -5), ("UTC-3", -3), ("+0", 0)])
def test_offsets_of_hours_need_no_new_arrow(zone, hours):
    epoch = pa.array([0], pa.timestamp("s", arrow_zone(zone)))
    assert pc.local_timestamp(epoch).cast(pa.int64()).to_pylist() == [hours * 3600]


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
    assert in_zone(fields, "JST").types == [
        pa.timestamp("us", "Asia/Tokyo"),
        pa.timestamp("us"),
        pa.int64(),
    ]


@pytest.mark.parametrize("zone", ["Asia/Tokyo", HALF_HOUR[0], "Europe/Berlin", "Pacific/Auckland"])
def test_east_of_greenwich(zone):
    assert is_east(zone)


@pytest.mark.parametrize("zone", ["UTC", "Z", "Europe/London", "America/New_York", HALF_HOUR[1]])
def test_not_east_of_greenwich(zone):
    assert not is_east(zone)
