"""Mistakes of a first program end in one sentence that says what to write."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import splitlib
from splitlib import ConfigError, InvalidFilter
from splitlib.spark.conversion import spark_schema
from splitlib.spark.keys import collect_keys
from splitlib.spark.planner.optimize import left_to_spark
from splitlib.spark.sql import warn_without_effect


class Nameless:
    """An object with an attribute of every name and without a truth value, as Spark's Column."""

    def __getattr__(self, name: str) -> Any:
        return Nameless()

    def __bool__(self) -> bool:
        raise ValueError


class Stream(DataFrame):
    """A streaming DataFrame."""

    isStreaming: Any = True  # noqa: N815 - Spark's name
    sparkSession: Any = None  # noqa: N815 - Spark's name
    spark = None

    def __new__(cls) -> Any:
        return object.__new__(cls)

    def __init__(self) -> None:
        pass


class Stopped(SparkSession):
    """A session whose context has no connection to the JVM."""

    sparkContext: Any = SimpleNamespace()  # noqa: N815 - Spark's name

    def __new__(cls) -> Any:
        return object.__new__(cls)

    def __init__(self) -> None:
        pass


class Session:
    """A session that is no classic one, such as one of Spark Connect."""

    def createDataFrame(self) -> None:
        """Exist, as the methods of a session do."""


@pytest.fixture
def reader() -> Any:
    return splitlib.read(Session()).table("db.t")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["count", "show", "join", "write", "filter", "columns"])
def test_a_reader_is_no_dataframe(reader: Any, name: str) -> None:
    assert not hasattr(reader, name)
    with pytest.raises(AttributeError, match=rf"Call \.load\(\) first.*load\(\)\.{name}"):
        getattr(reader, name)


def test_a_misspelt_method_of_a_reader(reader: Any) -> None:
    with pytest.raises(AttributeError, match="did you mean 'filtered_by'"):
        reader.filter_by({"k": [1]})
    assert not hasattr(reader, "_jdf")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table({"x": [day]}), tmp_path / f"day={day}" / "0.parquet")
    return tmp_path


def test_a_dict_is_a_filter(root: Path) -> None:
    table = splitlib.load_table(str(root), connector="files")
    assert splitlib.paths(table, {"day": [2, 7]}) == [f"{root}/day=2/0.parquet"]
    enumerator = splitlib.DynamicFileEnumerator(table)
    enumerator.set_dynamic_filtering_data({"day": [1]})
    assert [split.partition_values for split in enumerator.enumerate_splits()] == [{"day": 1}]
    wrong: Any = ["day"]
    with pytest.raises(InvalidFilter, match=r"A list is not filtering data.*from_arrow"):
        splitlib.paths(table, wrong)
    with pytest.raises(InvalidFilter, match="also for a single value"):
        splitlib.paths(table, {"day": "1"})


@pytest.mark.parametrize(
    "name", ["/data/clicks", "s3://bucket/clicks", "./clicks", "file:/data", "~/clicks"]
)
def test_a_path_without_a_connector(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is a path.*pass connector='files'"):
        splitlib.load_table(name)


@pytest.mark.parametrize("function", ["optimize", "explain", "replan", "freeze"])
def test_a_column_is_no_dataframe(function: str) -> None:
    with pytest.raises(InvalidFilter, match=r"not a Nameless.*such as spark\.table"):
        getattr(splitlib, function)(Nameless())


def test_streams_have_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    stream: Any = Stream()
    with pytest.raises(InvalidFilter, match=r"A stream cannot be computed once.*foreachBatch"):
        splitlib.freeze(stream)
    monkeypatch.setattr("splitlib.spark.keys.key_columns", lambda *_: {})
    with pytest.raises(splitlib.NonDeterministicDimension, match=r"is a stream.*foreachBatch"):
        collect_keys(stream, {"k": "k"}, None, splitlib.SplitConfig())


def test_a_stopped_session() -> None:
    session: Any = Stopped()
    with pytest.raises(ConfigError, match=r"session is stopped.*SparkSession\.builder"):
        splitlib.analyze(session, "db.t")
    with pytest.raises(ConfigError, match="session is stopped"):
        splitlib.load_table("db.t", spark=session)


def test_a_misspelled_setting_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    report = left_to_spark(ConfigError("Unknown setting 'x'.", hint="did you mean 'y'?"))
    assert "Unknown setting 'x'." in report.reasons[0]
    (record,) = caplog.records
    assert "left to Spark: Unknown setting 'x'. Hint: did you mean 'y'?" in record.getMessage()


def test_options_as_a_text(root: Path) -> None:
    with pytest.raises(ConfigError, match=r"storage_options is a str.*\{'option': value\}") as e:
        splitlib.load_table(str(root), connector="files", storage_options="flamingo9")
    assert "flamingo9" not in str(e.value)


def test_a_partition_schema_that_leaves_out_a_key(root: Path) -> None:
    (root / "day=1" / "kind=a").mkdir()
    (root / "day=1" / "0.parquet").rename(root / "day=1" / "kind=a" / "0.parquet")
    with pytest.raises(ConfigError, match="leaves out day: the directories have the keys day, kin"):
        splitlib.load_table(str(root), connector="files", partition_schema="kind string")


def read_options(options: dict[str, str]) -> Any:
    pytest.importorskip("pyspark.sql.datasource", reason="this PySpark has no data sources")
    from splitlib.spark.datasource.plan import ReadOptions

    return ReadOptions.parse(options)


def test_a_path_without_a_connector_in_the_data_source(root: Path) -> None:
    options = read_options({"path": str(root)})
    with pytest.raises(ConfigError, match=r'pass \.option\("connector", "files"\) to read'):
        options.open()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"config": "x"}, "'config' is not a connector option"),
        ({"name": "x"}, "'name' is not a connector option"),
        ({"connector": "session"}, r"cannot read the tables of the session.*splitlib\.read\(spark"),
    ],
)
def test_options_of_the_data_source(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_options({"table": "db.t", **options})


def test_a_passed_limit_in_the_data_source(root: Path) -> None:
    options = read_options({"path": str(root), "connector": "files", "maxPartitions": "1"})
    with options.open() as table:
        from splitlib.spark.datasource.source import BatchReader

        schema = spark_schema(table.metadata)
    with pytest.raises(splitlib.TooManyPartitions, match=r'raise \.option\("maxPartitions", …\)'):
        BatchReader(options, schema)


def stream_of(root: Path) -> Any:
    options = read_options({"path": str(root), "connector": "files", "maxBytesPerTrigger": "1"})
    with options.open() as table:
        from splitlib.spark.datasource.source import StreamReader

        return StreamReader(options, spark_schema(table.metadata), None)


def ends_noted(caplog: pytest.LogCaptureFixture) -> int:
    return sum("no more rows will come" in record.getMessage() for record in caplog.records)


def test_a_stream_that_has_read_everything(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = stream_of(root)
    offset, limit = stream.initialOffset(), stream.getDefaultReadLimit()
    noted = []
    for _ in range(5):
        offset = stream.latestOffset(offset, limit)
        noted.append(ends_noted(caplog))
    assert noted == [0, 0, 1, 1, 1]  # two batches of one file each


def test_a_stream_that_ends_by_itself(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    stream = stream_of(root)
    stream.prepareForTriggerAvailableNow()
    end = stream.reportLatestOffset()
    assert stream.latestOffset(end, stream.getDefaultReadLimit()) == end
    assert ends_noted(caplog) == 0


def test_a_stream_of_a_spark_that_passes_no_start(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stream_of(root)
    noted = []
    for _ in range(3):
        stream.latestOffset()
        noted.append(ends_noted(caplog))
    assert noted == [0, 1, 1]


def test_functions_without_an_effect_say_so_once(caplog: pytest.LogCaptureFixture) -> None:
    session: Any = Session()
    with caplog.at_level(logging.WARNING):
        for function in ("sql", "optimize", "sql"):
            warn_without_effect(session, function)
    (record,) = caplog.records
    assert "splitlib.sql runs queries unchanged" in record.getMessage()
    assert "Spark Connect" in record.getMessage()


def test_a_mistake_has_a_short_traceback() -> None:
    with pytest.raises(splitlib.TableNotFound) as caught:
        splitlib.load_table("/no/such/directory", connector="files")
    files = [Path(entry.path).name for entry in caught.traceback]
    assert files == ["test_mistakes.py", "registry.py", "registry.py"]


def test_hints_of_a_reader_name_settings_as_calls_of_config(
    reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hint = "set verify_files to true, set spark_scan to 'auto', or raise max_partitions."
    monkeypatch.setattr("splitlib.spark.read.reader.settings_of", lambda _: refuse(hint))
    monkeypatch.setattr("splitlib.spark.read.reader.SessionState.of", lambda *_: None)
    with pytest.raises(ConfigError) as raised:
        reader.load()
    assert raised.value.hint == (
        "use .config(verify_files=True), use .config(spark_scan='auto'), "
        "or raise .config(max_partitions=…)."
    )


def refuse(hint: str) -> None:
    raise ConfigError("Refused.", hint=hint)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        ("pass partition_schema=.", 'pass .option("partition_schema", …).'),
        ("use connector='iceberg'.", 'use .option("connector", "iceberg").'),
        ("pass connector=..., one of a, b", 'pass .option("connector", …), one of a, b'),
        ("raise max_partitions.", 'raise .option("maxPartitions", …).'),
        ("set missing_partition to 'skip'", 'use .option("missingPartition", "skip")'),
    ],
)
def test_hints_of_the_data_source_name_options(
    root: Path, monkeypatch: pytest.MonkeyPatch, hint: str, expected: str
) -> None:
    options = read_options({"path": str(root), "connector": "files"})
    monkeypatch.setattr("splitlib.spark.datasource.plan.open_table", lambda *_, **__: refuse(hint))
    with pytest.raises(ConfigError) as raised:
        options.open()
    assert raised.value.hint == expected
