"""The Python examples of the README and of the pages in ``docs/``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
RUN_WITH_SPARK: Final = (
    "README.md",
    "docs/guides/audit.md",
    "docs/guides/commands.md",
    "docs/guides/data-columns.md",
    "docs/guides/directories.md",
    "docs/guides/from-in.md",
    "docs/guides/monitoring.md",
    "docs/guides/queries.md",
    "docs/guides/reader.md",
    "docs/guides/streaming.md",
    "docs/guides/thresholds.md",
    "docs/not-pruned.md",
    "docs/start.md",
)
"""Documents with examples that ``tests/integration/test_readme.py`` runs."""
NEEDS_DATA_SOURCES: Final = "docs/guides/streaming.md"
"""Document with examples of the data source in Python, which Spark 3.5 does not have."""
RUN_OVER_CONNECT: Final = ("docs/guides/connect.md",)
"""Documents with examples that the same test runs on a Spark Connect server."""
RUN_WITHOUT_SPARK: Final = ("docs/guides/without-spark.md",)
"""Documents with examples that ``tests/unit/test_documents.py`` runs."""
RUN_ELSEWHERE: Final = ("docs/connectors.md", "docs/rows.md")
"""Documents with examples that other tests run."""
TABLES: Final = (
    "CREATE DATABASE tpcds",
    "CREATE TABLE tpcds.store_sales (ss_store_sk INT, ss_quantity INT) "
    "PARTITIONED BY (ss_sold_date_sk INT) STORED AS PARQUET",
    "INSERT INTO tpcds.store_sales SELECT id % 3, id, 2451540 + id % 20 FROM range(100)",
    "CREATE TABLE tpcds.date_dim USING parquet AS "
    "SELECT CAST(2451540 + id AS INT) AS d_date_sk, if(id < 40, 2000, 2001) AS d_year, "
    "CAST(id / 7 AS INT) AS d_week_seq, "
    "if(id < 40 AND id % 5 = 0, 'Y', 'N') AS d_following_holiday FROM range(2000)",
)
"""Statements that create the tables of the examples."""


def blocks(document: str, language: str = "python") -> list[str]:
    """Return the fenced blocks of a language. Blocks of ``py`` need a service, and are not run."""
    text = (ROOT / document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run(document: str, names: dict[str, Any], replaced: dict[str, str] | None = None) -> None:
    """Run the examples of a document one after the other, in one namespace.

    Args:
        document: Path of the document in the repository.
        names: The namespace.
        replaced: Texts to replace in the examples, such as the address of a server.
    """
    for number, block in enumerate(blocks(document), 1):
        text = block
        for old, new in (replaced or {}).items():
            text = text.replace(old, new)
        exec(compile(text, f"{document}, example {number}", "exec"), names)
