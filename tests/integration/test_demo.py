"""``splitlib demo`` and other commands work when a user starts them, on a real metastore."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor
from hmsclient.genthrift.hive_metastore.ttypes import Table as ThriftTable

from splitlib.cli import main
from splitlib.testing import HiveMetastore
from tests.integration.conftest import SHORT_LIVED_JAVA
from tests.support.thrift_client import thrift_client

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

Demo = tuple[dict[str, Any], str, Path]


@pytest.fixture(autouse=True)
def _java() -> None:
    if shutil.which("java") is None:
        pytest.fail("Java is not on PATH; these tests run Spark and a Hive metastore")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Run ``splitlib demo --json``. Return its output, its log, and its working directory."""
    directory = tmp_path_factory.mktemp("demo")
    sources = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "splitlib", "demo", "--scale", "0.01", "--json"]
    done = subprocess.run(
        [*command, "--directory", str(directory)],
        env={**os.environ, **SHORT_LIVED_JAVA, "PYTHONPATH": sources},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr, directory


def test_all_three_count_what_duckdb_counts(demo: Demo) -> None:
    result, _, _ = demo
    assert result["expected"]["count"] > 0
    assert [run["name"] for run in result["runs"]] == [
        "Spark without DPP",
        "Spark with DPP",
        "splitlib",
    ]
    assert {run["count"] for run in result["runs"]} == {result["expected"]["count"]}


def test_splitlib_fetches_lists_and_reads_the_matching_partitions_alone(demo: Demo) -> None:
    result, _, _ = demo
    needed = result["expected"]["partitions"]
    run = result["runs"][2]
    assert run["partitions"] == needed
    assert run["partitions_fetched"] == run["files_read"] == len(needed) < result["partitions"]
    # The run also lists the directory of the dimension.
    assert run["directories_listed"] == len(needed) + 1


def test_spark_fetches_and_lists_all_of_them(demo: Demo) -> None:
    result, _, _ = demo
    without_dpp, with_dpp, splitlib = result["runs"]
    for run in (without_dpp, with_dpp):
        assert run["partitions_fetched"] == result["partitions"]
        # Spark lists all partitions except the null partition, and the dimension's directory.
        assert run["directories_listed"] == result["partitions"]
    assert without_dpp["files_read"] == result["partitions"] - 1
    assert with_dpp["files_read"] == splitlib["files_read"]
    assert with_dpp["bytes_read"] == splitlib["bytes_read"] < without_dpp["bytes_read"]


def test_the_demo_says_what_it_does_and_leaves_nothing(demo: Demo) -> None:
    result, said, directory = demo
    steps = [line.partition(" … ")[0] for line in said.splitlines()]
    assert steps == list(result["steps"])
    assert f"registering {result['partitions']:,} partitions" in steps
    assert list(directory.iterdir()) == []


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """Start a metastore whose table ``default.events`` has two partitions of an integer key."""
    with HiveMetastore(tmp_path_factory.mktemp("metastore")) as running:
        parquet = "org.apache.hadoop.hive.ql.io.parquet."
        events = ThriftTable(
            dbName="default",
            tableName="events",
            sd=StorageDescriptor(
                cols=[FieldSchema("x", "int", "")],
                inputFormat=parquet + "MapredParquetInputFormat",
                outputFormat=parquet + "MapredParquetOutputFormat",
                serdeInfo=SerDeInfo(
                    serializationLib=parquet + "serde.ParquetHiveSerDe", parameters={}
                ),
                parameters={},
            ),
            partitionKeys=[FieldSchema("k", "int", "")],
            parameters={},
            tableType="MANAGED_TABLE",
        )
        with thrift_client(running) as client:
            client.create_table(events)
        for k in ("1", "2"):
            directory = running.warehouse / "events" / f"k={k}"
            directory.mkdir(parents=True)
            (directory / "data").write_bytes(b"12345")
        running.bulk_add_partitions("default", "events", [("1",), ("2",)])
        yield running


def test_tables(metastore: HiveMetastore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", "--uri", metastore.uri]) == 0
    assert capsys.readouterr().out == "default.events\n"
    assert main(["tables", "DEFAULT", "--uri", metastore.uri, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row == {"database": "default", "table": "events"}
    assert main(["tables", "defualt", "--uri", metastore.uri]) == 2
    assert "did you mean 'default'?" in capsys.readouterr().err


def test_a_table_of_a_metastore(
    metastore: HiveMetastore, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["default.events", "--uri", metastore.uri, "--filter", "k=2"]
    assert main(["partitions", *where]) == 0
    assert capsys.readouterr().out == "k=2\n"
    assert main(["plan", *where, "--json"]) == 0
    split = json.loads(capsys.readouterr().out)
    assert Path(split["path"]) == metastore.warehouse / "events" / "k=2" / "data"
    assert (split["length"], split["partition_values"]) == (5, {"k": 2})
