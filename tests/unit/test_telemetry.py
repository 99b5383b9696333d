"""Logs, callbacks and spans of planning."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib.redaction import get_logger
from splitlib.report import Count, Report, summary
from splitlib.telemetry import reported, traced

SALES = Report("db.sales", partitions=Count(3, 100), files=Count(7), nbytes=Count(2048))
STORES = Report("db.stores", partitions=Count(None, 9), reasons=("the table is small.",))
QUERY = Report(scans=(SALES, STORES), seconds=0.5, catalog_requests=2, storage_requests=3)


@pytest.fixture
def table(tmp_path: Path):
    for day in range(4):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"v": [day]}), tmp_path / f"day={day}" / "part.parquet")
    with splitlib.load_table(
        str(tmp_path), connector="files", partition_schema="day int"
    ) as opened:
        yield opened


@pytest.fixture
def spans(monkeypatch):
    """Record the spans of a test, and return the function that lists them."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # The provider of a process can be set only once, and other tests must not record spans.
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter.get_finished_spans


def enumerated(table) -> None:
    enumerator = splitlib.DynamicFileEnumerator(table)
    enumerator.set_dynamic_filtering_data({"day": [1, 2]})
    assert len(list(enumerator.enumerate_splits())) == 2


def test_a_package_has_one_logger():
    one, other = get_logger("splitlib.storage.pages"), get_logger("splitlib.storage.s3")
    assert one is other
    assert one.name == "splitlib.storage"
    assert get_logger("splitlib").name == "splitlib"


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (SALES, "db.sales: partitions 3 of 100, files 7, 2.0 KiB"),
        (
            QUERY,
            "query (0.50 s): db.sales: partitions 3 of 100, files 7, 2.0 KiB; db.stores: "
            "partitions 9 or fewer by the conditions of the query: joins "
            "leave out none, not pruned: the table is small.",
        ),
        (
            Report(reasons=("the query has no join.",)),
            "query: no scan to prune, left to Spark: the query has no join.",
        ),
        (Report("db.t", condition="`k` IN (1)"), "db.t: pruned by a condition"),
    ],
)
def test_a_report_as_one_line(report, line):
    assert summary(report) == line


def test_info_has_a_line_for_each_plan_and_debug_the_report(table, caplog):
    with caplog.at_level(logging.INFO, "splitlib"):
        enumerated(table)
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("INFO", "splitlib")
    assert "partitions 2 of 4, files 2" in record.getMessage()
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "splitlib"):
        reported(lambda: QUERY)
    assert [r.getMessage() for r in caplog.records] == [summary(QUERY), str(QUERY)]


def test_without_a_receiver_no_report_is_made():
    reported(lambda: pytest.fail("a report was made"))


@pytest.mark.parametrize("how", ["splits", "paths", "files", "rows"])
def test_a_callback_gets_the_report_of_each_enumeration(table, how):
    ways = {
        "splits": lambda: enumerated(table),
        "paths": lambda: splitlib.paths(table, {"day": [1, 2]}),
        "files": lambda: table.files({"day": [1, 2]}),
        "rows": lambda: table.to_arrow_dataset({"day": [1, 2]}).count_rows(),
    }
    received: list[Report] = []
    stop = splitlib.on_report(received.append)
    try:
        ways[how]()
    finally:
        stop()
    stop()
    ways[how]()
    (report,) = received
    assert report.partitions == Count(2, 4)


def test_an_error_in_a_callback_is_logged(caplog):
    def fail(report):
        raise RuntimeError("no server of metrics")

    received: list[Report] = []
    stops = [splitlib.on_report(fail), splitlib.on_report(received.append)]
    reported(lambda: QUERY)
    for stop in stops:
        stop()
    assert received == [QUERY]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "no server of metrics" in record.exc_text


def test_spans_have_the_counts_of_the_report(spans):
    with traced("sql"):
        with traced("prune_table", table="db.sales"):
            pass
        reported(lambda: QUERY)
    child, parent = spans()
    assert (child.name, parent.name) == ("splitlib.prune_table", "splitlib.sql")
    assert child.parent.span_id == parent.context.span_id
    assert dict(child.attributes) == {"splitlib.table": "db.sales"}
    assert dict(parent.attributes) == {
        "splitlib.tables": "db.sales, db.stores",
        "splitlib.partitions.matched": 3,
        "splitlib.partitions.total": 109,
        "splitlib.files.matched": 7,
        "splitlib.nbytes.matched": 2048,
        "splitlib.catalog_requests": 2,
        "splitlib.storage_requests": 3,
    }


def test_a_span_of_an_error_has_no_message(spans):
    with pytest.raises(OSError, match="password"), traced("load"):
        raise OSError("wrong password: hunter2")
    (span,) = spans()
    assert span.status.description == "OSError"
    assert "hunter2" not in span.to_json()


def test_an_enumeration_does_not_change_the_span_of_its_consumer(table, spans):
    from opentelemetry import trace

    before = trace.get_current_span()
    for _ in splitlib.DynamicFileEnumerator(table).enumerate_splits():
        assert trace.get_current_span() is before
    (span,) = spans()
    assert span.name == "splitlib.enumerate"
    assert span.attributes["splitlib.table"] == table.name


def test_without_opentelemetry_nothing_is_imported():
    code = (
        "import sys; from splitlib.telemetry import traced\n"
        "with traced('load'): assert not any('opentelemetry' in name for name in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
