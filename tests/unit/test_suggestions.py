"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest

from splitlib.errors import did_you_mean, nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    {"dya": "Day", "DAYS": "Day", "Store": "store", "colour": None, "": None}.items(),
)
def test_the_nearest_name(name, meant):
    assert nearest(name, ["Day", "store"]) == meant


def test_how_near_is_for_the_caller_to_say():
    assert nearest("uri", ["url"]) == "url"
    assert nearest("uri", ["url"], similarity=0.8) is None


def test_the_hint():
    assert did_you_mean("dya", ["day", "store"]) == "did you mean 'day'?"
    assert did_you_mean("x", (n for n in ["day", "store"])) == "available: day, store."
    assert did_you_mean("x", ["day"], otherwise="known are") == "known are day."
