"""Mistakes on the command line end in one line on standard error."""

from __future__ import annotations

import io
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from splitlib.cli import main
from tests.unit.cli.command_line import start


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
        ("partitions tabel", "There is no directory 'tabel'."),
        ("plan table -o max_partitions=1", "it is a setting of SplitConfig: use --set max_parti"),
        ("plan table --set target_split_bytes=1.5g", "write a whole number, such as 1000, or 64m"),
        ("plan table --set filter_wait_seconds=5s", "write a number without a unit, such as 0.5."),
        ("plan table --range day=2..1", "--range 'day=2..1' contains no value."),
        ("plan table --filter day=null", "Hint: null is written __HIVE_DEFAULT_PARTITION__."),
        ("plan table --keys semicolons.csv", "Hint: separate the columns by commas."),
        ("tables -c files none", "There is no directory 'none'."),
        ("tables lakehouse", "Hint: no catalog is named. Write --uri thrift://host:9083"),
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
    Path("semicolons.csv").write_text("day;kind\n1;a\n", "utf-8")
    assert main(shlex.split(command)) == 2
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1)
    assert message in errors


@pytest.mark.parametrize(
    ("command", "stream"),
    [
        ("plan table --keys -", "stdin"),
        ("audit -", "stdin"),
        ("plan table --format parquet", "stdout"),
    ],
)
def test_closed_streams(
    table: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    stream: str,
) -> None:
    monkeypatch.chdir(table.parent)
    monkeypatch.setattr(f"sys.{stream}", None)
    assert main(shlex.split(command)) == 2
    name = {"stdin": "input", "stdout": "output"}[stream]
    assert f"Standard {name} is closed." in capsys.readouterr().err


def test_output_in_another_encoding(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (table.parent / "output").open("w", encoding="cp1252") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert main(["explain", str(table)]) == 2
    assert capsys.readouterr().err == (
        "error: The output cannot show '├─' in cp1252. "
        "Hint: set the environment variable PYTHONIOENCODING=utf-8.\n"
    )


def test_queries_that_are_not_utf_8(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"SELECT '\xff'")))
    assert main(["audit", "-"]) == 2
    assert capsys.readouterr().err == "error: - cannot be read: it is not UTF-8.\n"


def test_errors_of_spark(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: Any = pytest.importorskip("pyspark.errors")

    def spark_session(*_: object) -> None:
        raise errors.AnalysisException("\n[PARSE_SYNTAX_ERROR] Syntax error.\n\n== SQL ==\nday =")

    monkeypatch.setattr("splitlib.cli.arguments.spark_session", spark_session)
    assert main(["analyze", str(table), "--where", "day ="]) == 2
    assert capsys.readouterr().err == "error: [PARSE_SYNTAX_ERROR] Syntax error.\n"


def test_standard_error_without_a_reader(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    process = start("plan", tmp_path / "none", "-c", "files", stderr=write)
    os.close(write)
    assert process.wait(timeout=120) == 2


def test_an_error_of_the_connection_to_java(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise Py4JNetworkError("The connection is lost.")

    monkeypatch.setattr("splitlib.cli.plan.enumerator_of", fail)
    assert main(["plan", str(table), "-c", "files"]) == 2
    assert capsys.readouterr().err == "error: The connection is lost.\n"
