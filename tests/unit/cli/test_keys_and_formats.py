"""Keys from files and standard input (``--keys``), and formats of plans (``--format``)."""

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import DynamicFilteringData
from splitlib.cli import main
from tests.unit.cli.command_line import NULL, start

KEYS = pa.table({"DAY": pa.array([1, 2], pa.int64()), "kind": ["a", "a/c"]})


def to_ipc(new: Callable[..., Any]) -> bytes:
    sink = pa.BufferOutputStream()
    with new(sink, KEYS.schema) as writer:
        writer.write_table(KEYS)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def to_parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(KEYS, sink)
    return sink.getvalue()


FORMS = {
    "csv": b'DAY,kind\n1,a\n2,"a/c"\n',
    "csv with a byte order mark": b"\xef\xbb\xbfday, kind\r\n\r\n1, a\r\n2, a/c\r\n",
    "json": b'{"day": 1, "kind": "a"}\n\n{"kind": "a/c", "day": 2}\n',
    "json list": b'[{"day": 1, "kind": "a"},\n {"kind": "a/c", "day": 2}]\n',
    "parquet": to_parquet(),
    "arrow file": to_ipc(pa.ipc.new_file),
    "arrow stream": to_ipc(pa.ipc.new_stream),
    "filter": DynamicFilteringData.from_arrow(KEYS.rename_columns(["day", "kind"])).to_bytes(),
}


def names(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out.splitlines()


@pytest.mark.parametrize("form", FORMS)
def test_keys_of_a_file(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    file = tmp_path / "keys"
    file.write_bytes(FORMS[form])
    found = names(capsys, "partitions", str(table), "--keys", str(file))
    assert found == ["day=1/kind=a", "day=2/kind=a%2Fc"]
    found = names(capsys, "partitions", str(table), "--keys", str(file), "--filter", "day=2")
    assert found == ["day=2/kind=a%2Fc"]


def test_keys_of_standard_input(table: Path) -> None:
    process = start(
        "plan", table, "--keys", "-", "--format", "paths",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    output, errors = process.communicate(b"kind\nb\n")
    assert (process.returncode, errors) == (0, b"")
    assert output.decode().splitlines() == [f"{table}/day=1/kind=b/{i}.parquet" for i in range(2)]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"day\n{NULL}\n", 1),
        ('{"day": null}', 1),
        ("day\n", 0),
        ('{"day": 1, "kind": "b"}\n{"day": 1, "kind": null}', 1),
    ],
)
def test_nulls_and_no_keys(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, kept: int
) -> None:
    file = tmp_path / "keys"
    file.write_text(text)
    assert len(names(capsys, "partitions", str(table), "--keys", str(file))) == kept


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"dya\n1\n", "did you mean 'day'?"),
        (b"day\nx\n", "'x' is not a valid int32"),
        (b"day,kind\n1\n", "Row 1 of"),
        (b'day\n"1\n', "cannot be read"),
        (b"\xff\xfe\n", "cannot be read"),
        (b'{"day": 1', "cannot be read"),
        (b'{"day": 1}\n[2]', "A key is a list, not an object"),
        (b"[[2]]", "A key is a list, not an object"),
        (b" [ ] ", "The list of keys is empty"),
        (b'{"day": ' + b"1" * 5000 + b"}", "is not a valid int32"),
        (b"day,DAY\n1,2\n", "several columns for 'day'"),
        (b"PAR1nonsense", "cannot be read"),
        (b"ARROW1nonsense", "cannot be read"),
        (b"\xff\xff\xff\xffnonsense", "cannot be read"),
        (FORMS["filter"][:-1] + b"?", "not a filter"),
    ],
)
def test_keys_that_cannot_be_used(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, message: str
) -> None:
    file = tmp_path / "keys"
    file.write_bytes(data)
    assert main(["plan", str(table), "--keys", str(file)]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert message in errors


@pytest.mark.parametrize(
    "keys",
    [
        b'{"ratio": 0.1234567890123456789}',
        '{"name": "a\u2028b"}'.encode(),
        b'{"name": 1.50}',
    ],
)
def test_values_in_json_are_exact(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: bytes
) -> None:
    kind = pa.decimal128(38, 19)
    for name, row in {
        "a": {"ratio": Decimal("0.1234567890123456789"), "name": "a\u2028b"},
        "b": {"ratio": Decimal("0.1234567890123456800"), "name": "1.5"},
        "c": {"ratio": Decimal("0.1234567890123456789"), "name": "1.50"},
    }.items():
        root = tmp_path / "t" / f"part={name}"
        root.mkdir(parents=True)
        rows = pa.Table.from_pylist([row], pa.schema([("ratio", kind), ("name", pa.string())]))
        pq.write_table(rows, root / "f.parquet")
    (tmp_path / "keys").write_bytes(keys)
    exported = tmp_path / "out"
    keys_of = ("--keys", str(tmp_path / "keys"))
    assert main(["export", str(tmp_path / "t"), *keys_of, "--to", str(exported)]) == 0
    [name] = json.loads(keys)
    found = pq.read_table(exported)[name].to_pylist()
    expected = json.loads(keys, parse_float=str)[name]
    assert found
    assert set(map(str, found)) == {expected}


def test_dictionaries_of_views_are_keys(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Polars writes categorical columns so."""
    kinds = pa.DictionaryArray.from_arrays([0, 0], pa.array(["a/c"], pa.string_view()))
    keys = pa.table({"kind": kinds, "day": pa.array(["2", "3"], pa.string_view())})
    with pa.ipc.new_file(tmp_path / "keys", keys.schema) as writer:
        writer.write_table(keys)
    arguments = ["partitions", str(table), "--keys", str(tmp_path / "keys")]
    assert names(capsys, *arguments) == ["day=2/kind=a%2Fc"]


def test_a_file_that_does_not_exist(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(table), "--keys", "/no/such/file"]) == 2
    assert "'/no/such/file' cannot be read: No such file" in capsys.readouterr().err
    assert main(["plan", str(table), "--keys", "-", "--keys", "-"]) == 2
    assert "only once" in capsys.readouterr().err


def test_too_many_keys_become_a_range(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "keys"
    file.write_text("day\n0\n9\n")
    arguments = ["partitions", str(table), "--keys", str(file)]
    assert names(capsys, *arguments) == []
    assert len(names(capsys, *arguments, "--set", "filter_max_values=1")) == 3


def test_formats_of_a_plan(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["plan", str(table), "--set", "target_split_bytes=100"]
    text = [line.split("\t") for line in names(capsys, *plan)]
    assert names(capsys, *plan, "--format", "text") == ["\t".join(line) for line in text]
    paths = names(capsys, *plan, "--format", "paths")
    assert paths == list(dict.fromkeys(line[1] for line in text))
    assert len(paths) == 5
    as_json = names(capsys, *plan, "--format", "json")
    assert as_json == names(capsys, *plan, "--json")
    assert [json.loads(line)["split_id"] for line in as_json] == [line[0] for line in text]
    header, *rows = csv.reader(names(capsys, *plan, "--format", "csv"))
    assert header[:4] == ["split_id", "path", "start", "length"]
    assert [[*row[:4], row[-1]] for row in rows] == text


def test_a_plan_as_parquet(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.parquet"
    with out.open("wb") as file:
        assert start("plan", table, "--format", "parquet", stdout=file).wait() == 0
    text = [line.split("\t") for line in names(capsys, "plan", str(table))]
    rows = pq.read_table(out)
    found = rows.select(["split_id", "path", "start", "length", "partition"]).to_pylist()
    assert [[str(value) for value in row.values()] for row in found] == text


def test_formats_that_contradict_each_other(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["plan", str(table), "--json", "--format", "csv"]) == 2
    assert "contradict" in capsys.readouterr().err
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["plan", str(table), "--format", "parquet"]) == 2
    assert "> plan.parquet" in capsys.readouterr().err


def test_an_incomplete_plan_is_no_parquet_file(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(enumerator: splitlib.DynamicFileEnumerator) -> Iterator[splitlib.FileSplit]:
        yield from enumerate_splits(enumerator)
        raise splitlib.SourceError("The listing failed.")

    enumerate_splits = splitlib.DynamicFileEnumerator.enumerate_splits
    monkeypatch.setattr(splitlib.DynamicFileEnumerator, "enumerate_splits", fail)
    out = tmp_path / "plan.parquet"
    with out.open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        assert main(["plan", str(table), "--format", "parquet"]) == 2
    assert out.read_bytes() == b""


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b"[" * 100_000, b'{"day":' * 100_000])
def test_keys_that_are_none(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / "keys").write_bytes(content)
    assert main(["plan", str(table), "--keys", str(tmp_path / "keys")]) == 2
    assert capsys.readouterr().err.count("error:") == 1
