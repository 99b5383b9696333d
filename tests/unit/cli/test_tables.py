"""Paths as tables, and the command ``splitlib tables``."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib.cli import main
from splitlib.errors import TableNotFound
from splitlib.spi import Connector


class Lake(Connector):
    """A catalog that only lists its tables."""

    seen: ClassVar[dict[str, Any]] = {}

    @classmethod
    def table_names(cls, database, options):
        cls.seen = {"database": database, **options}
        for name in [database] if database else ["a", "b"]:
            if name not in ("a", "b"):
                raise TableNotFound(f"There is no database {name!r}.")
            yield from ((name, table) for table in ("t", "u"))


@pytest.fixture
def lakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name two catalogs of the connector above, and one of a connector that lists no tables."""
    lake: Any = Lake  # its other methods are not needed
    splitlib.register("laketest", lake)
    for name, value in [
        ("LAKE__CONNECTOR", "laketest"),
        ("LAKE__TOKEN", "flamingo9"),
        ("POND__CONNECTOR", "laketest"),
    ]:
        monkeypatch.setenv(f"SPLITLIB_CATALOG__{name}", value)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out.splitlines(), captured.err


@pytest.mark.usefixtures("lakes")
@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], [f"{c}.{d}.{t}" for c in ("lake", "pond") for d in "ab" for t in "tu"]),
        (["lake"], ["lake.a.t", "lake.a.u", "lake.b.t", "lake.b.u"]),
        (["pond.b"], ["pond.b.t", "pond.b.u"]),
        (["b", "-c", "laketest"], ["b.t", "b.u"]),
        (["-c", "laketest", "-o", "x=1"], ["a.t", "a.u", "b.t", "b.u"]),
    ],
)
def test_tables_of_catalogs(
    capsys: pytest.CaptureFixture[str], arguments: list[str], names: list[str]
) -> None:
    assert run(capsys, "tables", *arguments) == (0, names, "")


@pytest.mark.usefixtures("lakes")
def test_catalogs_after_one_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITLIB_CATALOG__DIRS__CONNECTOR", "files")
    monkeypatch.setenv("SPLITLIB_CATALOG__NONE__URI", "x")
    code, lines, errors = run(capsys, "tables")
    assert code == 2
    assert lines == [f"{c}.{d}.{t}" for c in ("lake", "pond") for d in "ab" for t in "tu"]
    assert errors.splitlines()[0].startswith("error: catalog dirs: The connector 'files' cannot")
    assert errors.splitlines()[1].startswith("error: catalog none: Catalog 'none' does not define")
    assert "These catalogs could not be listed: dirs, none." in errors


@pytest.mark.usefixtures("lakes")
def test_a_catalog_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITLIB_CALL_DEADLINE_SECONDS", "0.05")
    ended = threading.Event()

    def blocked(cls: Any, database: Any, options: Any) -> Iterator[tuple[str, str]]:
        yield "a", "t"
        ended.wait(60)

    monkeypatch.setattr(Lake, "table_names", classmethod(blocked))
    code, lines, errors = run(capsys, "tables", "lake")
    ended.set()
    assert (code, lines) == (2, ["lake.a.t"])
    assert "call_deadline_seconds" in errors


@pytest.mark.usefixtures("lakes")
def test_tables_as_json_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines, _ = run(capsys, "tables", "lake.a", "--json")
    assert json.loads(lines[0]) == {"database": "a", "table": "t", "catalog": "lake"}
    assert Lake.seen == {"database": "a", "token": "flamingo9"}
    _, lines, _ = run(capsys, "tables", "a", "-c", "laketest", "-o", "x=1", "--uri", "u", "--json")
    assert json.loads(lines[1]) == {"database": "a", "table": "u"}
    assert Lake.seen == {"database": "a", "x": "1", "uri": "u"}


@pytest.mark.usefixtures("lakes")
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["laek"], "no catalog 'laek'", "did you mean 'lake'?"),
        (["lake.c"], "no database 'c'", ""),
        (["x", "-c", "laktest"], "no connector 'laktest'", "did you mean 'laketest'?"),
        (["t.csv.gz/x", "-c", "laketest"], "no database", ""),
    ],
)
def test_errors_of_tables(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str, hint: str
) -> None:
    code, lines, errors = run(capsys, "tables", *arguments)
    assert (code, lines, errors.count("\n")) == (2, [], 1)
    assert message in errors
    assert hint in errors
    assert "flamingo9" not in errors


def test_without_any_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run(capsys, "tables")
    assert code == 2
    assert "--uri thrift://host:9083" in errors
    code, _, errors = run(capsys, "tables", "lake")
    assert code == 2
    assert "There is no catalog 'lake'" in errors


def test_directories_are_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("clicks/day=1", "visits/day=1", "_tmp"):
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), tmp_path / name / "0.parquet")
    code, lines, _ = run(capsys, "tables", str(tmp_path))
    assert (code, lines) == (0, [f"{tmp_path}/clicks", f"{tmp_path}/visits"])
    assert run(capsys, "tables", f"{tmp_path}/clicks/")[1] == [f"{tmp_path}/clicks"]
    _, lines, _ = run(capsys, "tables", f"{tmp_path}", "-c", "files", "--json")
    assert json.loads(lines[0]) == {"database": str(tmp_path), "table": "clicks"}
    code, _, errors = run(capsys, "tables", f"{tmp_path}/none")
    assert (code, errors.count("\n")) == (2, 1)
    assert "There is no directory" in errors


@pytest.mark.parametrize("command", ["partitions", "plan", "explain"])
def test_a_path_is_a_table_whose_keys_are_inferred(
    table: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, lines, errors = run(capsys, command, str(table), "--filter", "day=2")
    assert (code, errors) == (0, "")
    assert any("day=2/kind=a%2Fc" in line or "partitions 1 of" in line for line in lines)
    code, _, errors = run(capsys, command, f"file://{table}", "--filter", "day=2")
    assert (code, errors) == (0, "")


def test_a_relative_path_is_a_table(
    table: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    for name in (table.name, f"./{table.name}", f"../{table.parent.name}/{table.name}"):
        assert len(run(capsys, "partitions", name)[1]) == 4


@pytest.mark.usefixtures("lakes")
def test_a_named_catalog_comes_before_a_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lake").mkdir()
    assert run(capsys, "tables", "lake")[1][0] == "lake.a.t"


@pytest.mark.usefixtures("lakes")
@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("laek.db.t", "There is no catalog 'laek'.", "did you mean 'lake'?"),
        ("sales.t", "There is no catalog 'sales'.", "the catalogs are lake, pond. Or pass -c NAME"),
        ("lake", "'lake' names a catalog, but no table.", "lake.db.table"),
    ],
)
def test_a_table_of_no_catalog(
    capsys: pytest.CaptureFixture[str], name: str, message: str, hint: str
) -> None:
    code, _, errors = run(capsys, "plan", name)
    assert (code, errors.count("\n")) == (2, 1)
    assert message in errors
    assert hint in errors


def test_a_table_without_any_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, errors = run(capsys, "plan", "sales.t")
    assert "No connector is given for 'sales.t'." in errors
    assert "pass -c NAME, one of" in errors
    assert "set SPLITLIB_CATALOG__SALES__CONNECTOR" in errors


def test_an_orc_table_names_its_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    orc = pytest.importorskip("pyarrow.orc")
    orc.write_table(pa.table({"x": [1]}), str(tmp_path / "0.orc"))
    code, _, errors = run(capsys, "plan", str(tmp_path))
    assert code == 2
    assert errors.endswith("Hint: pass -o format=orc.\n")
    assert run(capsys, "plan", str(tmp_path), "-o", "format=orc")[0] == 0


def test_a_partition_schema_that_leaves_out_a_key(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = run(capsys, "plan", str(table), "-o", "partition_schema=day int")
    assert code == 2
    assert "leaves out kind: the directories have the keys day, kind" in errors
    assert "omit partition_schema" in errors


def test_storage_options_as_a_text(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run(capsys, "plan", str(table), "-o", "storage_options=flamingo9")
    assert code == 2
    assert "-o storage_options.KEY=VALUE" in errors
    assert "flamingo9" not in errors


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Create Delta tables up to four levels deep, a plain table, and a directory without files."""
    for name in ("a", "db/b", "db/plain/day=1", "one/two/three", "one/two/three/four", "empty"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    for name in ("a", "db/b", "db/plain/day=1", "one/two/three/four"):
        (tmp_path / name / "_delta_log").mkdir()
    return tmp_path


def test_delta_tables_below_a_directory(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, _ = run(capsys, "tables", str(warehouse), "-c", "delta")
    assert (code, lines) == (0, [f"{warehouse}/a", f"{warehouse}/db/b"])
    (warehouse / "one" / "two" / "three" / "_delta_log").mkdir()
    _, lines, _ = run(capsys, "tables", f"{warehouse}/", "-c", "delta")
    assert lines[-1] == f"{warehouse}/one/two/three"
    _, lines, _ = run(capsys, "tables", f"{warehouse}/db/b", "-c", "delta", "--json")
    assert json.loads(lines[0]) == {"database": f"{warehouse}/db", "table": "b"}
    code, _, errors = run(capsys, "tables", f"{warehouse}/none", "-c", "delta")
    assert (code, errors.count("\n")) == (2, 1)
    assert "There is no directory" in errors


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace Spark sessions. The result has the settings of each, and "stopped" at its end."""
    seen: list[Any] = []

    @contextmanager
    def spark_session(_: str, conf: dict[str, str]) -> Iterator[str]:
        seen.append(conf)
        yield "a session"
        seen.append("stopped")

    monkeypatch.setattr("splitlib.cli.arguments.spark_session", spark_session)
    monkeypatch.setattr("splitlib.cli.tables.connector_class", {"session": Lake}.get)
    return seen


def test_tables_of_a_session(sessions: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    conf = "spark.sql.catalog.lake=x"
    code, lines, _ = run(capsys, "tables", "a", "-c", "session", "--conf", conf)
    assert (code, lines) == (0, ["a.t", "a.u"])
    assert Lake.seen == {"database": "a", "spark": "a session"}
    assert sessions == [{"spark.sql.catalog.lake": "x"}, "stopped"]


def test_a_table_of_a_session(
    sessions: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(name: str, connector: str, **options: Any) -> Any:
        raise TableNotFound(f"{name} {connector} {options['spark']}")

    monkeypatch.setattr("splitlib.cli.arguments.open_table", opened)
    code, _, errors = run(capsys, "plan", "a.t", "-c", "session")
    assert (code, errors) == (2, "error: a.t session a session\n")
    assert sessions == [{}]


@pytest.mark.parametrize("command", ["tables", "plan"])
def test_spark_settings_without_a_session(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, errors = run(capsys, command, "/data", "--conf", "spark.x=y")
    assert code == 2
    assert "--conf needs a Spark session. Hint: add -c session" in errors


def test_statistics_that_are_not_kept(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines, errors = run(capsys, "analyze", str(table))
    assert (code, len(lines)) == (0, 1)
    assert errors == "note: the statistics are not kept. Set statistics_location.\n"
    location = f"statistics_location={tmp_path / 'kept'}"
    code, _, errors = run(capsys, "analyze", str(table), "--set", location)
    assert (code, errors) == (0, "")


def test_statistics_that_cannot_be_written(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = tmp_path / "a-file"
    location.write_text("")
    for file in table.rglob("*.parquet"):
        os.utime(file, (1e9, 1e9))  # statistics of new files are never kept
    setting = f"statistics_location={location}"
    code, (line,), _ = run(capsys, "analyze", str(table), "--set", setting)
    assert code == 1
    assert line.endswith("; not saved in statistics_location, see the log")
