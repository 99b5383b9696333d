"""Rule: only ``splitlib/spark/jvm`` uses the internals of Spark."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "splitlib"
LAYER = SOURCE / "spark" / "jvm"
INTERNALS = re.compile(
    r"\b(_jdf|_jvm|_jsc|_jc|_jsparkSession|_gateway|py4j|Py4J\w*)\b|\borg\.apache\.(spark|hadoop)\b"
)
EXCEPTIONS = {
    # keys that Spark writes into the footer of a Parquet file: part of the file format
    "reading/formats.py",
    "hive/file_types.py",
    # class names that a catalog stores to identify a table's format
    "hive/entries.py",
    # class names that are values of Hadoop's settings for credentials
    "storage/clouds.py",
    "storage/s3.py",
    # replaces public functions that an older PySpark lacks
    "spark/compat.py",
    # the test metastore has its own JVM, and only tests and benchmarks read Spark's counters
    "testing/hive_metastore.py",
    "testing/spark_counts.py",
    "testing/bulk_partitions.py",
}


def code_of(path: Path) -> str:
    """Return the source without comments and docstrings."""
    kept = []
    line_begins = True
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        alone = token.type == tokenize.STRING and line_begins
        if token.type != tokenize.COMMENT and not alone:
            kept.append(token.string)
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            line_begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return " ".join(kept).replace(" . ", ".")


def problems() -> Iterator[str]:
    """Yield uses of Spark's internals in other packages, and exceptions that are not needed."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        found = sorted({match[0] for match in INTERNALS.finditer(code_of(path))})
        if name in EXCEPTIONS and not found:
            yield f"{name} is an exception without need"
        elif found and name not in EXCEPTIONS and LAYER not in path.parents:
            yield f"{name} uses {', '.join(found)}"
