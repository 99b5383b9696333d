"""TLS, HTTP with a token, and catalogs."""

from __future__ import annotations

import os
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme
from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore as Api
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TType
from thrift.transport.TTransport import TMemoryBuffer, TTransportException

from splitlib import DynamicFileEnumerator, load_table
from splitlib.errors import (
    AccessDenied,
    ConfigError,
    SourceError,
    SourceUnavailable,
)
from splitlib_hive.client import MetastoreClient, parse_uris
from splitlib_hive.connection import DeadlineSocket
from splitlib_hive.security import security_of, tls_error
from tests.unit.connectors.hive.fake_metastore import FakeMetastore, served, table_of

TOKEN = "eyJ-a-bearer-token-of-a-test"


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return paths of PEM files: an authority, a server, a client, and a stranger's authority."""
    place = tmp_path_factory.mktemp("pems")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(place / "ca"))
    trustme.CA().cert_pem.write_to_path(str(place / "other_ca"))
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
        str(place / "server")
    )
    authority.issue_cert("other.example").private_key_and_cert_chain_pem.write_to_path(
        str(place / "other_host")
    )
    client = authority.issue_cert("client@example.com")
    client.private_key_pem.write_to_path(str(place / "key"))
    client.cert_chain_pems[0].write_to_path(str(place / "certificate"))
    return {path.name: str(path) for path in place.iterdir()}


def server_context(pems: dict[str, str], name: str = "server") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pems[name])
    return context


def metastore() -> FakeMetastore:
    fake = FakeMetastore()
    fake.tables["d", "t"] = table_of("file:///nowhere", "k")
    fake.partitions["d", "t"] = {}
    return fake


def client_of(uri: str, **options: Any) -> MetastoreClient:
    addresses = parse_uris(uri)
    return MetastoreClient(addresses, security=security_of(options, addresses), timeout_seconds=10)


def databases(uri: str, **options: Any) -> list[str]:
    client = client_of(uri, **options)
    try:
        return client.get_databases()
    finally:
        client.close()


def test_tls_with_a_trusted_certificate(pems):
    with served(metastore(), server_context(pems)) as server:
        assert databases(server.uri, tls_ca=pems["ca"]) == ["d"]
        table = load_table("d.t", connector="hive", uri=server.uri, tls_ca=pems["ca"])
        assert table.partition_keys == ("k",)


@pytest.mark.parametrize(
    ("name", "options"), [("server", {"tls": "true"}), ("server", {"tls_ca": "other_ca"})]
)
def test_a_certificate_of_an_unknown_authority_is_refused(pems, name, options):
    options = {key: pems.get(value, value) for key, value in options.items()}
    with (
        served(metastore(), server_context(pems, name)) as server,
        pytest.raises(SourceError, match=r"certificate of thrift://127\.0\.0\.1.* not trusted"),
    ):
        databases(server.uri, **options)


def test_a_certificate_of_another_host_is_refused(pems):
    with (
        served(metastore(), server_context(pems, "other_host")) as server,
        pytest.raises(SourceError, match="not trusted"),
    ):
        databases(server.uri, tls_ca=pems["ca"])


def test_the_certificate_of_a_client(pems):
    context = server_context(pems)
    context.load_verify_locations(pems["ca"])
    context.verify_mode = ssl.CERT_REQUIRED
    own = {"tls_certificate": pems["certificate"], "tls_key": pems["key"]}
    with served(metastore(), context) as server:
        assert databases(server.uri, tls_ca=pems["ca"], **own) == ["d"]
        # The server may close the connection before the client has read why.
        errors = AccessDenied, SourceError, SourceUnavailable
        with pytest.raises(errors) as refused:
            databases(server.uri, tls_ca=pems["ca"])
        assert "tls_certificate" in str(refused.value.hint)


def test_a_metastore_without_tls(pems):
    with (
        served(metastore()) as server,
        pytest.raises((SourceError, SourceUnavailable)) as error,
    ):
        databases(server.uri, tls_ca=pems["ca"])
    assert "TLS" in f"{error.value} {error.value.hint}"


def test_a_metastore_that_requires_tls(pems):
    with (
        served(metastore(), server_context(pems)) as server,
        pytest.raises(SourceUnavailable) as error,
    ):
        databases(server.uri)
    assert "TLS" in str(error.value.hint)


def test_which_error_is_of_tls():
    """Some releases of Thrift wrap errors of a socket in an error of their own."""
    error = ssl.SSLError("bad handshake")
    assert tls_error(error) is error
    assert tls_error(TTransportException(inner=error)) is error
    for other in (OSError(), TTransportException(inner=OSError()), ssl.SSLWantReadError()):
        assert tls_error(other) is None


class _HttpMetastore(BaseHTTPRequestHandler):
    """Answers thrift calls in the bodies of POST requests with the right token."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_POST(self) -> None:
        self.server.headers.append(dict(self.headers))
        body = TMemoryBuffer(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = 200, TMemoryBuffer()
        if self.server.is_mute:
            pass
        elif self.server.status:
            status, answer = self.server.status, TMemoryBuffer(b"who are you?")
        elif self.path != "/metastore":
            status = 404
        else:
            self.server.processor.process(TBinaryProtocol(body), TBinaryProtocol(answer))
        self.send_response(status)
        data = answer.getvalue()
        if self.server.closes:
            self.send_header("Connection", "close")
        if self.server.in_chunks:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"".join(b"1\r\n%c\r\n" % byte for byte in data) + b"0\r\n\r\n")
        else:
            if self.server.is_sized:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) - self.server.missing])

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served_by_http(tls: ssl.SSLContext | None = None) -> Iterator[Any]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _HttpMetastore) as plain:
        server: Any = plain
        server.daemon_threads, server.block_on_close = True, False
        server.headers, server.status, server.in_chunks, server.closes = [], 0, False, False
        server.is_mute = False
        server.is_sized, server.missing, server.processor = True, 0, Api.Processor(metastore())
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.uri = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_https_with_a_token(pems):
    with served_by_http(server_context(pems)) as server:
        client = client_of(server.uri, tls_ca=pems["ca"], token=TOKEN)
        for server.in_chunks in (False, True):
            assert client.get_databases() == ["d"]
            assert client.get_partition_names("d", "t").to_pylist() == []
        client.close()
    assert {each["Authorization"] for each in server.headers} == {f"Bearer {TOKEN}"}


def test_a_connection_that_the_server_ends_is_opened_anew_with_tls(pems):
    with served_by_http(server_context(pems)) as server:
        server.closes = True
        client = client_of(server.uri, tls_ca=pems["ca"], token=TOKEN)
        for _ in range(3):
            assert client.get_databases() == ["d"]
        client.close()
    assert len(server.headers) == 3


@pytest.mark.parametrize("is_sized", [True, False])
def test_an_answer_by_http_that_ends_early(is_sized):
    with served_by_http() as server:
        server.is_sized, server.closes, server.missing = is_sized, True, 1
        with pytest.raises(SourceUnavailable, match="the response is too short"):
            databases(f"{server.uri}/metastore/")


def test_http_by_a_user_without_a_name(monkeypatch):
    """Containers may run with any number of a user."""

    def nameless():
        raise KeyError("getpwuid(): uid not found: 54321")

    monkeypatch.setattr("getpass.getuser", nameless)
    with served_by_http() as server:
        assert databases(f"{server.uri}/metastore/") == ["d"]
    assert server.headers[0]["x-actor-username"] == str(os.getuid())


def test_http_without_a_token():
    with served_by_http() as server:
        assert databases(f"{server.uri}/metastore/") == ["d"]
    assert server.headers[0]["x-actor-username"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, AccessDenied), (403, AccessDenied), (503, SourceUnavailable), (302, SourceError)],
)
def test_errors_of_http(status, kind, pems):
    with served_by_http(server_context(pems)) as server:
        server.status = status
        with pytest.raises(kind, match=f"HTTP {status}.*who are you") as error:
            databases(server.uri, tls_ca=pems["ca"], token=TOKEN)
        assert TOKEN not in str(error.value)


@pytest.mark.parametrize("in_chunks", [False, True])
def test_a_response_without_a_body(in_chunks):
    with served_by_http() as server:
        server.is_mute, server.in_chunks = True, in_chunks
        with pytest.raises(SourceUnavailable, match="the response is too short"):
            databases(server.uri)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (TTransportException.END_OF_FILE, "closed connection without response"),
        (TTransportException.TIMED_OUT, "no time left"),
        (TTransportException.UNKNOWN, "no time left"),
    ],
)
def test_a_connection_that_ends_before_the_response(monkeypatch, kind, says):
    def failing(socket: DeadlineSocket, size: int) -> bytes:
        raise TTransportException(kind, "no time left")

    monkeypatch.setattr(DeadlineSocket, "read", failing)
    with served_by_http() as server, pytest.raises(SourceUnavailable, match=says):
        databases(server.uri)


def test_a_wrong_path():
    with served_by_http() as server, pytest.raises(SourceError, match="HTTP 404"):
        databases(f"{server.uri}/other")


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("thrift://h", {"token": "t"}, "over HTTP only"),
        ("https://h", {"token": "t\n"}, "a line break"),
        ("https://h", {"token": "t\u0142"}, "that HTTP does not allow"),
        ("thrift://h", {"tls": "no"}, "true or false"),
        ("thrift://h", {"tls": "false", "tls_ca": __file__}, "tls is false"),
        ("https://h", {"tls": "false"}, "tls is false"),
        ("http://h", {"tls": "true"}, "http uri"),
        ("http://h", {"kerberos_principal": "hive/_HOST@R"}, "not supported over HTTP"),
        ("thrift://h", {"tls_key": __file__}, "without tls_certificate"),
        ("thrift://h", {"tls_ca": "/no/such/file"}, "tls_ca cannot be read"),
        ("thrift://h", {"tls_ca": __file__}, "tls_ca cannot be read"),
        ("thrift://a,https://b", {}, "the same scheme"),
        ("thrift://a/path", {}, "not a metastore address"),
        ("ftp://a", {}, "not a metastore address"),
    ],
)
def test_options_that_contradict_each_other(uri, options, message):
    with pytest.raises(ConfigError, match=message):
        client_of(uri, **options)


def test_addresses():
    assert [str(address) for address in parse_uris("https://a,https://b:9/x/,https://[::1]:8")] == [
        "https://a:443/metastore",
        "https://b:9/x",
        "https://::1:8/metastore",
    ]


def test_a_catalog_is_part_of_the_names():
    fake = metastore()
    fake.is_old = True  # the newer request has a field for the catalog
    fake.tables["@lake#d", "t"] = fake.tables["d", "t"]
    fake.partitions["@lake#d", "t"] = {}
    with served(fake) as server:
        client = MetastoreClient(parse_uris(server.uri), catalog="lake")
        assert client.get_databases() == ["@lake#"]
        client.close()
        table = load_table("d.t", connector="hive", uri=server.uri, catalog="lake")
        assert not list(DynamicFileEnumerator(table).enumerate_splits())
    assert fake.calls[:2] == [
        ("get_table", "@lake#d", "t"),
        ("get_partition_names", "@lake#d", "t", -1),
    ]


def test_a_catalog_is_a_field_of_the_newer_request(monkeypatch):
    sent = bytearray()
    write = DeadlineSocket.write

    def recorded(socket: DeadlineSocket, data: bytes) -> None:
        sent.extend(data)
        write(socket, data)

    monkeypatch.setattr(DeadlineSocket, "write", recorded)
    with served(metastore()) as server:
        load_table("d.t", connector="hive", uri=server.uri, catalog="lake").close()
    assert struct.pack(">bhi", TType.STRING, 4, 4) + b"lake" in sent


def test_secrets_stay_out_of_texts(pems):
    with served_by_http(server_context(pems)) as server:
        server.status = 500
        with pytest.raises(SourceUnavailable) as error:
            load_table("d.t", connector="hive", uri=server.uri, tls_ca=pems["ca"], token=TOKEN)
    assert TOKEN not in repr(error.value)
    assert TOKEN not in repr(security_of({"token": TOKEN}, parse_uris("https://h")))
