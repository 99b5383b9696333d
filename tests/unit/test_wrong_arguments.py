"""Arguments of a wrong type end in one sentence that names the argument, not in a traceback.

The types are wrong on purpose, so mypy is told to ignore them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import (
    ConfigError,
    DynamicFileEnumerator,
    DynamicFileSplitEnumerator,
    DynamicFilteringData,
    DynamicFilteringDataCollector,
    InvalidFilter,
    SplitConfig,
    SplitlibError,
    load_table,
)
from splitlib.enumeration.analyze import analyze_table

SCHEMA = pa.schema([("day", pa.int32())])
KEYS = pa.table({"day": [1]})
ANY: Any = None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for kind in ("a", "ü"):
        (tmp_path / f"kind={kind}").mkdir()
        pq.write_table(pa.table({"x": [1]}), tmp_path / f"kind={kind}" / "0.parquet")
    return tmp_path


def test_a_path_is_a_name(root: Path) -> None:
    table = load_table(root, "files")
    assert splitlib.paths(table, {"kind": ["ü"]}) == [f"{root}/kind=ü/0.parquet"]
    assert SplitConfig(statistics_location=root).statistics_location == str(root)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "connector", "options", "message"),
    [
        (None, "files", {}, "a text or a path, not a NoneType"),
        (["/data"], "files", {}, "a text or a path, not a list"),
        ("", None, {}, "No table is named"),
        (" ", None, {}, "No table is named"),
        ("/data", 5, {}, "connector is a int, not the name of a connector"),
        ("/data", splitlib.Table, {}, "connector is a type, not the name"),
        (
            "/data",
            "files",
            {"config": {"max_partitions": 1}},
            "config is a dict, not a SplitConfig",
        ),
        ("a.b", None, {"spark": "local"}, "spark is a str, not a Spark session"),
        ("/data", "files", {"storage_options": {5: "x"}}, "storage_options has a name that is not"),
        ("/data", "files", {"read_options": {5: "x"}}, "read_options has a name that is not a tex"),
        ("/data", "files", {"formt": "orc"}, "did you mean 'format'?"),
        ("/data", "files", {"format": "delta"}, "pass connector='delta'."),
        ("/data", "files", {"format": "parqet"}, "did you mean 'parquet'?"),
        ("/data", "files", {"max_partitions": 1}, "a setting of SplitConfig: set max_partitions."),
        ("/data", "files", {"maxPartitions": 1}, "a setting of SplitConfig: set max_partitions."),
        ("dbfs:/data", "files", {}, "The options of the filesystem for dbfs:// are wrong"),
        ("a.b", "hive", {"uri": None}, "No metastore address was given"),
        ("a.b", "hive", {"uri": ["thrift://h"]}, "uri is a list, not a text"),
        ("a.b", "glue", {"region": 5}, "region is a int, not a text"),
        ("a.b", "iceberg", {"catalog": 5}, "catalog is a int, neither a name nor a PyIceberg"),
    ],
)
def test_tables(name: Any, connector: Any, options: dict[str, Any], message: str) -> None:
    if connector in ("hive", "glue", "iceberg"):
        pytest.importorskip({"hive": "thrift", "glue": "boto3", "iceberg": "pyiceberg"}[connector])
    with pytest.raises(ConfigError) as raised:
        load_table(name, connector, **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition_schema": (part for part in "ab")}, "not a generator"),
        ({"partition_schema": ""}, "A schema is empty"),
        ({"partition_schema": "kind strin"}, "'kind strin' is not a schema"),
        ({"path_glob": "*.orc"}, "or path_glob matches none, pass schema=."),
        ({"schema": {"x": "int"}}, "not a dict"),
        ({"format": "orc"}, "pass format='parquet'"),
    ],
)
def test_options_of_directories(root: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SplitlibError) as raised:
        load_table(root, "files", **options)
    assert message in str(raised.value)


def test_the_format_in_capitals(root: Path) -> None:
    assert load_table(root, "files", format="PARQUET").schema.names == ["x", "kind"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/nowhere/*", "path_glob= selects its files"),
        ("/nowhere/kind=[ab]", "path_glob= selects its files"),
        ("s3:/bucket/data", "names no bucket.*write s3://bucket/directory"),
    ],
)
def test_locations(name: str, message: str) -> None:
    with pytest.raises(SplitlibError, match=message):
        load_table(name, "files")


def test_a_connection_of_duckdb(root: Path) -> None:
    pytest.importorskip("duckdb")
    wrong: Any = ":memory:"
    with pytest.raises(ConfigError, match="connection is a str, not a DuckDB connection"):
        load_table(root, "files").to_duckdb(connection=wrong)


def test_a_table_of_keys_is_a_filter(root: Path) -> None:
    keys = pa.table({"kind": ["ü"]})
    table = load_table(root, "files")
    for rows in (keys, keys.to_batches()[0], keys.to_reader()):
        assert splitlib.paths(table, rows) == [f"{root}/kind=ü/0.parquet"]


def test_names_of_the_package() -> None:
    assert {"read", "sql", "ConfigError"} <= set(dir(splitlib))
    with pytest.raises(AttributeError, match="no attribute 'raed'") as raised:
        _ = splitlib.raed
    assert (raised.value.name, raised.value.obj) == ("raed", splitlib)


def test_a_file_is_no_table(root: Path) -> None:
    with pytest.raises(splitlib.TableNotFound, match="pass the directory of the table"):
        load_table(root / "kind=a" / "0.parquet", "files")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: load_table("/data", "CSV"),
            splitlib.ConnectorNotFound,
            "pass connector='files', format='csv'",
        ),
        (lambda: DynamicFileEnumerator(ANY), ConfigError, "table is a NoneType, not an open table"),
        (lambda: splitlib.paths(ANY), ConfigError, r"splitlib\.load_table\("),
        (lambda: DynamicFileSplitEnumerator(ANY), ConfigError, "a NoneType, not a DynamicFileEn"),
        (
            lambda: DynamicFileSplitEnumerator.restore(ANY, b"state"),  # type: ignore[arg-type]
            ConfigError,
            "enumerator is a bytes",
        ),
        (lambda: DynamicFilteringData.from_values({5: [1]}), InvalidFilter, "is a text, not 5"),  # type: ignore[dict-item]
        (lambda: DynamicFilteringData.from_arrow(ANY), InvalidFilter, "not an Arrow table"),
        (lambda: DynamicFilteringData.from_arrow(KEYS, 5), InvalidFilter, "5 is not a list of n"),  # type: ignore[arg-type]
        (lambda: DynamicFilteringData.from_arrow(KEYS, [0]), InvalidFilter, "has no column 0"),  # type: ignore[list-item]
        (
            lambda: DynamicFilteringData.from_arrow(KEYS).renamed(["x"]),  # type: ignore[arg-type]
            InvalidFilter,
            "A list has no field names",
        ),
        (lambda: DynamicFilteringData.exceeded(["day"]), InvalidFilter, "not 'day'"),
        (lambda: DynamicFilteringData.exceeded(SCHEMA).contains(ANY), InvalidFilter, "field names"),
        (lambda: DynamicFilteringDataCollector(ANY), InvalidFilter, "not a pyarrow.Schema"),
        (lambda: DynamicFilteringDataCollector({"day": "int"}), InvalidFilter, "A dict is not"),
        (
            lambda: DynamicFilteringDataCollector(SCHEMA, "1g"),  # type: ignore[arg-type]
            ConfigError,
            "threshold_bytes must be int",
        ),
        (
            lambda: DynamicFilteringDataCollector(SCHEMA, max_values="9"),  # type: ignore[arg-type]
            ConfigError,
            "max_values must be",
        ),
        (lambda: DynamicFilteringDataCollector(SCHEMA).add(ANY), InvalidFilter, "not an Arrow tab"),
        (lambda: splitlib.register("x", ANY), ConfigError, "None is not a class of connectors"),
        (lambda: splitlib.on_report(ANY), ConfigError, "A NoneType cannot be called"),
        (lambda: SplitConfig(max_partitions=ANY), ConfigError, "must be int, not None"),
        (lambda: SplitConfig.resolve(5), ConfigError, "arguments is a int, not a mapping"),  # type: ignore[arg-type]
        (lambda: SplitConfig.resolve(spark_conf="a"), ConfigError, "spark_conf is a str, not a"),  # type: ignore[arg-type]
        (lambda: SplitConfig(statistics_location=5), ConfigError, "must be str or None, not 5"),  # type: ignore[arg-type]
    ],
)
def test_other_arguments(call: Callable[[], Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_the_config_of_a_call(root: Path) -> None:
    wrong: Any = {"max_partitions": 5}
    with load_table(root, "files") as table:
        with pytest.raises(ConfigError, match="config is a dict, not a SplitConfig"):
            DynamicFileEnumerator(table, wrong)
        with pytest.raises(ConfigError, match="config is a dict, not a SplitConfig"):
            table.partitions(config=wrong)


@pytest.mark.parametrize("static", [5, "kind", {"kind": ["a"]}, [{"kind": ["a"]}]])
def test_conditions_of_an_enumerator(root: Path, static: Any) -> None:
    with (
        load_table(root, "files") as table,
        pytest.raises(ConfigError, match="static is not a list of conditions"),
    ):
        DynamicFileEnumerator(table, static=static)


@pytest.mark.parametrize("filters", [5, {"kind": ["a"]}, {"kind"}])
def test_filters_of_an_enumerator(root: Path, filters: Any) -> None:
    with (
        load_table(root, "files") as table,
        pytest.raises(InvalidFilter, match="filters is not a list of filters"),
    ):
        DynamicFileEnumerator(table, filters=filters)


class Column:
    """Stands for a column of PySpark, which has ``__iter__`` but cannot be iterated."""

    __module__ = "pyspark.sql.column"

    def __iter__(self) -> Any:
        raise TypeError("Column is not iterable")


def test_columns_to_analyze(root: Path) -> None:
    with load_table(root, "files") as table:
        assert analyze_table(table, "x").columns == ("x",)
        with pytest.raises(InvalidFilter, match="no column 'day'"):
            analyze_table(table, "day")
        with pytest.raises(InvalidFilter, match="No column is named"):
            analyze_table(table, [])
        for wrong in (5, [5]):
            with pytest.raises(InvalidFilter, match="name of a column is a text, not 5"):
                analyze_table(table, wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidFilter, match="a text, not <pyspark"):
            analyze_table(table, Column())


def test_thrift_does_not_print_its_errors() -> None:
    pytest.importorskip("splitlib_hive.connection", exc_type=ImportError)
    handlers = logging.getLogger("thrift").handlers
    assert any(isinstance(handler, logging.NullHandler) for handler in handlers)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: splitlib.read(ANY), "Expected a Spark session, not a NoneType"),
        (lambda: splitlib.sql("SELECT 1", ANY), r"not a str.*splitlib\.sql\(spark, 'SELECT …'\)"),  # type: ignore[arg-type]
        (lambda: splitlib.sql(Session(), ANY), "A query is a text, not a NoneType"),  # type: ignore[arg-type]
        (lambda: splitlib.analyze("db.t", ANY), "Expected a Spark session, not a str"),  # type: ignore[arg-type]
        (lambda: splitlib.audit("SELECT 1", ANY), r"not a str.*splitlib\.audit\(spark, \['SELECT"),  # type: ignore[arg-type]
        (lambda: splitlib.TableReader(ANY).table("db.t").load(), "session, not a NoneType"),
        (lambda: splitlib.read(Session), "Expected a Spark session, not the class Session"),  # type: ignore[arg-type]
        (lambda: load_table("a.b", spark=Session), "spark is a type, not a Spark session"),  # type: ignore[arg-type]
        (
            lambda: splitlib.read(Session()).table("a.b", config=SplitConfig()),  # type: ignore[arg-type]
            r"'config' is not a connector option.*\.config\(max_partitions=10\)",
        ),
        (
            lambda: splitlib.analyze(Session(), "a.b", config=SplitConfig()),  # type: ignore[arg-type]
            r"'config' is not a connector option.*spark\.splitlib\.listingThreads",
        ),
        (lambda: splitlib.doctor("s3://b"), "Expected a Spark session, not a str"),  # type: ignore[arg-type]
        (lambda: splitlib.doctor(Session), "Expected a Spark session, not the class Session"),  # type: ignore[arg-type]
    ],
)
def test_sessions(call: Callable[[], Any], message: str) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(ConfigError, match=message):
        call()


class Session:
    """A session of no kind."""

    def createDataFrame(self) -> None:
        """Exist, as the methods of a session do."""


def test_a_damaged_file_with_the_ending_of_its_format(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1 and so on PAR1")
    with pytest.raises(splitlib.SourceError, match=rf"{path}.*Hint: pass schema=.*is damaged"):
        load_table(str(tmp_path), "files")
