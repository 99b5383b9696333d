"""Audit the 99 TPC-DS queries, and write the page ``docs/tpcds.md`` about them."""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.session import spark_session
from benchmarks.tpcds.catalog import create_tables
from benchmarks.tpcds.data import prepare
from benchmarks.tpcds.queries import load_queries
from benchmarks.tpcds.settings import SESSION
from splitlib.spark.audit import Audit, AuditedQuery, AuditedTable, audit
from splitlib.testing import HiveMetastore

_DATABASE: Final = "tpcds"
_PAGE: Final = Path(__file__).parents[2] / "docs" / "tpcds.md"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tpcds.audit", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-DS scale factor (1)")
    parser.add_argument("--directory", type=Path, help="where data is kept (a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="splitlib-tpcds-") as temporary:
        directory = (options.directory or Path(temporary)).absolute()
        found = _audited(directory, options.scale)
    _PAGE.write_text(page(found, options.scale), encoding="utf-8")


def _audited(directory: Path, scale: float) -> Audit:
    data = prepare(directory, scale)
    with data.duckdb() as duckdb:
        queries = load_queries(duckdb)
    with (
        HiveMetastore(heap_megabytes=1024) as metastore,
        tempfile.TemporaryDirectory(prefix="splitlib-tpcds-spark-") as scratch,
        spark_session(Path(scratch), {**metastore.spark_conf(), **SESSION}) as spark,
    ):
        create_tables(spark, metastore, data, _DATABASE)
        spark.catalog.setCurrentDatabase(_DATABASE)
        return audit(spark, {queries[n].name: queries[n].spark for n in sorted(queries)})


def page(found: Audit, scale: float) -> str:
    """Return the page of an audit, as Markdown."""
    return "\n".join(line.rstrip() for line in _lines(found, scale)) + "\n"


def _lines(found: Audit, scale: float) -> Iterator[str]:
    pruned = sum(table.can_be_pruned for table in found.tables)
    without = [query.name for query in found.queries if not query.tables and not query.is_error]
    failed = [query.name for query in found.queries if query.is_error]
    yield f"<!-- written by python -m benchmarks.tpcds.audit --scale {scale:g} -->"
    yield ""
    yield "# Audit of TPC-DS"
    yield ""
    yield f"[`splitlib.audit`](guides/audit.md) of the {len(found.queries)} queries of TPC-DS at "
    yield f"scale {scale:g}. The fact tables are partitioned by day, the dimensions are not. "
    yield "The queries did not run: partitions are counted by their names in the catalog."
    yield ""
    yield f"- Joins can prune **{pruned} of {len(found.tables)}** uses of a table in a query."
    yield "- Nothing to prune, because no join compares a large table with another one: "
    yield f"{', '.join(without) or 'no query'}."
    yield f"- Not audited because of an error: {', '.join(failed) or 'no query'}."
    yield ""
    yield "To make this page again, which generates the data:"
    yield ""
    yield "```console"
    yield f"$ python -m benchmarks.tpcds.audit --scale {scale:g}"
    yield "```"
    yield ""
    yield "For your own queries, write `splitlib audit QUERY.sql`: see [Audit](guides/audit.md)."
    yield ""
    yield "## Why the others are not pruned"
    yield ""
    yield "| reason and remedy | uses of a table |"
    yield "|---|---|"
    for reason, number in _reasons(found).most_common():
        yield f"| {_cell(reason)} | {number} |"
    yield ""
    yield "[Why was my query not pruned?](not-pruned.md) explains the reasons."
    yield ""
    yield "## By query"
    yield ""
    yield "| query | table | partitions that joins need, of those that the query reads | joins |"
    yield "|---|---|---|---|"
    for query in found.queries:
        yield from _rows(query)


def _reasons(found: Audit) -> Counter[str]:
    """Count the reasons of the tables that no join prunes, one per reason and table."""
    return Counter(
        reason
        for table in found.tables
        if not table.can_be_pruned
        for reason in dict.fromkeys(join.reason for join in table.joins)
    )


def _rows(query: AuditedQuery) -> Iterator[str]:
    if query.reason is not None:
        yield f"| {query.name} | | | {_cell(query.reason)} |"
    for table in query.tables:
        joins = "<br>".join(
            f"{'prunes' if join.can_prune else 'does not prune'}: `{_cell(join.condition)}`"
            for join in table.joins
            if join.condition
        )
        name = table.table.rpartition(".")[2]
        yield f"| {query.name} | {name} | {_partitions(table)} | {joins} |"


def _partitions(table: AuditedTable) -> str:
    kept, read = table.partitions
    if not table.can_be_pruned:
        return "not pruned"
    if kept is None:
        return f"fewer than {read:,}" if read is not None else "by a condition"
    return f"{kept:,} of {read:,}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
