"""Commands of the command line on real directories: output, exit codes and pruned partitions."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from splitlib import SplitConfig
from splitlib.cli import main
from tests.unit.cli.command_line import MANY_SPLITS, NULL, SOURCES, start

Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def run(table: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command on the table.

    The function returns the exit code, the lines of output and the error output.
    """

    def run_command(command: str, *arguments: str) -> tuple[int, list[str], str]:
        options = ["-c", "files", "-o", "partition_schema=day int, kind string"]
        code = main([command, str(table), *options, *arguments])
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err

    return run_command


def _json(lines: list[str]) -> list[Any]:
    return [json.loads(line) for line in lines]


def test_partitions_are_names_in_the_catalogs_order(run: Run) -> None:
    names = ["day=1/kind=a", "day=1/kind=b", "day=2/kind=a%2Fc", f"day={NULL}/kind=a"]
    assert run("partitions") == (0, names, "")


def test_partitions_as_json_have_typed_values(run: Run) -> None:
    code, lines, _ = run("partitions", "--json", "--filter", "day=2")
    assert code == 0
    assert _json(lines) == [{"partition": "day=2/kind=a%2Fc", "values": {"day": 2, "kind": "a/c"}}]


def test_partitions_with_files_and_bytes(run: Run, table: Path) -> None:
    size = sum(file.stat().st_size for file in (table / "day=1/kind=b").iterdir())
    _, lines, _ = run("partitions", "--files", "--filter", "kind=b")
    assert lines == [f"day=1/kind=b\t2\t{size}"]
    _, lines, _ = run("partitions", "--files", "--json", "--filter", "kind=b")
    assert _json(lines) == [
        {
            "partition": "day=1/kind=b",
            "values": {"day": 1, "kind": "b"},
            "files": 2,
            "bytes": size,
        }
    ]


def test_partitions_with_files_are_all_of_them_each_once(run: Run) -> None:
    _, lines, _ = run("partitions", "--files")
    assert [line.split("\t")[:2] for line in lines] == [
        ["day=1/kind=a", "1"],
        ["day=1/kind=b", "2"],
        ["day=2/kind=a%2Fc", "1"],
        [f"day={NULL}/kind=a", "1"],
    ]


def test_an_unpartitioned_table_is_one_partition_without_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "0.parquet")
    assert main(["partitions", str(tmp_path), "-c", "files", "--json"]) == 0
    assert _json(capsys.readouterr().out.splitlines()) == [{"partition": "", "values": {}}]
    assert main(["plan", str(tmp_path), "-c", "files"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (["--filter", "day=1,2"], 3),
        (["--filter", "DAY=1", "--filter", "kind=a"], 1),
        (["--filter", f"day={NULL}"], 1),
        (["--filter", "kind=a/c"], 1),
        (["--filter", "day=7"], 0),
        (["--range", "day=2..9"], 1),
        (["--range", "day=..1"], 2),
        (["--range", "day=2.."], 1),
        (["--range", "kind=b..c"], 1),
        (["--range", "day=1..1", "--filter", "kind=b"], 1),
        (["--filter", "day=1", "--set", "dynamic_filtering_enabled=false"], 4),
    ],
)
def test_filters_hold_together(run: Run, filters: list[str], kept: int) -> None:
    _, by_name, _ = run("partitions", *filters)
    _, with_files, _ = run("partitions", "--files", *filters)
    assert (len(by_name), len(with_files)) == (kept, kept)


def test_plan_lists_splits(run: Run, table: Path) -> None:
    code, lines, _ = run("plan", "--filter", "day=2")
    file = table / "day=2/kind=a%2Fc/0.parquet"
    [(split_id, path, start, length, name)] = [line.split("\t") for line in lines]
    assert code == 0
    assert len(split_id) == 32
    assert path == str(file)
    assert (start, length, name) == ("0", str(file.stat().st_size), "day=2/kind=a%2Fc")


def test_plan_as_json_is_the_same_plan(run: Run) -> None:
    _, text, _ = run("plan")
    _, lines, _ = run("plan", "--json")
    splits = _json(lines)
    assert [line.split("\t")[:2] for line in text] == [[s["split_id"], s["path"]] for s in splits]
    assert [s["partition_values"] for s in splits][-1] == {"day": None, "kind": "a"}
    assert all(s["start"] == 0 and s["length"] == s["file_size"] for s in splits)
    assert {s["format"] for s in splits} == {"parquet"}


def test_settings_are_followed(run: Run) -> None:
    _, lines, _ = run("plan", "--filter", "day=2", "--set", "target_split_bytes=100")
    assert len(lines) > 3
    assert [int(line.split("\t")[2]) for line in lines[:3]] == [0, 100, 200]


def test_explain(run: Run) -> None:
    code, lines, _ = run("explain", "--filter", "kind=b")
    assert code == 0
    assert "├─ partitions 1 of 4" in lines
    code, lines, _ = run("explain", "--filter", "kind=b", "--filter", "x=3", "--json")
    [report] = _json(lines)
    assert code == 0
    assert report["metrics"]["partitions_matched"] == 1
    assert report["metrics"]["splits"] == 0
    assert report["filters"][0]["partitions_dropped"] == 3
    assert report["filters"][1]["used_fields"] == ["x"]
    assert report["row_groups"] == {"matched": 0, "total": 2}
    code, [line], _ = run("explain", "--filter", "kind=b", "--html")
    assert code == 0
    assert line.startswith("<!doctype html>")
    assert "<p>partitions 1 of 4</p>" in line
    assert run("explain", "--html", "--json")[0] == 2


def test_config_shows_every_setting_and_its_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITLIB_RETRY_ATTEMPTS", "7")
    assert main(["config", "--json", "--set", "listing_threads=3"]) == 0
    settings = {s["name"]: s for s in _json(capsys.readouterr().out.splitlines())}
    assert list(settings) == list(SplitConfig.__dataclass_fields__)
    assert (settings["listing_threads"]["value"], settings["listing_threads"]["source"]) == (
        3,
        "argument",
    )
    assert settings["retry_attempts"]["source"] == "SPLITLIB_RETRY_ATTEMPTS"
    assert settings["max_partitions"]["source"] == "default"
    assert main(["config"]) == 0
    text = capsys.readouterr().out
    for setting in settings.values():
        assert setting["name"] in text
        assert setting["doc"] in text


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--filter", "dya=1"], "no column 'dya'", "did you mean 'day'?"),
        (["--filter", "day=x"], "'x' is not a valid int32", ""),
        (["--filter", "day"], "not of the form", ""),
        (["--filter", 'kind="a'], "not quoted as in CSV", ""),
        (["--range", "day=1"], "not of the form", ""),
        (["--set", "listing_treads=1"], "Unknown setting", "did you mean 'listing_threads'?"),
        (["--set", "listing_threads"], "does not have the form NAME=VALUE", ""),
        (["-o", "a=1", "-o", "flamingo9"], "Argument number 3 of --option", "--option NAME=VALUE"),
        (["-o", "=flamingo9"], "does not have the form NAME=VALUE", ""),
        (["-o", "formt=orc"], "Unknown option formt", "format"),
        (["-o", "config=1"], "is not a connector option", ""),
        (["-c", "fils"], "no connector 'fils'", "did you mean 'files'?"),
    ],
)
def test_an_error_is_one_line_with_its_hint(
    run: Run, arguments: list[str], message: str, hint: str
) -> None:
    code, lines, errors = run("plan", *arguments)
    assert (code, lines) == (2, [])
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    assert message in errors
    assert "flamingo9" not in errors
    assert hint in errors.partition(" Hint: ")[2]


def test_a_missing_table_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path / "nothing"), "-c", "files"]) == 2
    assert "error: There is no directory" in capsys.readouterr().err


def test_a_metastore_that_does_not_answer_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:  # the port is reserved, but no server listens on it
        unused.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{unused.getsockname()[1]}"
        assert main(["tables", "--uri", uri]) == 2
        assert "error: No metastore answers" in capsys.readouterr().err
        # With a URI and without a connector, the connector is hive.
        assert main(["plan", "db.t", "--uri", uri, "--set", "retry_attempts=1"]) == 2
        assert "connector=hive" in capsys.readouterr().err


def test_options_of_the_filesystem_are_nested(run: Run) -> None:
    code, _, errors = run("plan", "-o", "storage_options.no_such_option=1")
    assert (code, errors) == (0, "")  # the local filesystem ignores unknown options


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["plan"], ["demo", "--scale", "x"]])
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert "usage: splitlib" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["tables", "partitions", "plan", "explain", "audit", "config", "doctor", "demo"]
)
def test_every_command_has_help_and_json(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([command, "--help"])
    assert exit_info.value.code == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize("scale", ["0", "0.009", "nan"])
def test_a_demo_that_would_not_end_is_refused(
    scale: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--scale", scale]) == 2
    assert "error: --scale must be at least 0.01" in capsys.readouterr().err


def test_a_demo_without_java_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": SOURCES, "PATH": str(tmp_path)}
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "splitlib", "demo", "--directory", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no java" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []  # no temporary files remain


def test_a_reader_that_leaves_is_no_error(table: Path) -> None:
    process = start(
        "plan", table, *MANY_SPLITS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 128 + signal.SIGPIPE


def test_output_that_cannot_be_written(table: Path) -> None:
    with open("/dev/full", "w") as full:
        process = start("partitions", table, stdout=full, stderr=subprocess.PIPE, text=True)
    _, errors = process.communicate()
    assert process.returncode == 2
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1
    closed = start(
        "partitions", table, stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.close(1)
    )
    assert closed.communicate()[1] == ""
    assert closed.returncode == 0


def test_closed_standard_error(table: Path) -> None:
    for name, code in ((str(table), 0), (f"{table}/none", 2)):
        closed = start("partitions", name, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
        written = closed.communicate()[0]
        assert (closed.returncode, bool(written)) == (code, code == 0)


def interrupted(process: subprocess.Popen[str]) -> int:
    """Send Ctrl-C until the process ends, and return its exit code.

    One signal may not be enough. If it arrives just before Python writes to a full pipe, Python
    handles it only after the write.
    """
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.wait()


def test_an_interrupt_ends_it_quietly(table: Path) -> None:
    # A shell makes its background processes ignore SIGINT. Child processes inherit that.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        # The output is larger than the pipe's buffer, so the process still runs at the signal.
        process = start(
            "plan", table, *MANY_SPLITS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert process.stdout.readline()
    assert interrupted(process) == 128 + signal.SIGINT
    assert process.stderr.read() == ""
    process.stdout.close()
    process.stderr.close()


def test_the_output_does_not_wait_for_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for day in range(300):
        directory = tmp_path / f"day={day:03}" / "kind=a"
        directory.mkdir(parents=True)
        pq.write_table(pa.table({"x": [day]}), directory / "0.parquet")
    (tmp_path / "day=299" / "no_partition").mkdir()
    (tmp_path / "day=299" / "no_partition" / "0.parquet").touch()
    options = ["-c", "files", "-o", "partition_schema=day int, kind string"]
    assert main(["plan", str(tmp_path), *options, "--set", "listing_threads=1"]) == 2
    printed = capsys.readouterr()
    assert "no_partition" in printed.err
    assert 200 < len(printed.out.splitlines()) < 300


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_export_writes_the_matching_rows(run: Run, tmp_path: Path, form: str) -> None:
    to = tmp_path / "out"
    found = run("export", "--to", str(to), "--format", form, "--filter", "kind=b")
    assert found == (0, [f"2 rows in 1 files: {to}"], "")
    (file,) = to.iterdir()
    assert file.name == f"part-0.{form}"
    rows = ds.dataset(file, format="ipc" if form == "arrow" else form).to_table()
    assert rows.sort_by("x").to_pylist() == [
        {"x": 0, "day": 1, "kind": "b"},
        {"x": 1, "day": 1, "kind": "b"},
    ]
    code, lines, errors = run("export", "--to", str(to), "--format", form)
    assert (code, lines) == (2, [])
    assert "not empty" in errors


def test_export_as_json_and_without_rows(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "out"
    _, lines, _ = run("export", "--json", "--to", str(to), "--filter", "day=9")
    result = {"directory": str(to), "format": "parquet", "files": 0, "rows": 0}
    assert _json(lines) == [result]


def test_export_keeps_the_error_of_the_table(run: Run, table: Path, tmp_path: Path) -> None:
    (table / "day=1/kind=a/0.parquet").write_bytes(b"PAR1")
    code, _, errors = run("export", "--to", str(tmp_path / "out"))
    assert code == 2
    assert "0.parquet" in errors


@pytest.mark.parametrize(
    ("damaged", "form", "message"),
    [
        (False, "parquet", "is not empty"),
        (False, "csv", "Unsupported Type"),
        (True, "parquet", "The rows of the table cannot be read"),
    ],
)
def test_a_failed_export_ends_and_leaves_no_file(
    tmp_path: Path, damaged: bool, form: str, message: str
) -> None:
    rows = pa.table({"x": [[1]] * 50}) if form == "csv" else pa.table({"x": range(50)})
    for day in range(60):
        (tmp_path / f"t/day={day:02}").mkdir(parents=True)
        path = tmp_path / f"t/day={day:02}/0.parquet"
        pq.write_table(rows, path, use_dictionary=False, compression="none")
    if damaged:
        start_of_page = pq.read_metadata(path).row_group(0).column(0).data_page_offset
        with path.open("r+b") as file:
            file.seek(start_of_page)
            file.write(b"\xff" * 8)
    (tmp_path / "out").mkdir()
    kept = [tmp_path / "out/kept"] if message == "is not empty" else []
    for file_kept in kept:
        file_kept.write_text("before")
    process = start(
        *("export", tmp_path / "t", "-c", "files"), "--to", tmp_path / "out", "--format", form,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _, errors = process.communicate(timeout=120)  # only a guard
    assert process.returncode == 2, errors
    assert message in errors
    assert "Fatal" not in errors
    assert list((tmp_path / "out").iterdir()) == kept
    assert [each.read_text() for each in kept] == ["before"] * len(kept)


def test_explain_names_settings_as_options(run: Run) -> None:
    _, lines, _ = run("explain", "--set", "dynamic_filtering_enabled=false")
    assert any("Use --set dynamic_filtering_enabled=true." in line for line in lines)
