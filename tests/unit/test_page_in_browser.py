"""Reports, tables and audits in a real browser: nothing overflows, and everything is legible.

``make docs``, and so ``make check`` and ``.ci/run``, runs these tests if a browser is installed.
No target installs one: it is a package of the system, such as Debian's ``chromium``, and its
installation needs root. Without a browser, pytest reports the tests as skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from splitlib import page
from splitlib.report import Count, FilterUse, PartitionRange, Report
from splitlib.spark.audit import Audit, AuditedJoin, AuditedQuery, AuditedTable
from tests.documents.browser import PROGRAM, Browser

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium or Chrome: apt-get install chromium"),
]

LONG = "a_name_without_any_space_" * 20
SCAN = Report(
    f"lake.db.{LONG}",
    (FilterUse(("day",), "30 values", 240, 0.2), FilterUse((LONG,), LONG, unused_because=LONG)),
    Count(30, 100_000),
    Count(60, 200_000),
    Count(3 << 30, 5 << 40),
    reasons=(f"the condition {LONG} is no comparison.", "short."),
    notes=(LONG,),
    condition=LONG * 9,
    row_groups=Count(7, 240),
    ranges=tuple(
        PartitionRange(f"day={LONG}{number}", f"day={LONG}{number + 1}", number % 2, 834)
        for number in range(120)
    ),
)
SMALL = Report(
    "db.sales",
    (FilterUse(("day",), "7 values", 28, 0.2),),
    Count(1, 3),
    Count(2, 6),
    ranges=(PartitionRange("day=1", "day=2", 0, 2), PartitionRange("day=3", "day=3", 1, 1)),
)
TABLE = page.table(("column", "type", "role"), [(LONG, LONG, "partition key"), ("x", "int64", "")])
AUDIT = Audit(
    (
        AuditedQuery(
            f"queries/{LONG}.sql#1",
            (
                AuditedTable(
                    f"lake.db.{LONG}",
                    ("day", LONG),
                    (
                        AuditedJoin(f"{LONG} = d.id", True, f"its keys prune by {LONG}."),
                        AuditedJoin("f.s = d.id", False, LONG, ("s", LONG)),
                    ),
                    Count(30, 100_000),
                    Count(60),
                    Count(3 << 30, 5 << 40),
                ),
                AuditedTable("db.sales", (), (AuditedJoin("", False, "not by s.", ("s",)),)),
            ),
        ),
        AuditedQuery("q2", reason=f"ParseException: {LONG}", is_error=True),
        *(AuditedQuery(f"q{number}", reason="no join.") for number in range(3, 30)),
    )
)
PAGES = {
    "report": Report(scans=(SCAN, SMALL, replace(SMALL, ranges=()))).to_html(),
    "condition": Report(condition=LONG, filters=SCAN.filters).to_html(),
    "audit": AUDIT.to_html(),
    "table": page.document(LONG, page.widget(page.section(LONG, TABLE))),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as started:
        yield started


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("shown", PAGES)
def test_pages(browser: Browser, shown: str, width: int, dark: bool) -> None:
    browser.show(PAGES[shown], width=width, dark=dark)
    problems = browser.problems()
    assert problems["found"] == []
    assert problems["dark"] is dark
    assert problems["texts"] > 500


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ("<p style='width:2000px'>wide</p>", "P is wider than the page"),
        (f"<p>{LONG}</p>", f"outside of the page: {LONG[:40]}"),
        ("<table><th style='overflow-wrap:anywhere;width:1px'>head",
         "a line breaks inside of a heading: head"),
        ("<p style='color:#888'>grey</p>", "contrast 3.5: grey"),
        ("<p style='opacity:.5'>faint</p>", "contrast 4.0: faint"),
        ("<i class=read style='background:#ccc'></i><i style='background:#bbb'></i>",
         "parts of a bar look the same"),
    ],
)  # fmt: skip
def test_the_browser_finds_problems(browser: Browser, html: str, problem: str) -> None:
    browser.show(f"<!doctype html><body>{html}", width=400, dark=False)
    assert problem in browser.problems()["found"]
