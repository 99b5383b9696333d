"""Failures of Glue, and of the way to it."""

from __future__ import annotations

import os
import socket
import threading

import pytest
import urllib3
from botocore.exceptions import ClientError
from botocore.session import Session

import splitlib
from splitlib import DynamicFilteringData, SplitConfig
from splitlib.filtering.predicate import Predicate
from splitlib.remote.calls import Call, working_on
from splitlib_glue import GlueConnector
from splitlib_glue import client as glue_client
from tests.support import glue_server
from tests.support.glue_server import refusal
from tests.unit.connectors.glue.conftest import add_partition, add_table

ONCE = SplitConfig(retry_attempts=1)


def load(server, config=ONCE, **options):
    return splitlib.load_table("db.t", "glue", config=config, **{**server.options, **options})


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("ThrottlingException", 400, splitlib.SourceUnavailable),
        ("TooManyRequestsException", 429, splitlib.SourceUnavailable),
        ("InternalServiceException", 500, splitlib.SourceUnavailable),
        ("OperationTimeoutException", 400, splitlib.SourceUnavailable),
        ("ServiceUnavailable", 503, splitlib.SourceUnavailable),
        ("InternalFailure", 400, splitlib.SourceUnavailable),
        ("ServiceUnavailableException", 400, splitlib.SourceUnavailable),
        ("ResourceNotReadyException", 400, splitlib.SourceUnavailable),
        ("FederationSourceRetryableException", 400, splitlib.SourceUnavailable),
        ("AccessDeniedException", 400, splitlib.AccessDenied),
        ("ExpiredTokenException", 400, splitlib.AccessDenied),
        ("UnrecognizedClientException", 403, splitlib.AccessDenied),
        ("EntityNotFoundException", 400, splitlib.TableNotFound),
        ("GlueEncryptionException", 400, splitlib.SourceError),
        ("InvalidInputException", 400, splitlib.SourceError),
    ],
)
def test_answers_that_report_an_error(server, code, status, kind):
    add_table(server, {})
    server.faults = [refusal(code, status)]
    with pytest.raises(kind, match=code) as caught:
        load(server)
    assert type(caught.value) is kind or code == "InvalidInputException"
    assert caught.value.connector == "glue"
    assert server.names() == ["GetTable"]  # botocore does not retry
    if kind is splitlib.SourceUnavailable:
        throttled = code in (
            "ThrottlingException",
            "TooManyRequestsException",
            "ServiceUnavailable",
        )
        assert caught.value.is_throttled == throttled


@pytest.mark.parametrize(
    ("body", "status", "kind", "says"),
    [
        ("{}", 400, splitlib.SourceError, r"GetTable: no message \(status 400\)"),
        ("{}", 403, splitlib.AccessDenied, r"no message \(status 403\)"),
        ("{}", 429, splitlib.SourceUnavailable, r"no message \(status 429\)"),
        ("[1]", 500, splitlib.SourceUnavailable, r"no message \(status 500\)"),
        ("<p>busy</p>", 503, splitlib.SourceUnavailable, r"no message \(status 503\)"),
        ('{"message": "late"}', 300, splitlib.SourceError, r"late \(status 300\)"),
        (
            '{"__type": "com.amazonaws.glue#EntityNotFoundException", "Message": "none"}',
            400,
            splitlib.TableNotFound,
            r"GetTable: none \(EntityNotFoundException 400\)",
        ),
    ],
)
def test_answers_that_report_an_error_in_another_form(server, body, status, kind, says):
    add_table(server, {})
    server.faults = [lambda handler, right: handler.reply(status, body.encode())]
    with pytest.raises(kind, match=says) as caught:
        load(server)
    assert type(caught.value) is kind


def test_no_request_takes_longer_than_its_time(server, monkeypatch):
    add_table(server, {})
    timeouts, made = [], urllib3.Timeout

    def noting(**seconds):
        timeouts.append(seconds)
        return made(**seconds)

    monkeypatch.setattr(urllib3, "Timeout", noting)
    for connecting, whole in ((3, 50), (50, 30)):
        seconds = {"connect_timeout_seconds": connecting, "timeout_seconds": whole}
        client = glue_client.GlueClient({**server.options, **seconds})
        client.call("GetTable", DatabaseName="db", Name="t")
        client.close()
    assert timeouts == [{"connect": 3, "read": 50}, {"connect": 30, "read": 30}]
    call = Call(20)
    with working_on(call):
        glue_client.GlueClient(server.options).call("GetTable", DatabaseName="db", Name="t")
    assert timeouts[-1]["connect"] == 10
    assert 0 < timeouts[-1]["read"] <= 20


def test_a_closed_client_has_no_connection(server):
    add_table(server, {})
    client = glue_client.GlueClient(server.options)
    client.call("GetTable", DatabaseName="db", Name="t")
    client.close()
    with pytest.raises(splitlib.SourceUnavailable, match="Pool is closed"):
        client.call("GetTable", DatabaseName="db", Name="t")
    assert server.names() == ["GetTable"]


@pytest.mark.parametrize(
    "fault",
    [
        glue_server.cut,
        glue_server.shortened,
        glue_server.emptied,
        glue_server.error_page,
        glue_server.hung_up,
        glue_server.compressed,  # a few bytes could become gigabytes
    ],
    ids=lambda fault: fault.__name__,
)
@pytest.mark.parametrize("at", ["open", "list", "values", "segment"])
def test_damaged_answers_are_never_empty_results(server, fault, at):
    add_table(server, {"k": "string"})
    for i in range(20):
        add_partition(server, f"v{i}")
    filters = []
    if at == "segment":
        server.page = 15
    if at == "values":
        filters = [DynamicFilteringData.from_values({"k": ["v1", "v2"]})]
    if at == "open":
        server.faults = [fault]
        with pytest.raises(splitlib.SourceUnavailable):
            load(server)
        return
    with load(server) as table:
        predicate = Predicate(table.metadata.filter_schema, filters)
        server.faults = [None, fault] if at == "segment" else [fault]
        if at == "segment":  # retried at once: the engine could only repeat the whole listing
            (batch,) = table.connector.list_partitions(predicate)
            assert len(batch) == 20
        else:
            with pytest.raises(splitlib.SourceUnavailable):
                list(table.connector.list_partitions(predicate))
        assert not server.faults


def test_engine_retries(server):
    add_table(server, {"k": "string"})
    add_partition(server, "a")
    throttled = refusal("ThrottlingException")
    server.faults = [throttled, glue_server.cut]
    with load(server, SplitConfig(retry_attempts=3)) as table:
        server.faults = [throttled, refusal("InternalServiceException", 500)]
        predicate = Predicate(table.metadata.filter_schema)
        assert sum(map(len, table.list_partitions(predicate, SplitConfig(retry_attempts=3)))) == 1


def test_answer_without_partitions_is_an_error(server, monkeypatch):
    add_table(server, {"k": "string"})
    with load(server) as table:
        monkeypatch.setattr(server, "answer", lambda *_: {"message": "hello"})
        with pytest.raises(splitlib.CorruptMetadata, match="damaged"):
            list(table.connector.list_partitions(Predicate(table.metadata.filter_schema)))


def test_too_large_answer(server, monkeypatch):
    add_table(server, {})
    monkeypatch.setattr(glue_client, "MOST_BYTES", 100)
    with pytest.raises(splitlib.SourceError, match="more than 100 bytes"):
        load(server)


@pytest.mark.parametrize("is_silent", [True, False])
def test_slow_answer_ends_in_time(server, is_silent):
    """Neither silence nor single bytes, each of which arrives in time, keep the client waiting."""
    add_table(server, {})
    over = threading.Event()

    def trickle(handler, right):
        handler.reply(200, b"", length=10**6)
        while not over.wait(0.005):
            if not is_silent:
                handler.wfile.write(b" ")

    server.faults = [trickle]
    try:
        with pytest.raises(splitlib.SourceUnavailable):
            load(server, timeout_seconds=0.1)
    finally:
        over.set()


def test_no_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(splitlib.SourceUnavailable):
        splitlib.load_table(
            "db.t",
            "glue",
            config=ONCE,
            endpoint_url=f"http://127.0.0.1:{port}",
            region="x",
            key="a",
            secret="b",
        )


def test_a_connection_that_is_not_secure_is_not_retried(server):
    add_table(server, {})
    secure = server.options["endpoint_url"].replace("http:", "https:")
    with pytest.raises(splitlib.SourceError, match="connection to Glue is not secure") as caught:
        load(server, endpoint_url=secure)
    assert type(caught.value) is splitlib.SourceError


def test_forked_process_has_connections_of_its_own(server):
    add_table(server, {"k": "string"})
    add_partition(server, "a")
    with load(server) as table:

        def listed():
            predicate = Predicate(table.metadata.filter_schema)
            return sum(map(len, table.connector.list_partitions(predicate)))

        child = os.fork()
        if child == 0:
            os._exit(0 if listed() == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert listed() == 1
        opening, by_child, by_parent = server.clients
        assert opening == by_parent != by_child


NO_SECONDS: tuple[object, ...] = (0, "soon", {}, -1, 10**400)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regoin": "x"}, "Unknown option regoin"),
        ({"key": "a", "secret": None}, "key and secret"),
        ({"endpoint_url": "nowhere"}, "cannot be made"),
        ({"endpoint_url": "ftp://nowhere"}, "cannot be made"),
        ({"profile": "none-of-these"}, "none-of-these"),
        *(
            (
                {"timeout_seconds": value},
                f"timeout_seconds must be a positive number, not {value!r}",
            )
            for value in NO_SECONDS
        ),
        ({"timeout_seconds": float("inf")}, "timeout_seconds must be a positive number"),
        ({"partitions_per_request": 1001}, "at most 1000"),
        ({"partition_projection": "maybe"}, "partition_projection must be true or false"),
        ({"unfiltered": 1}, "unfiltered must be true or false"),
    ],
)
def test_wrong_options(server, options, message):
    add_table(server, {})
    with pytest.raises(splitlib.ConfigError, match=message):
        load(server, **options)


def test_a_name_without_a_table(server):
    with pytest.raises(splitlib.ConfigError, match="No table is named") as caught:
        splitlib.load_table("db.", "glue", config=ONCE, **server.options)
    assert caught.value.hint == "pass 'database.table'."
    assert server.names() == []


def test_no_region_and_no_credentials(server, monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(splitlib.ConfigError, match="region of Glue is unknown"):
        splitlib.load_table("db.t", "glue", config=ONCE)
    endpoint = server.options["endpoint_url"]
    with pytest.raises(splitlib.AccessDenied, match="no credentials for Glue"):
        splitlib.load_table("db.t", "glue", config=ONCE, region="x", endpoint_url=endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "from-the-environment-too")
    with pytest.raises(splitlib.ConfigError, match="region of Glue is unknown"):
        splitlib.load_table("db.t", "glue", config=ONCE, endpoint_url=endpoint)
    add_table(server, {})
    with splitlib.load_table("db.t", "glue", region="x", endpoint_url=endpoint):
        assert server.keys == ["from-the-environment"]


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("AccessDenied", 403, splitlib.AccessDenied),
        ("", 503, splitlib.SourceUnavailable),
        ("MalformedPolicyDocument", 400, splitlib.SourceError),
    ],
)
def test_errors_of_a_service_that_issues_credentials(server, monkeypatch, code, status, kind):
    def refuse(session):
        answer = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
        raise ClientError(answer, "AssumeRole")

    monkeypatch.setattr(Session, "get_credentials", refuse)
    with pytest.raises(kind, match="AssumeRole") as caught:
        glue_client.GlueClient(server.options)
    assert type(caught.value) is kind


def test_requests_through_a_proxy_have_the_whole_address(server, monkeypatch):
    add_table(server, {})
    monkeypatch.setenv("http_proxy", server.options["endpoint_url"])
    monkeypatch.setenv("no_proxy", "")
    load(server, endpoint_url="http://glue.example/of?x").close()
    monkeypatch.delenv("http_proxy")
    load(server).close()
    assert server.targets == ["http://glue.example/of?x", "/"]


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_a_proxy_gets_its_login(server, monkeypatch, scheme):
    add_table(server, {})
    address = server.options["endpoint_url"].removeprefix("http://")
    monkeypatch.setenv("http_proxy", f"{scheme}user:secret@{address}" if scheme else address)
    monkeypatch.setenv("no_proxy", "")
    load(server, endpoint_url="http://glue.example").close()
    assert server.proxy_logins == {"Basic dXNlcjpzZWNyZXQ=" if scheme else None}


def test_a_table_that_cannot_be_opened_leaves_no_connection(server, monkeypatch):
    closed = []

    def close(client):
        closed.append(client)

    monkeypatch.setattr(glue_client.GlueClient, "close", close)
    with pytest.raises(splitlib.TableNotFound):
        load(server)
    assert len(closed) == 1
    add_table(server, {})
    assert list(GlueConnector.table_names("DB", server.options)) == [("db", "t")]
    assert len(closed) == 2


def test_secrets_stay_out_of_errors(server):
    secret = "gl-pl4nted-s3cret"
    server.faults = [
        lambda handler, right: handler.reply(
            400, f'{{"__type": "AccessDeniedException", "Message": "{secret}"}}'.encode()
        )
    ]
    with pytest.raises(splitlib.AccessDenied) as caught:
        load(server, secret=secret)
    assert secret not in f"{caught.value!r} {caught.value} {vars(caught.value)}"
    assert "***" in str(caught.value)
