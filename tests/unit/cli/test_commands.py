"""The commands on real directories, with what they print, return and leave out."""

import io
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from splitlib import ConfigError, InvalidFilter, SplitConfig
from splitlib.cli import main
from splitlib.cli.filters import parse_filter, parse_range
from splitlib.cli.progress import Progress
from splitlib.demo.data import DemoData
from splitlib.demo.report import report, strip, wrong
from splitlib.demo.run import Run as DemoRun

NULL = "__HIVE_DEFAULT_PARTITION__"
Run = Callable[..., tuple[int, list[str], str]]
SOURCES = os.pathsep.join(path for path in sys.path if path)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two keys, ``day`` int and ``kind`` string: 1/a, 1/b (two files), 2/a c (escaped), null/a."""
    root = tmp_path / "table"
    for name, files in [
        ("day=1/kind=a", 1),
        ("day=1/kind=b", 2),
        ("day=2/kind=a%2Fc", 1),
        (f"day={NULL}/kind=a", 1),
    ]:
        directory = root / name
        directory.mkdir(parents=True)
        for i in range(files):
            pq.write_table(pa.table({"x": [i]}), directory / f"{i}.parquet")
    return root


@pytest.fixture
def run(table: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the table; its exit code, lines of output, and errors."""

    def run_command(command: str, *arguments: str) -> tuple[int, list[str], str]:
        options = ["-c", "files", "-o", "partition_schema=day int, kind string"]
        code = main([command, str(table), *options, *arguments])
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err

    return run_command


def _json(lines: list[str]) -> list[Any]:
    return [json.loads(line) for line in lines]


def _process(*arguments: object, **options: Any) -> Any:
    return subprocess.Popen(
        [sys.executable, "-m", "splitlib.cli", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        **options,
    )


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
    assert report["metrics"]["splits"] == 2
    assert report["filters"][0]["partitions_dropped"] == 3
    assert "no partition key" in report["filters"][1]["unused_because"]


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
        (["--filter", "day=x"], "'x' is no int32", ""),
        (["--filter", "day"], "not of the form", ""),
        (["--filter", 'kind="a'], "not quoted as in CSV", ""),
        (["--range", "day=1"], "not of the form", ""),
        (["--set", "listing_treads=1"], "Unknown setting", "did you mean 'listing_threads'?"),
        (["--set", "listing_threads"], "not NAME=VALUE", ""),
        (["-o", "formt=orc"], "Unknown option formt", "format"),
        (["-o", "config=1"], "no option of a connector", ""),
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
    assert hint in errors.partition(" Hint: ")[2]


def test_a_missing_table_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(tmp_path / "nothing"), "-c", "files"]) == 2
    assert "error: There is no directory" in capsys.readouterr().err


def test_a_metastore_that_does_not_answer_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:  # bound, but nobody listens
        unused.bind(("127.0.0.1", 0))
        uri = f"thrift://127.0.0.1:{unused.getsockname()[1]}"
        assert main(["tables", "--uri", uri]) == 2
        assert "error: No metastore answers" in capsys.readouterr().err
        # a uri without a connector means hive
        assert main(["plan", "db.t", "--uri", uri, "--set", "retry_attempts=1"]) == 2
        assert "connector=hive" in capsys.readouterr().err


def test_options_of_the_filesystem_are_nested(run: Run) -> None:
    code, _, errors = run("plan", "-o", "storage_options.no_such_option=1")
    assert (code, errors) == (0, "")  # the local filesystem takes what it does not know


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["plan"], ["demo", "--scale", "x"]])
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert "usage: splitlib" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["tables", "partitions", "plan", "explain", "config", "demo"])
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
        [sys.executable, "-m", "splitlib.cli", "demo", "--directory", str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no java" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


MANY_SPLITS = ("-c", "files", "--set", "target_split_bytes=1")


def test_a_reader_that_leaves_is_no_error(table: Path) -> None:
    process = _process(
        "plan", table, *MANY_SPLITS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait() == 128 + signal.SIGPIPE


def test_an_interrupt_ends_it_quietly(table: Path) -> None:
    # the plan is longer than the pipe, so it is still at work when the signal comes
    process = _process(
        "plan", table, *MANY_SPLITS, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 128 + signal.SIGINT
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
    options = ["-c", "files", "-o", "partition_schema=day int, kind string"]
    assert main(["plan", str(tmp_path), *options, "--set", "listing_threads=1"]) == 2
    printed = capsys.readouterr()
    assert "no_partition" in printed.err
    assert 200 < len(printed.out.splitlines()) < 300


def test_progress_is_shown_after_a_second_and_erased(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = io.StringIO()
    with Progress(lambda: "3 of 4", terminal, enabled=True) as progress:
        progress.print("early")
        time.sleep(0.3)
        assert terminal.getvalue() == ""
        time.sleep(1.2)
        assert terminal.getvalue().startswith("\r\x1b[K3 of 4")
        progress.print("late")
        assert terminal.getvalue().endswith("3 of 4\r\x1b[K")
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert capsys.readouterr().out == "early\nlate\n"


def test_progress_that_is_not_wanted_is_silent() -> None:
    terminal = io.StringIO()
    with Progress(lambda: "3 of 4", terminal, enabled=False):
        time.sleep(1.2)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("arguments", "shown"), [([], True), (["--json"], False)])
def test_progress_is_for_a_terminal_and_not_beside_json_for_a_pipe(
    table: Path, arguments: list[str], shown: bool
) -> None:
    ours, theirs = pty.openpty()
    process = _process(
        "plan", table, *MANY_SPLITS, *arguments, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    time.sleep(2.5)  # nobody reads its output, so it takes longer than a second
    process.stdout.read()
    process.stdout.close()
    assert process.wait() == 0
    try:
        seen = os.read(ours, 1 << 16).decode()
    except OSError:  # how Linux says that nothing was written before the other end closed
        seen = ""
    os.close(ours)
    assert ("of 4 partitions" in seen) == shown


SCHEMA = pa.schema(
    [("i", pa.int32()), ("s", pa.string()), ("d", pa.date32()), ("n", pa.decimal128(7, 2))]
)


def test_filter_values_have_the_types_of_the_columns() -> None:
    assert parse_filter(SCHEMA, "i=1, 2").contains({"i": 2})
    assert parse_filter(SCHEMA, 's="a,b",=c').contains({"s": "a,b"})
    assert parse_filter(SCHEMA, "s=x=y").contains({"s": "x=y"})
    assert parse_filter(SCHEMA, "d=2000-01-01").contains({"d": date(2000, 1, 1)})
    assert parse_filter(SCHEMA, "n=1.5").contains({"n": Decimal("1.50")})
    assert parse_filter(SCHEMA, "i=1,1").schema == pa.schema([("i", pa.int32())])
    assert parse_range(SCHEMA, "d=2000-01-01..").contains({"d": date(2020, 1, 1)})
    assert not parse_range(SCHEMA, "n=..1.5").contains({"n": Decimal("1.51")})


@pytest.mark.parametrize("text", ["i=", "=1", "i", ""])
def test_filters_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_filter(SCHEMA, text)


@pytest.mark.parametrize("text", ["d=2000-13-01", "n=1.234", "i=99999999999"])
def test_values_of_another_type_are_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        parse_filter(SCHEMA, text)


def test_the_demo_says_which_answer_is_wrong() -> None:
    data = DemoData({}, ("1", "2", None), 7, frozenset({"2"}))
    right = DemoRun("right", 7, 1, 1, 1, 100, 0.5, ("2",))
    other = DemoRun("other", 8, 3, 3, 3, 300, 1.5)
    assert wrong(data, [right, other]) == [other]
    assert "WRONG: other counts 8; DuckDB counts 7." in report(data, [right, other])
    assert "All count 7 rows" in report(data, [right])


def test_the_strip_shows_where_the_kept_partitions_are() -> None:
    assert strip(("1", "2", None), ["2"]) == "·█·"
    assert strip(("1", "2", None), []) == "···"
    days = [str(day) for day in range(1000)]
    assert strip(days, ["0", "999"]) == "█" + "·" * 58 + "█"
    assert strip(days, days) == "█" * 60
