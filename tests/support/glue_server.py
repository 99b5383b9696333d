"""A server of AWS Glue's JSON protocol that records its requests, and answers as Glue does.

moto ignores segments, the size of pages and the exclusion of columns. This server keeps to them.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_HOST = "127.0.0.1"
_MOST = 1000
_PARQUET = "org.apache.hadoop.hive.ql.io.parquet."
Fault = Callable[["_Handler", bytes], None]
"""Answers a request instead of the server. Receives the handler and the right answer."""


def stored(location: str, columns: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    """Return the storage descriptor of Parquet files."""
    return {
        "Columns": list(columns),
        "Location": location,
        "InputFormat": _PARQUET + "MapredParquetInputFormat",
        "OutputFormat": _PARQUET + "MapredParquetOutputFormat",
        "SerdeInfo": {"SerializationLibrary": _PARQUET + "serde.ParquetHiveSerDe"},
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # a client opens ten connections at a time

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write no log: clients of some tests close connections early."""


class GlueServer:
    """A server whose databases and tables are Python objects.

    Attributes:
        requests: Operation and arguments of each request, in the order of arrival.
        keys: Access key of each request.
        clients: Port of the client's connection, for each request.
        targets: Path of each request, or its address if the client uses this server as a proxy.
        proxy_logins: The headers ``Proxy-Authorization`` of all requests.
        faults: The fault of each of the next requests; None answers right.
        tables: Tables by catalog id, database and name, as in answers of ``GetTable``.
        filters: For tables of Lake Formation, the answers of ``GetUnfilteredTableMetadata``.
        unprocessed: How many keys each of the next ``BatchGetPartition`` leaves unprocessed.
        is_expression_refused: Whether expressions are an error.
        segments_are_ignored: Whether each segment has all partitions, as in moto.
        page: Maximum number of partitions per page.
    """

    catalog = "123456789012"

    def __init__(self) -> None:
        self._server = _Server((_HOST, 0), _handler_of(self))
        self._lock = threading.Lock()
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str] = []
        self.clients: list[int] = []
        self.targets: list[str] = []
        self.proxy_logins: set[str | None] = set()
        self.faults: list[Fault | None] = []
        self.tables: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.filters: dict[str, dict[str, Any]] = {}
        self.unprocessed: list[int] = []
        self.is_expression_refused = False
        self.segments_are_ignored = False
        self.page = _MOST
        self._partitions: dict[tuple[str, str, str], dict[tuple[str, ...], dict[str, Any]]] = {}

    @property
    def options(self) -> dict[str, Any]:
        """Options with which the connector uses this server."""
        return {
            "endpoint_url": f"http://{_HOST}:{self._server.server_port}",
            "region": "eu-west-1",
            "key": "key-for-glue",
            "secret": "secret-for-glue",
        }

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the server."""
        return _HOST, self._server.server_port

    def names(self) -> list[str]:
        """Return the operation of each request."""
        with self._lock:
            return [name for name, _ in self.requests]

    def add_table(self, database: str, name: str, *, catalog: str = "", **table: Any) -> None:
        """Add a table, with fields as in answers of Glue."""
        where = (catalog or self.catalog, database, name)
        names = {"CatalogId": where[0], "DatabaseName": database, "Name": name}
        self.tables[where] = {"CreateTime": time.time(), **names, **table}
        self._partitions[where] = {}

    def partitions(self, database: str, name: str) -> dict[tuple[str, ...], dict[str, Any]]:
        """Return the partitions of a table by their values; may be changed."""
        return self._partitions[self.catalog, database, name]

    def drop_table(self, database: str, name: str) -> None:
        """Remove a table and its partitions."""
        del self.tables[self.catalog, database, name]
        del self._partitions[self.catalog, database, name]

    @contextmanager
    def running(self) -> Iterator[GlueServer]:
        """Serve requests inside the ``with`` block."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def received(
        self, operation: str, given: dict[str, Any], key: str, client: int
    ) -> Fault | None:
        """Record a request, and return its fault."""
        with self._lock:
            self.requests.append((operation, given))
            self.keys.append(key)
            self.clients.append(client)
            return self.faults.pop(0) if self.faults else None

    def answer(self, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the right answer to a request."""
        operations: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "GetTable": lambda given: {"Table": self._table(given, given["Name"])[1]},
            "GetTables": self._get_tables,
            "GetDatabases": self._get_databases,
            "GetPartitions": self._get_partitions,
            "BatchGetPartition": self._batch_get_partition,
            "GetUnfilteredTableMetadata": self._get_unfiltered,
        }
        return operations[operation](given)

    def _table(self, given: Mapping[str, Any], name: str) -> tuple[Any, dict[str, Any]]:
        where = (given.get("CatalogId", self.catalog), given["DatabaseName"], name)
        if where not in self.tables:
            raise Refusal("EntityNotFoundException", "Entity Not Found")
        return where, self.tables[where]

    def _get_tables(self, given: dict[str, Any]) -> dict[str, Any]:
        names = sorted(name for _, db, name in self.tables if db == given["DatabaseName"])
        if not names:
            raise Refusal("EntityNotFoundException", f"Database {given['DatabaseName']} not found.")
        at = int(given.get("NextToken", "0"))
        more = {"NextToken": str(at + 2)} if at + 2 < len(names) else {}
        return {"TableList": [{"Name": name} for name in names[at : at + 2]], **more}

    def _get_databases(self, given: dict[str, Any]) -> dict[str, Any]:
        return {
            "DatabaseList": [{"Name": name} for name in sorted({db for _, db, _ in self.tables})]
        }

    def _get_partitions(self, given: dict[str, Any]) -> dict[str, Any]:
        where, table = self._table(given, given["TableName"])
        accepts = self._condition(table, given.get("Expression"))
        whole = {"SegmentNumber": 0, "TotalSegments": 1}
        segment = whole if self.segments_are_ignored else given.get("Segment", whole)
        found = [
            partition
            for values, partition in self._partitions[where].items()
            if zlib.crc32(repr(values).encode()) % segment["TotalSegments"]
            == segment["SegmentNumber"]
        ]
        at = int(given.get("NextToken", "0"))
        size = min(given.get("MaxResults", _MOST), self.page)
        more = {"NextToken": str(at + size)} if at + size < len(found) else {}
        # As in Glue, a condition shortens pages: they may even be empty, with a token.
        page = [each for each in found[at : at + size] if accepts(each)]
        if given.get("ExcludeColumnSchema"):
            page = [_without_columns(partition) for partition in page]
        return {"Partitions": page, **more}

    def _condition(self, table: dict[str, Any], text: str | None) -> Callable[[Any], bool]:
        if text is None:
            return lambda _: True
        if self.is_expression_refused:
            raise Refusal("InvalidInputException", "Unsupported expression")
        keys = [key["Name"] for key in table["PartitionKeys"]]
        wanted: dict[int, set[str]] = {}
        for part in text.split(" AND "):
            found = re.fullmatch(r"(\w+) IN \(('[^']*'(?:, '[^']*')*)\)", part)
            assert found is not None, text
            wanted[keys.index(found[1])] = {each.strip("'") for each in found[2].split(", ")}
        return lambda each: all(each["Values"][at] in values for at, values in wanted.items())

    def _batch_get_partition(self, given: dict[str, Any]) -> dict[str, Any]:
        where, _ = self._table(given, given["TableName"])
        keys = [tuple(each["Values"]) for each in given["PartitionsToGet"]]
        assert len(keys) <= _MOST
        left = self.unprocessed.pop(0) if self.unprocessed else 0
        done = keys[: len(keys) - left]
        known = self._partitions[where]
        return {
            "Partitions": [known[key] for key in reversed(done) if key in known],
            "UnprocessedKeys": [{"Values": list(key)} for key in keys[len(done) :]],
        }

    def _get_unfiltered(self, given: dict[str, Any]) -> dict[str, Any]:
        _, table = self._table(given, given["Name"])
        if given["Name"] not in self.filters:
            raise Refusal("AccessDeniedException", "Insufficient Lake Formation permission(s)")
        return {"Table": table, **self.filters[given["Name"]]}


class Refusal(Exception):
    """An error of Glue, with its code and message."""


def refusal(code: str, status: int = 400) -> Fault:
    """Return a fault: the server reports an error with this code."""

    def answer(handler: _Handler, right: bytes) -> None:
        body = json.dumps({"__type": code, "Message": f"{code} of the test"}).encode()
        handler.reply(status, body)

    return answer


def cut(handler: _Handler, right: bytes) -> None:
    """Fault: the connection ends in the middle of the answer."""
    handler.reply(200, right[: len(right) // 2], length=len(right))
    handler.close_connection = True


def shortened(handler: _Handler, right: bytes) -> None:
    """Fault: the body ends early, and its length agrees."""
    handler.reply(200, right[: len(right) // 2])


def emptied(handler: _Handler, right: bytes) -> None:
    """Fault: the answer has no body."""
    handler.reply(200, b"")


def error_page(handler: _Handler, right: bytes) -> None:
    """Fault: a load balancer answers."""
    handler.reply(200, b"<html>Service is busy</html>")


def compressed(handler: _Handler, right: bytes) -> None:
    """Fault: the body is compressed, although the client has not allowed it."""
    handler.reply(200, gzip.compress(right), headers={"Content-Encoding": "gzip"})


def hung_up(handler: _Handler, right: bytes) -> None:
    """Fault: the connection ends without an answer."""
    handler.close_connection = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of_glue: GlueServer

    def do_POST(self) -> None:
        """Answer one request."""
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        operation = self.headers["X-Amz-Target"].removeprefix("AWSGlue.")
        signed = re.search("Credential=([^/]+)", self.headers.get("Authorization", ""))
        key, (_, port) = signed[1] if signed else "", self.client_address
        self.server_of_glue.targets.append(self.path)
        self.server_of_glue.proxy_logins.add(self.headers.get("Proxy-Authorization"))
        fault = self.server_of_glue.received(operation, given, key, port)
        try:
            status, found = 200, self.server_of_glue.answer(operation, given)
        except Refusal as error:
            status, found = 400, {"__type": error.args[0], "Message": error.args[1]}
        body = json.dumps(found).encode()
        if fault is None:
            self.reply(status, body)
        else:
            fault(self, body)

    def reply(
        self,
        status: int,
        body: bytes,
        length: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send an answer."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log."""


def _handler_of(server: GlueServer) -> type[_Handler]:
    return type("Handler", (_Handler,), {"server_of_glue": server})


def _without_columns(partition: dict[str, Any]) -> dict[str, Any]:
    stored = {k: v for k, v in partition["StorageDescriptor"].items() if k != "Columns"}
    return {**partition, "StorageDescriptor": stored}
