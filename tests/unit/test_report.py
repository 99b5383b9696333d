"""The report of ``explain`` as text, HTML and values for JSON."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest

from splitlib.enumeration.tally import PartitionRanges
from splitlib.model import PartitionBatch
from splitlib.report import Count, FilterUse, PartitionRange, Report, ScanMetrics, size_text, strip

EVIL = "<script>alert('&')</script>"

RANGES = (
    PartitionRange("day=1", "day=1", 0, 1),
    PartitionRange("day=2", "day=2", 1, 1),
    PartitionRange("day=3", "day=3", 0, 1),
)
OF_QUERY = Report(
    scans=(
        Report(
            "db.sales",
            (FilterUse(("day",), "1 value", 8, 0.25),),
            Count(1, 3),
            Count(2, 6),
            Count(2048, 3 << 20),
            ranges=RANGES,
        ),
        Report("db.items", partitions=Count(None, 1200), reasons=("it has no join keys.",)),
        Report("db.unread", partitions=Count(0)),
    ),
    notes=("files listed at run time: db.text",),
    seconds=0.5,
    catalog_requests=2,
)

TEXT = """\
query (0.50 s)
├─ catalog requests 2, storage requests 0
├─ note: files listed at run time: db.text
├─ db.sales
│  ├─ filter day: 1 value (8 B, 0.25 s)
│  ├─ partitions 1 of 3
│  └─ files 2 of 6, 2.0 KiB of 3.0 MiB
├─ db.items
│  ├─ partitions 1,200 or fewer by the conditions of the query: joins leave out none
│  └─ not pruned: it has no join keys.
└─ db.unread
   └─ not read: the result does not depend on its rows"""


def test_a_query_is_a_tree_of_its_scans() -> None:
    assert str(OF_QUERY) == TEXT


def test_html_has_the_lines_of_the_text() -> None:
    html = OF_QUERY._repr_html_()
    for line in TEXT.splitlines():
        assert f">{line.lstrip('│├└─ ')}<" in html
    assert html.count('style="flex:1"') == 3
    assert (
        '<span>day=1</span><span>day=3</span></div><p class="names"><span>day=2</span></p>' in html
    )
    assert html in OF_QUERY.to_html()


def test_values_for_json() -> None:
    values = json.loads(json.dumps(OF_QUERY.to_dict()))
    assert values["scans"][0]["partitions"] == {"matched": 1, "total": 3}
    assert values["scans"][0]["filters"][0]["fields"] == ["day"]
    assert values["scans"][0]["metrics"] == {}
    of_table = Report("t", connector="memory", metrics=ScanMetrics(seconds={"match": 0.5}))
    assert of_table.to_dict()["metrics"]["seconds"] == {"match": 0.5}


@pytest.mark.parametrize("connector", ["", EVIL])
def test_all_text_is_escaped_in_html(connector: str) -> None:
    used = FilterUse((EVIL,), EVIL, unused_because=EVIL)
    report = Report(
        EVIL,
        (used, FilterUse((EVIL,), EVIL, used_fields=(EVIL,), unused_because=EVIL)),
        asked_for=EVIL,
        condition=EVIL,
        ranges=(PartitionRange(EVIL, EVIL, 1, 2),),
        reasons=(EVIL,),
        notes=(EVIL,),
        connector=connector,
        partition_keys=(EVIL,),
        files=Count(1),
        metrics=ScanMetrics(files_dropped={EVIL: 1}),
    )
    for html in (Report(scans=(report,))._repr_html_(), report.to_html()):
        assert "<script" not in html
        assert html.count("&lt;script&gt;") > str(report).count("<script>")


def test_neighbours_are_joined_while_there_are_too_many_ranges() -> None:
    ranges = PartitionRanges()
    for _ in range(2):
        names = pa.array([f"{k}" for k in range(120)])
        batch = PartitionBatch(pa.record_batch({"k": names}), names)
        ranges.add(batch, pa.array([k % 4 < 2 for k in range(120)]))
    found = ranges.found()
    assert [(each.read, each.total) for each in found] == [(2, 2), (0, 2)] * 60
    names = [(each.first, each.last) for each in found]
    assert names == [(f"k={k}", f"k={k + 1}") for k in range(0, 120, 2)] * 2


def test_html_is_bounded_and_loads_nothing() -> None:
    kept = np.arange(100_000) % 1000 == 0
    ranges = PartitionRanges()
    for start in range(0, 100_000, 7_001):
        names = pa.array([f"{k:0>200}" for k in range(start, min(start + 7_001, 100_000))])
        batch = PartitionBatch(pa.record_batch({"k": names}), names)
        ranges.add(batch, pa.array(kept[start : start + 7_001]))
    found = ranges.found()
    assert sum(each.total for each in found) == 100_000
    assert sum(each.read for each in found) == 100
    report = Report("t", ranges=found, notes=("x" * 100_000,), condition="y" * 100_000)
    html = report.to_html()
    assert len(html) < 120_000
    assert not re.search(r"https?:|url\(|@import|src=", html)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (FilterUse(("k",), "3 values"), "filter k: 3 values"),
        (FilterUse(("k",), "3 values", 24, partitions_dropped=1000),
         "filter k: 3 values (24 B) - drops 1,000 partitions"),
        (FilterUse(("k",), "keys", unused_because="why"), "filter k: keys - not used: why"),
        (FilterUse(("k", "x"), "keys", used_fields=("k",), unused_because="why"),
         "filter k, x: keys (partly unused: why)"),
        (FilterUse(("k",), "Bloom filter", rows=Count(9, 2000)),
         "filter k: Bloom filter - keeps 9 of 2,000 sampled rows"),
    ],
)  # fmt: skip
def test_filters(use: FilterUse, text: str) -> None:
    assert str(use) == text
    assert use.is_used is ("not used" not in text)


def test_partitions_that_were_not_requested_are_not_counted_as_dropped() -> None:
    use = FilterUse(("k",), "3 values", used_fields=("k",), partitions_dropped=0)
    by_name = Report("t", (use,), Count(8), asked_for="by the start of their names")
    assert str(by_name).splitlines()[1:] == [
        "├─ filter k: 3 values",
        "└─ partitions 8 (requested by the start of their names, so the number of all partitions "
        "is unknown)",
    ]
    assert "drops 0 of 8 partitions" in str(Report("t", (use,), Count(8, 8)))
    dropped = Report(
        "t",
        (FilterUse(("k",), "3 values", used_fields=("k",), partitions_dropped=3),),
        Count(8),
        asked_for="by name",
        metrics=ScanMetrics(partitions_total=11),
    )
    assert str(dropped).splitlines()[1:] == [
        "├─ filter k: 3 values - drops 3 of 11 returned partitions",
        "└─ partitions 8 (requested by name, so the number of all partitions is unknown; 3 others "
        "were returned too)",
    ]


@pytest.mark.parametrize(
    ("without_joins", "line"),
    [
        (1, "partitions 1 of 100 by the conditions of the query: joins leave out none"),
        (100, "partitions 100 of 100: joins leave out none"),
        (None, "partitions 100 or fewer by the conditions of the query: joins leave out none"),
    ],
)
def test_partitions_that_conditions_leave_out_are_not_counted_as_read(without_joins, line):
    report = Report("t", partitions=Count(None, 100), without_joins=without_joins)
    assert str(report).splitlines()[1:] == [f"└─ {line}"]
    assert not report.is_pruned


def test_a_long_condition_is_cut() -> None:
    (line,) = str(Report("t", condition="k" * 1000)).splitlines()[1:]
    assert line == f"└─ added condition: {'k' * 200} …"


def test_the_strip_shows_where_the_kept_partitions_are() -> None:
    assert strip([False, True, False]) == "·█·"
    assert strip([]) == ""
    ends = [i in (0, 999) for i in range(1000)]
    assert strip(ends, 60) == "█" + "·" * 58 + "█"
    assert strip([True] * 1000) == "█" * 120


def test_sizes() -> None:
    sizes = [0, 1023, 1024, 3 << 19, 5 << 29, 9 << 39]
    assert [size_text(n) for n in sizes] == [
        "0 B", "1023 B", "1.0 KiB", "1.5 MiB", "2.5 GiB", "4.5 TiB"
    ]  # fmt: skip


def test_a_filter_that_prunes_nothing_by_mistake_comes_first():
    mistake = "a filter prunes nothing: The table has no column 'dya'."
    report = Report("db.t", partitions=Count(3, 9), notes=("listed one by one", mistake))
    assert str(report).splitlines()[1] == f"├─ {mistake}"
    assert str(report).count(mistake) == 1
    assert str(report).splitlines()[-1] == "└─ note: listed one by one"
