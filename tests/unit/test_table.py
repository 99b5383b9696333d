"""``Table`` makes all calls to a connector, with deadlines, retries and checks."""

from __future__ import annotations

import ast
import io
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import splitlib
from splitlib import SplitConfig
from splitlib.filtering.predicate import Predicate
from splitlib.model import DeleteFile, FileBatch, ReadFormat
from splitlib.storage import StoredFile, file_batch
from splitlib.table import Table
from tests.support.memory_connector import DetailedConnector

SOURCE = Path(__file__).parents[2] / "splitlib"
DOOR = {"table.py", "spark/session_catalog/connector.py"}
ASKED_AS_A_CLASS = "SupportsTableNames"  # its methods are called before a table is open
OTHERS = {"self", "args", "error"}  # their attribute ``connector`` is only a connector's name

ALL = Predicate(pa.schema([("k", pa.int32())]))
VECTOR = DeleteFile("vector", "/t/v", 10, "puffin")


class Able(DetailedConnector):
    """A connector with all optional abilities. It calls ``on_call`` before each result."""

    def check_identity(self):
        self.on_call("check_identity")

    def hosts(self, paths):
        self.on_call("hosts")
        return (["h"] for _ in paths)

    def with_physical_names(self, files):
        """Give each file different physical column names than the previous file."""
        for i in range(len(files)):
            self.on_call("with_physical_names")
            yield FileBatch(
                files.take(pa.array([i])).files, ReadFormat.of("parquet", columns={1: f"c{i % 2}"})
            )

    def read_vector(self, delete):
        self.on_call("read_vector")
        return pa.array([1, 5], pa.int64())


def files_of(count: int) -> FileBatch:
    found = file_batch((0, StoredFile(f"/t/{i}", 10, 1)) for i in range(count))
    return FileBatch(found, ReadFormat.of("parquet", columns="id"))


def paths_of(batches) -> list[str]:
    return [path for batch in batches for path in batch.files["path"].to_pylist()]


def partitions_of(table: Table):
    return next(table.list_partitions(Predicate(table.metadata.partition_schema)))


CALLS: dict[str, Callable[[Table], object]] = {
    "list_partitions": partitions_of,
    "load_details": lambda table: table.load_details(partitions_of(table)).refs.to_pylist(),
    "list_files": lambda table: paths_of(
        table.list_files(partitions_of(table), Predicate(table.metadata.partition_schema))
    ),
    "check_identity": lambda table: table.check_identity(),
    "hosts": lambda table: table.hosts(["/a", "/b"]),
    "with_physical_names": lambda table: paths_of(table.with_physical_names(files_of(4))),
    "read_vector": lambda table: table.read_vector(VECTOR).to_pylist(),
}


@pytest.mark.parametrize("method", CALLS)
def test_a_call_is_made_again_and_nothing_comes_twice(method):
    expected = CALLS[method](Table("t", "memory", Able()))
    calls = []

    def on_call(called: str) -> None:
        calls.append(called)
        # A generator fails only after it has yielded some results.
        at_file = 3 if method == "with_physical_names" else 1
        if called == method and calls.count(method) == at_file:
            raise ConnectionResetError("gone")

    found = CALLS[method](Table("t", "memory", Able(on_call=on_call)))
    if method != "list_partitions":
        assert found == expected
    assert calls.count(method) > 1


@pytest.mark.parametrize("method", CALLS)
def test_a_call_says_where_it_failed(method):
    def on_call(called: str) -> None:
        if called == method:
            raise ValueError("no such thing")

    with pytest.raises(splitlib.SourceError, match=r"connector=memory, table=t"):
        CALLS[method](Table("t", "memory", Able(on_call=on_call)))


@pytest.mark.parametrize("method", CALLS)
def test_a_call_that_hangs_ends_at_its_deadline(method):
    let_go = threading.Event()
    connector = Able(on_call=lambda called: called != method or let_go.wait(60))
    table = Table("t", "memory", connector, SplitConfig(call_deadline_seconds=0.1))
    try:
        with pytest.raises(splitlib.SourceUnavailable, match=r"0\.1 seconds.*table=t"):
            CALLS[method](table)
    finally:
        let_go.set()


def test_many_files_are_named_in_several_calls():
    calls = []

    class Noting(Able):
        def with_physical_names(self, files):
            calls.append(len(files))
            yield from super().with_physical_names(files)

    files = files_of(1001)
    named = Table("t", "memory", Noting()).with_physical_names(files)
    assert paths_of(named) == files.files["path"].to_pylist()
    assert calls == [500, 500, 1]
    assert Table("t", "memory", Noting()).with_physical_names(files_of(0)) == []


class Losing(Able):
    """A connector that returns results with missing or invalid entries."""

    def hosts(self, paths):
        return [["h"]]

    def with_physical_names(self, files):
        yield files.take(pa.array([0]))

    def read_vector(self, delete):
        return pa.array([1, None], pa.int64())


class Repeating(Losing):
    def with_physical_names(self, files):
        yield files
        yield files.take(pa.array([0]))

    def read_vector(self, delete):
        return pa.array([1.0])


@pytest.mark.parametrize("method", ["hosts", "with_physical_names", "read_vector"])
@pytest.mark.parametrize("connector", [Losing, Repeating])
def test_an_answer_that_is_not_complete_is_refused(connector, method):
    with pytest.raises(splitlib.CorruptMetadata, match="connector=memory, table=t"):
        CALLS[method](Table("t", "memory", connector()))


@pytest.mark.parametrize("hosts", ["h", None, [None], [b"h"]])
def test_hosts_that_are_no_names(hosts):
    """Invalid hosts raise an error that names the connector."""

    class Broken(Able):
        def hosts(self, paths):
            return [hosts for _ in paths]

    table = Table("t", "memory", Broken())
    with pytest.raises(splitlib.SplitlibError, match="connector=memory, table=t"):
        list(splitlib.DynamicFileEnumerator(table).enumerate_splits())


def test_a_connector_without_abilities():
    table = Table("t", "memory", DetailedConnector())
    assert table.partitions_per_listing == 1
    assert table.partitions_per_details == 4
    assert table.hosts(["/a"]) is None
    assert not table.knows_physical_names
    table.check_identity()
    with pytest.raises(splitlib.UnsupportedTable, match="memory does not decode"):
        table.read_vector(VECTOR)


def test_a_table_shows_its_name_and_keys():
    table = Table("s3://me:secret@bucket/t", "memory", DetailedConnector())
    assert repr(table) == "Table('s3://***@bucket/t', connector='memory', keys=[k])"
    whole = replace(table.metadata, partition_keys=())
    connector = DetailedConnector()
    connector.describe = lambda: whole  # type: ignore[method-assign]
    assert repr(Table("t", "memory", connector)).endswith("keys=[unpartitioned])")


class Placed(Able):
    def describe(self):
        return replace(super().describe(), location="/t")

    def storage_options(self, protocol):
        return {"of": protocol}


def test_a_location_that_the_call_does_not_allow():
    calls: list[str] = []
    table = Table("t", "memory", Placed(on_call=calls.append))
    allowed = SplitConfig(allowed_locations=("/elsewhere",))
    with pytest.raises(splitlib.LocationNotAllowed, match="'/t' is outside of allowed_locations"):
        next(table.list_partitions(ALL, allowed))
    assert calls == []


class ReadsItself(Able):
    """A connector that reads the ends of files, and notes their paths."""

    def read_end(self, path, size, length):
        self.on_call(path)
        return b"end"


def test_no_file_outside_is_read():
    calls: list[str] = []
    here, elsewhere = (SplitConfig(allowed_locations=(place,)) for place in ("/t", "/elsewhere"))
    file = StoredFile("/t/f", 9, 1)
    restricted = Table("t", "memory", ReadsItself(on_call=calls.append), elsewhere)
    everywhere = Table("t", "memory", ReadsItself(on_call=calls.append), SplitConfig())
    for table, config in ((restricted, None), (restricted, here), (everywhere, elsewhere)):
        for read in (
            lambda table=table, config=config: table.read_end(file, 3, config),
            lambda table=table, config=config: table.read_footer(file, config),
            lambda table=table, config=config: table.refuse_outside([file.path], config),
        ):
            with pytest.raises(splitlib.LocationNotAllowed, match=r"'/t/f' is outside.*table=t"):
                read()
    assert calls == []
    for config in (None, here):
        everywhere.refuse_outside([file.path], config)
        assert everywhere.read_end(file, 3, config) == b"end"


def test_settings_of_a_wrong_type():
    wrong: Any = {"allowed_locations": ["/t"]}
    message = r"config is a dict, not a SplitConfig.*connector=memory, table=t"
    with pytest.raises(splitlib.ConfigError, match=message):
        Table("t", "memory", Able(), wrong)
    table = Table("t", "memory", Able())
    for call in (
        lambda: next(table.list_partitions(ALL, wrong)),
        lambda: table.list_files(partitions_of(table), ALL, wrong),
        lambda: table.check_identity(wrong),
        lambda: table.refuse_outside([], wrong),
        lambda: table.read_end(StoredFile("/t/f", 9, 1), 3, wrong),
    ):
        with pytest.raises(splitlib.ConfigError, match="config is a dict, not a SplitConfig"):
            call()


class InCapitals(Able):
    def describe(self):
        kinds = [("k", pa.int32()), ("K", pa.int32())]
        return replace(
            super().describe(),
            schema=pa.schema(kinds),
            partition_keys=("k", "K"),
            filter_schema=None,
        )


def test_partition_columns_that_differ_only_in_case():
    """Spark has such tables with spark.sql.caseSensitive, but filters ignore case."""
    with pytest.raises(splitlib.UnsupportedTable, match="differ only in case: k, K"):
        Table("t", "memory", InCapitals())


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()])
@pytest.mark.parametrize("name", ["timeZone", "TIMEZONE", "other"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_partition_values_in_another_time_zone_are_refused(kind, name, zone):
    class Zoned(Able):
        def describe(self):
            form = ReadFormat.of("csv", {name: zone})
            schema = pa.schema([("k", kind)])
            return replace(super().describe(), schema=schema, read_format=form, filter_schema=None)

    table = Table("t", "memory", Zoned())
    if zone == "UTC" or name == "other" or pa.types.is_date(kind) or kind.tz is None:
        partitions_of(table)
        return
    with pytest.raises(
        splitlib.UnsupportedTable, match=r"timeZone is Asia/Tokyo, .* in use is UTC"
    ):
        partitions_of(table)


def test_options_of_the_storage():
    assert Table("t", "memory", Placed()).storage_options("s3") == {"of": "s3"}
    assert Table("t", "memory", Able()).storage_options("s3") == {}


def test_a_footer_that_the_connector_reads_itself():
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": [1]}), sink)
    data = sink.getvalue()

    class Reads(Able):
        def read_end(self, path, size, length):
            assert (path, size) == ("/t/f", len(data))
            return data[-length:]

    found = Table("t", "memory", Reads()).read_footer(StoredFile("/t/f", len(data), 1))
    assert pq.read_metadata(io.BytesIO(found)).num_rows == 1


def asks_a_connector(code: str) -> list[str]:
    """Return the expressions in ``code`` that use a table's connector or its abilities."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr == "connector":
            found += [ast.unparse(node)] if ast.unparse(node.value) not in OTHERS else []
        elif isinstance(node, ast.ImportFrom) and node.module == "splitlib.spi":
            names = [name.name for name in node.names if name.name.startswith("Supports")]
            found += [name for name in names if name != ASKED_AS_A_CLASS]
    return found


def test_nothing_but_table_asks_a_connector():
    files = {str(path.relative_to(SOURCE)): path for path in SOURCE.rglob("*.py")}
    assert DOOR & files.keys()
    asking = {name: asks_a_connector(path.read_text("utf-8")) for name, path in files.items()}
    assert {name: found for name, found in asking.items() if found and name not in DOOR} == {}
    assert asks_a_connector("self.table.connector.hosts([])") == ["self.table.connector"]
    assert asks_a_connector("from splitlib.spi import SupportsHosts") == ["SupportsHosts"]


def test_enumerations_have_the_settings_of_their_table(tmp_path):
    for k in range(3):
        (tmp_path / f"k={k}").mkdir()
        pq.write_table(pa.table({"a": [k]}), tmp_path / f"k={k}" / "f.parquet")
    one = splitlib.SplitConfig(max_partitions=1)
    with splitlib.load_table(str(tmp_path), "files", config=one) as table:
        with pytest.raises(splitlib.TooManyPartitions):
            list(splitlib.DynamicFileEnumerator(table).enumerate_splits())
        with pytest.raises(splitlib.TooManyPartitions):
            splitlib.paths(table)
        assert len(splitlib.paths(table, config=splitlib.SplitConfig())) == 3
