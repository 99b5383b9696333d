"""Take the pictures of reports in ``docs/``: ``python -m tests.documents.screenshots``.

It needs Chromium or Chrome, such as Debian's package ``chromium``, and neither Java nor Spark.
"""

from __future__ import annotations

import os
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

import splitlib
from tests.documents.browser import Browser
from tests.documents.examples import DOCS

PICTURES: Final = {
    "report-light.png": ("keys", 900, False),
    "report-dark.png": ("keys", 900, True),
    "report-narrow.png": ("keys", 400, True),
    "range-light.png": ("range", 900, False),
    "range-dark.png": ("range", 900, True),
}
"""For each picture: its report, its width in pixels, and whether it is dark."""


def reports(directory: Path) -> dict[str, splitlib.Report]:
    """Write a table of 115 days, and return reports on reads of its Sundays in March."""
    days = [date(2026, 1, 1) + timedelta(number) for number in range(115)]
    for day in days:
        (directory / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"user": range(1000)}), directory / f"day={day}" / "0.parquet")
    sundays = [day for day in days if day.month == 3 and day.isoweekday() == 7]
    keys = splitlib.DynamicFilteringData.from_values({"day": sundays})
    least_and_greatest = splitlib.DynamicFilteringData.from_range(
        {"day": (sundays[0], sundays[-1])}
    )
    found = {}
    for name, data in {"keys": keys, "range": least_and_greatest}.items():
        with splitlib.load_table(str(directory), "files") as table:
            enumerator = splitlib.DynamicFileEnumerator(table)
            enumerator.set_dynamic_filtering_data(data)
            assert list(enumerator.enumerate_splits())
            found[name] = enumerator.explain()
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, Browser() as browser:
        os.chdir(scratch)  # the report shows the path of the table
        taken = reports(Path("clicks"))
        for name, (report, width, dark) in PICTURES.items():
            browser.show(taken[report].to_html(), width=width, dark=dark)
            (DOCS / name).write_bytes(browser.picture())
