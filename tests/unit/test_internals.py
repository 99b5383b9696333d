"""Spark's internals stay in one folder: read from the source."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "splitlib"
LAYER = SOURCE / "spark" / "jvm"
INTERNALS = re.compile(
    r"\b(_jdf|_jvm|_jsc|_jc|_jsparkSession|_gateway|py4j|Py4J\w*)\b|\borg\.apache\.(spark|hadoop)\b"
)
EXCEPTIONS = {
    # keys in the footer of a Parquet file, which Spark writes: part of the format
    "reading/parquet.py",
    "hive/file_types.py",
    # names of classes as a catalog records them: what a table is read by
    "hive/table_formats.py",
    # a metastore runs in a JVM of its own, and Spark's counters are for tests and benchmarks
    "testing/hive_metastore.py",
    "testing/spark_counts.py",
    "testing/bulk_partitions.py",
}


def code_of(path: Path) -> str:
    """The source without comments, docstrings and other strings that stand alone."""
    kept = []
    line_begins = True
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        alone = token.type == tokenize.STRING and line_begins
        if token.type != tokenize.COMMENT and not alone:
            kept.append(token.string)
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            line_begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return " ".join(kept).replace(" . ", ".")


FILES = {
    str(path.relative_to(SOURCE)): path
    for path in sorted(SOURCE.rglob("*.py"))
    if LAYER not in path.parents
}


@pytest.mark.parametrize("name", sorted(FILES.keys() - EXCEPTIONS))
def test_internals_of_spark_are_used_in_one_folder(name):
    assert INTERNALS.findall(code_of(FILES[name])) == []


@pytest.mark.parametrize("name", sorted(EXCEPTIONS))
def test_exceptions_are_still_needed(name):
    assert INTERNALS.search(code_of(FILES[name]))


def test_what_is_looked_for_is_found():
    layer = [path for path in LAYER.rglob("*.py") if INTERNALS.search(code_of(path))]
    assert len(layer) > 5
