import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    FieldSchema,
    Order,
    Partition,
)

from splitlib.testing import HiveMetastore
from tests.support.thrift_client import parquet_table, thrift_client

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]

TRICKY_VALUES = [
    ("plain", "1"),
    ("a b/c=d:e%20", "2"),
    ("\"#%'*/:=?\\{[]^\x7f", "3"),
    ("tab\tline\nend", "4"),
    ('comma, "quoted"', "5"),
    ("Ünïcode €", "6"),
    (None, "7"),
    ("", "8"),
]
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(scope="module")
def metastore() -> Iterator[HiveMetastore]:
    with HiveMetastore() as metastore:
        yield metastore


def _port(metastore: HiveMetastore) -> int:
    return int(metastore.uri.rsplit(":", 1)[1])


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError:
        return False
    return True


def _create_table(metastore: HiveMetastore, name: str) -> None:
    keys = [FieldSchema("k", "string", ""), FieldSchema("n", "int", "")]
    table = parquet_table(name, FieldSchema("x", "int", ""), keys)
    # Bulk-added partitions must copy these settings from their table.
    table.sd.serdeInfo.parameters = {"serialization.format": "1", "more": "2"}
    table.sd.sortCols = [Order("x", 1)]
    table.sd.parameters = {"of": "descriptor"}
    with thrift_client(metastore) as client:
        client.create_table(table)


def _add_normally(client: Any, table: str, values: Sequence[tuple[str | None, ...]]) -> None:
    """Add partitions through Thrift, the usual way. The metastore chooses their directories."""
    descriptor = client.get_table("default", table).sd
    descriptor.location = None
    client.add_partitions(
        [
            Partition(
                values=[value or DEFAULT_PARTITION for value in row],
                dbName="default",
                tableName=table,
                createTime=0,
                lastAccessTime=0,
                sd=descriptor,
                parameters={},
            )
            for row in values
        ]
    )


def _without_identity(partition: Any, table: str) -> Any:
    """Replace times and table name, so that equal partitions of two tables compare as equal."""
    assert abs(partition.createTime - time.time()) < 600
    assert partition.parameters["transient_lastDdlTime"] == str(partition.createTime)
    partition.parameters["transient_lastDdlTime"] = "now"
    partition.createTime = 0
    partition.tableName = "table"
    assert f"/{table}/" in partition.sd.location
    partition.sd.location = partition.sd.location.replace(f"/{table}/", "/table/")
    return partition


def _partitions(client: Any, table: str) -> dict[str, Any]:
    names = client.get_partition_names("default", table, -1)
    partitions = client.get_partitions_by_names("default", table, names)
    assert len(partitions) == len(names)
    return {
        "/".join(partition.values): _without_identity(partition, table) for partition in partitions
    }


def test_answers_and_keeps_its_files_inside_its_directory(metastore: HiveMetastore) -> None:
    with thrift_client(metastore) as client:
        assert client.get_all_databases() == ["default"]
        location = client.get_database("default").locationUri
    assert location == f"file:{metastore.warehouse}"
    assert (metastore.directory / "derby.log").exists()


def test_listens_on_the_loopback_interface_only(metastore: HiveMetastore) -> None:
    assert _accepts("127.0.0.1", _port(metastore))
    assert not _accepts("127.0.0.2", _port(metastore))


def test_bulk_added_partitions_equal_normally_added_ones(metastore: HiveMetastore) -> None:
    _create_table(metastore, "normal")
    _create_table(metastore, "bulk")
    metastore.bulk_add_partitions("default", "BULK", TRICKY_VALUES)
    with thrift_client(metastore) as client:
        _add_normally(client, "normal", TRICKY_VALUES)
        assert client.get_partition_names("default", "bulk", -1) == client.get_partition_names(
            "default", "normal", -1
        )
        bulk, normal = _partitions(client, "bulk"), _partitions(client, "normal")
    assert len(bulk) == len(TRICKY_VALUES)
    assert bulk == normal


def test_bulk_and_normal_additions_take_turns(metastore: HiveMetastore) -> None:
    _create_table(metastore, "turns")
    values = [(f"k{i}", str(i)) for i in range(2_000)]
    with thrift_client(metastore) as client:
        _add_normally(client, "turns", [("before", "0")])
        metastore.bulk_add_partitions("default", "turns", values)
        _add_normally(client, "turns", [(f"after{i}", "0") for i in range(20)])
        metastore.bulk_add_partitions("default", "turns", [("last", "0")], ["file:/elsewhere"])
        names = client.get_partition_names("default", "turns", -1)
        [found] = client.get_partitions_by_names("default", "turns", ["k=k1234/n=1234"])
        [elsewhere] = client.get_partitions_by_names("default", "turns", ["k=last/n=0"])
    assert len(names) == len(set(names)) == 2_022
    assert found.values == ["k1234", "1234"]
    assert found.sd.location == f"file:{metastore.warehouse}/turns/k=k1234/n=1234"
    assert elsewhere.sd.location == "file:/elsewhere"


def test_bulk_import_that_fails_adds_nothing_and_does_not_disturb(
    metastore: HiveMetastore,
) -> None:
    _create_table(metastore, "failing")
    metastore.bulk_add_partitions("default", "failing", [("a", "1")])
    with pytest.raises(ValueError, match=r"default\.failing.*exists already"):
        metastore.bulk_add_partitions("default", "failing", [("b", "1"), ("a", "1")])
    with pytest.raises(ValueError, match="zip"):
        metastore.bulk_add_partitions("default", "failing", [("b",)])
    with pytest.raises(ValueError, match="1 partitions, but 2 locations"):
        metastore.bulk_add_partitions("default", "failing", [("b", "1")], ["x", "y"])
    with pytest.raises(LookupError, match=r"no table default\.missing"):
        metastore.bulk_add_partitions("default", "missing", [("b", "1")])
    with thrift_client(metastore) as client:
        _add_normally(client, "failing", [("c", "1")])
        names = client.get_partition_names("default", "failing", -1)
    assert names == ["k=a/n=1", "k=c/n=1"]


SPARK_SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sql("CREATE DATABASE db")
spark.sql("CREATE TABLE db.t (x INT, d STRING) USING parquet PARTITIONED BY (d)")
spark.sql("INSERT INTO db.t VALUES (1, 'a'), (2, 'b'), (3, 'b')")
written = [list(row) for row in spark.table("db.t").orderBy("x").collect()]
read = [list(row) for row in spark.table("for_spark").where("n = 5").collect()]
spark.sql("ALTER TABLE for_spark ADD PARTITION (k = 'late', n = 1)")
partitions = spark.sql("SHOW PARTITIONS for_spark").count()
print(json.dumps({"written": written, "read": read, "partitions": partitions}))
"""


def test_spark_session_uses_the_metastore_and_bulk_added_partitions(
    metastore: HiveMetastore, tmp_path: Path
) -> None:
    _create_table(metastore, "for_spark")
    metastore.bulk_add_partitions(
        "default", "for_spark", [("a b", "5"), *((f"k{i}", str(i)) for i in range(2_000))]
    )
    directory = metastore.warehouse / "for_spark" / "k=a b" / "n=5"
    directory.mkdir(parents=True)
    pq.write_table(pa.table({"x": pa.array([7], pa.int32())}), directory / "file.parquet")
    # A running session cannot change its catalog, so the query runs in another process.
    conf = {**metastore.spark_conf(), "spark.sql.shuffle.partitions": "2"}
    spark = subprocess.run(
        [sys.executable, "-c", SPARK_SCRIPT, json.dumps(conf)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert spark.returncode == 0, spark.stderr
    result = json.loads(spark.stdout.splitlines()[-1])
    assert result == {
        "written": [[1, "a"], [2, "b"], [3, "b"]],
        "read": [[7, "a b", 5]],
        "partitions": 2_002,
    }
    written = {path.name for path in tmp_path.iterdir()}
    assert written.isdisjoint({"derby.log", "metastore_db", "spark-warehouse"})
    with thrift_client(metastore) as client:
        assert client.get_partition_names("db", "t", -1) == ["d=a", "d=b"]


def test_comes_back_after_a_kill_with_its_port_and_data(tmp_path: Path) -> None:
    metastore = HiveMetastore(tmp_path / "a directory")
    metastore.start()
    uri = metastore.uri
    _create_table(metastore, "survivor")
    metastore.bulk_add_partitions("default", "survivor", TRICKY_VALUES)
    metastore.kill()
    assert not _accepts("127.0.0.1", _port(metastore))
    metastore.start()
    try:
        assert metastore.uri == uri
        with thrift_client(metastore) as client:
            assert len(client.get_partition_names("default", "survivor", -1)) == len(TRICKY_VALUES)
    finally:
        metastore.stop()
    assert metastore.directory.exists()


def test_stop_ends_the_process_and_removes_a_temporary_directory_only() -> None:
    metastore = HiveMetastore()
    with metastore:
        port = _port(metastore)
        assert metastore.directory.exists()
    assert not metastore.directory.exists()
    assert not _accepts("127.0.0.1", port)
    metastore.stop()
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        metastore.bulk_add_partitions("default", "t", [])


@pytest.mark.parametrize("end", ["sys.exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_does_not_outlive_the_program_that_forgets_it(end: str, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from splitlib.testing import HiveMetastore\n"
        f"metastore = HiveMetastore({str(tmp_path)!r}); metastore.start()\n"
        f"print(metastore.uri, flush=True); {end}\n"
    )
    root = Path(__file__).parents[3]
    program = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert program.returncode in (3, -signal.SIGKILL), program.stderr
    port = int(program.stdout.strip().rsplit(":", 1)[1])
    deadline = time.monotonic() + 10
    while _accepts("127.0.0.1", port):
        assert time.monotonic() < deadline, "the metastore is still there"
        time.sleep(0.05)


def test_error_of_a_start_that_fails_ends_with_the_log(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("no database")
    with pytest.raises(RuntimeError, match="did not start") as error:
        HiveMetastore(tmp_path).start()
    assert str(tmp_path) in str(error.value)
    assert "java.sql.SQLException" in str(error.value)


def test_error_of_a_port_in_use_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"port .{port}. free"):
            HiveMetastore(tmp_path, port=port).start()


def test_start_gives_up_after_its_timeout(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"start_timeout_seconds=0\.5"):
        HiveMetastore(tmp_path, start_timeout_seconds=0.5).start()


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeError, match="install a Java 17 runtime"):
        HiveMetastore(tmp_path).start()
