"""Mistakes on the command line end in one line on standard error."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from splitlib.cli import main


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("plan ''", "No table is named. Hint: write db.table, or a path with -c files."),
        ("plan table/day=1/kind=a/0.parquet", "pass the directory of the table"),
        ("plan table -o frmat=orc", "Hint: did you mean 'format'?"),
        ("plan table -o format=orc", "Hint: pass -o format=parquet."),
        ("plan table -o partition_schema=", "A schema is empty."),
        ("plan table -c ''", "There is no connector ''."),
        ("plan table --keys ''", "'' cannot be read: No such file or directory."),
        ("plan table --set max_partitions=", "max_partitions must be int, not ''."),
        ("plan table --set max_partitions=1", "Hint: filter more, or raise --set max_partitions="),
        ("plan table --set target_split_bytes=0", "target_split_bytes must be at least 1, not 0."),
        ("export table --to ''", "--to names no directory."),
        ("config --set listing_threads=0", "listing_threads must be at least 1, not 0."),
        ("config --set spark_scan=pinnd", "spark_scan must be one of auto, pinned, paths"),
        ("tables -c files none", "There is no directory 'none'."),
        ("tables lakehouse", "Hint: none is named. Write --uri thrift://host:9083"),
    ],
)
def test_one_line(
    table: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    message: str,
) -> None:
    monkeypatch.chdir(table.parent)
    assert main(shlex.split(command)) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert message in errors


def test_errors_of_spark(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: Any = pytest.importorskip("pyspark.errors")

    def spark_session(*_: object) -> None:
        raise errors.AnalysisException("\n[PARSE_SYNTAX_ERROR] Syntax error.\n\n== SQL ==\nday =")

    monkeypatch.setattr("splitlib.cli.arguments.spark_session", spark_session)
    assert main(["analyze", str(table), "--where", "day ="]) == 2
    assert capsys.readouterr().err == "error: [PARSE_SYNTAX_ERROR] Syntax error.\n"
