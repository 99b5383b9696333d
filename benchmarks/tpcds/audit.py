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
from benchmarks.tpcds.tables import FACTS
from splitlib.report import size_text
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
        for fact in FACTS:  # Without the table's size, the audit does not compare bytes.
            spark.sql(f"ANALYZE TABLE {fact} COMPUTE STATISTICS NOSCAN")
        texts = {queries[n].name: queries[n].spark for n in sorted(queries)}
        return audit(spark, texts, files=True)


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
    yield "The queries did not run: partitions are counted by their names in the catalog. "
    yield "Bytes with pruning are those of the listed files. Bytes without pruning are the size of "
    yield "the table in the catalog, in proportion to the partitions that the query reads."
    yield ""
    yield f"- Joins can prune **{pruned} of {len(found.tables)}** uses of a table in a query."
    yield f"- {_bytes_of_all(found)}"
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
    yield from _lines_on_others(found)
    yield ""
    yield "## By query"
    yield ""
    yield "Partitions and bytes are those that the query reads with pruning, of those without it."
    yield ""
    yield "| query | table | partitions | bytes | joins |"
    yield "|---|---|---|---|---|"
    for query in found.queries:
        yield from _rows(query)


def _lines_on_others(found: Audit) -> Iterator[str]:
    yield "## Columns that would help the others"
    yield ""
    yield "The last column counts the queries in which no join prunes the table. A join could, if "
    yield "the table were partitioned or clustered by the column."
    yield ""
    yield "| table | column | queries |"
    yield "|---|---|---|"
    for (table, column), number in found.fixes.items():
        yield f"| {_short(table)} | {column} | {number} |"
    yield ""
    yield "## Other reasons not to prune"
    yield ""
    yield "| reason and remedy | uses of a table |"
    yield "|---|---|"
    for reason, number in _reasons(found).most_common():
        yield f"| {_cell(reason)} | {number} |"
    yield ""
    yield "[Why was my query not pruned?](not-pruned.md) explains the reasons."


def _reasons(found: Audit) -> Counter[str]:
    """Count the tables without pruning by reason, except for reasons that a column would mend."""
    return Counter(
        reason
        for table in found.tables
        if not table.can_be_pruned
        for reason in dict.fromkeys(join.reason for join in table.joins if not join.fix)
    )


def _bytes_of_all(found: Audit) -> str:
    """Compare the bytes read with and without pruning, where the audit collected the keys."""
    pruned = [table for table in found.tables if table.can_be_pruned]
    pairs = [(t.nbytes.matched, t.nbytes.total) for t in pruned]
    known = [(need, read) for need, read in pairs if need is not None and read is not None]
    need, read = (size_text(sum(pair[side] for pair in known)) for side in (0, 1))
    return f"In {len(known)} of these uses, whose keys were collected, {need} of {read} are read."


def _rows(query: AuditedQuery) -> Iterator[str]:
    if query.reason is not None:
        yield f"| {query.name} | | | | {_cell(query.reason)} |"
    for table in query.tables:
        joins = "<br>".join(
            f"{'prunes' if join.can_prune else 'does not prune'}: `{_cell(join.condition)}`"
            for join in table.joins
            if join.condition
        )
        name, nbytes = _short(table.table), _bytes(table)
        yield f"| {query.name} | {name} | {_partitions(table)} | {nbytes} | {joins} |"


def _partitions(table: AuditedTable) -> str:
    kept, read = table.partitions
    if not table.can_be_pruned:
        return "not pruned"
    if kept is None:
        return f"fewer than {read:,}" if read is not None else "by a condition"
    return f"{kept:,} of {read:,}"


def _bytes(table: AuditedTable) -> str:
    need, read = table.nbytes
    if not table.can_be_pruned:
        return "" if read is None else size_text(read)
    return "" if need is None or read is None else f"{size_text(need)} of {size_text(read)}"


def _short(table: str) -> str:
    return table.rpartition(".")[2]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    main()
