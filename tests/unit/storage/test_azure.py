"""Options of adlfs are converted for obstore, and Azure's documented responses are read."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.core.credentials import AccessToken

from splitlib import AccessDenied, ConfigError, SourceError, SourceUnavailable
from splitlib.storage import AzureSettings, Storage
from splitlib.storage.pages import Bucket, NotFollowed

KEY = base64.b64encode(b"key of an account").decode()
HOST = "acc.dfs.core.windows.net"
AT = f"lake@{HOST}"
ENDPOINT = "https://acc.blob.core.windows.net"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCOUNT_NAME", "ACCOUNT_KEY", "CONNECTION_STRING", "SAS_TOKEN", "ANON"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)
    for name in ("CLIENT_ID", "CLIENT_SECRET", "TENANT_ID"):
        monkeypatch.delenv(f"AZURE_STORAGE_{name}", raising=False)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that creates an Azure store from options, and returns its arguments."""
    monkeypatch.setattr("obstore.store.AzureStore", lambda container, **with_: (container, with_))

    def make(options: dict[str, Any], bucket: str = AT) -> tuple[str, dict[str, Any]]:
        store = AzureSettings.from_fsspec(options).stores()
        container, told = store(bucket, retry_config=None)
        return container, told

    return make


@pytest.mark.parametrize(
    ("options", "bucket", "account", "endpoint"),
    [
        ({}, AT, "acc", ENDPOINT),
        ({}, "lake@acc.blob.core.windows.net", "acc", ENDPOINT),
        ({"account_name": "acc"}, "lake", "acc", ENDPOINT),
        ({"account_name": "Acc"}, AT, "Acc", "https://Acc.blob.core.windows.net"),
        ({"account_name": "acc", "account_host": "h:1"}, "lake", "acc", "https://h:1"),
        ({"account_name": "acc", "account_host": "h"}, "lake@x.example", "acc", "https://h"),
    ],
)
def test_where_a_container_is(made, options, bucket, account, endpoint):
    container, told = made({"account_key": KEY, **options}, bucket)
    assert (container, told["account_name"], told["endpoint"]) == ("lake", account, endpoint)
    assert told["use_emulator"] is False


def test_the_environment_names_an_account_last(made, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "other")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert made({})[1]["account_name"] == "acc"
    assert made({}, "lake")[1]["account_name"] == "other"


OTHER = f"AccountName=other;AccountKey={KEY}"


@pytest.mark.parametrize(
    ("options", "environment", "host"),
    [
        ({"account_name": "other"}, {}, HOST),
        # Only adlfs supports this option, so with it the directory is not listed with obstore.
        ({"account_name": "other", "version_aware": True}, {}, HOST),
        ({"account_name": "other"}, {}, "acc.dfs.core.chinacloudapi.cn"),
        ({"account_name": "other"}, {}, "onelake.dfs.fabric.microsoft.com"),
        ({"account_name": "other", "account_host": "h"}, {}, HOST),
        ({"connection_string": OTHER}, {}, HOST),
        ({}, {"CONNECTION_STRING": OTHER}, HOST),
        ({}, {"ACCOUNT_NAME": "other"}, "acc.dfs.core.chinacloudapi.cn"),
        ({}, {"ACCOUNT_NAME": "acc"}, "acc.dfs.core.chinacloudapi.cn"),
    ],
)
def test_options_name_another_account(monkeypatch, options, environment, host):
    for name, value in environment.items():
        monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)
    storage = Storage({"account_key": KEY, **options})
    account = environment.get("ACCOUNT_NAME", "other")
    by = "environment names" if environment else "storage options name"
    for use in (storage.level, storage.filesystem):
        with pytest.raises(ConfigError, match=f"'{host}', but the {by} '{account}'"):
            use(f"abfss://lake@{host}/t")


@pytest.mark.parametrize(
    ("options", "host"),
    [
        ({"account_name": "ACC"}, HOST),
        ({"account_name": "acc"}, "acc.dfs.core.chinacloudapi.cn"),
        ({"connection_string": "BlobEndpoint=h;SharedAccessSignature=sv=1"}, HOST),
        ({"account_name": "other", "account_host": "h"}, "files.example.com"),
        ({"account_name": "other"}, "files.example.com"),
        ({}, HOST),
    ],
)
def test_options_name_the_same_account(options, host):
    AzureSettings.from_fsspec(options).check_account(f"lake@{host}")


@pytest.mark.parametrize(
    ("options", "credentials"),
    [
        ({"account_key": KEY}, {"access_key": KEY}),
        ({"sas_token": "?sv=1&sig=s"}, {"sas_token": "sv=1&sig=s"}),
        ({"account_key": KEY, "sas_token": "sv=1"}, {"access_key": KEY}),
        ({"sas_token": "sv=1", "client_id": "c", "anon": True}, {"sas_token": "sv=1"}),
        ({"account_key": KEY, "anon": True}, {"access_key": KEY}),
        ({"account_key": KEY, "use_listings_cache": True, "timeout": 3}, {"access_key": KEY}),
        ({"account_key": KEY, "credential": None}, {"access_key": KEY}),
    ],
)
def test_what_a_container_is_asked_with(made, options, credentials):
    told = made(options)[1]
    assert told["credential_provider"]() == {**credentials, "expires_at": None}
    assert told["skip_signature"] is False


@pytest.mark.parametrize(("anon", "ambient"), [(True, None), (None, "1"), (None, "yes")])
def test_nobody_asks(made, monkeypatch, anon, ambient):
    if ambient:
        monkeypatch.setenv("AZURE_STORAGE_ANON", ambient)
    told = made({"anon": anon})[1]
    assert told["skip_signature"] is True
    assert "credential_provider" not in told


@pytest.mark.parametrize(
    ("text", "endpoint", "credentials"),
    [
        (f"AccountName=cs;AccountKey={KEY}", "https://cs.blob.core.windows.net", "access_key"),
        (
            f"DefaultEndpointsProtocol=http;AccountName=cs;AccountKey={KEY};EndpointSuffix=e.cn;",
            "http://cs.blob.e.cn",
            "access_key",
        ),
        (
            "BlobEndpoint=http://h:1/cs;accountname=cs;SharedAccessSignature=sv=1&sig=a=",
            "http://h:1/cs",
            "sas_token",
        ),
    ],
)
def test_a_connection_string_says_all(made, monkeypatch, text, endpoint, credentials):
    expected = {"access_key": KEY, "sas_token": "sv=1&sig=a="}[credentials]
    for options in ({"connection_string": text, "account_name": "x", "account_key": "y"}, {}):
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        container, told = made(options, "lake@cs.dfs.core.windows.net")
        assert (container, told["account_name"], told["endpoint"]) == ("lake", "cs", endpoint)
        assert told["credential_provider"]() == {credentials: expected, "expires_at": None}


def test_a_client_has_its_tokens_renewed(made, monkeypatch):
    asked: list[tuple[Any, ...]] = []
    until = [1_900_000_000, 1_900_003_600]

    def get_token(self: Any, *scopes: str, **_: Any) -> AccessToken:
        asked.append((self._tenant_id, self._client_id, self._client_credential, *scopes))
        return AccessToken(f"token-{len(asked)}", until[len(asked) - 1])

    monkeypatch.setattr("azure.identity.ClientSecretCredential.get_token", get_token)
    client = {"tenant_id": "t", "client_id": "c", "client_secret": "s", "anon": True}
    give = made(client)[1]["credential_provider"]
    assert [give(), give()] == [
        {"token": f"token-{n + 1}", "expires_at": datetime.fromtimestamp(until[n], UTC)}
        for n in range(2)
    ]
    assert asked == [("t", "c", "s", "https://storage.azure.com/.default")] * 2


def test_without_credentials_it_is_who_is_logged_in(made, monkeypatch):
    monkeypatch.setattr(
        "azure.identity.DefaultAzureCredential.get_token",
        lambda *_, **__: AccessToken("of the machine", 1_900_000_000),
    )
    monkeypatch.setenv("AZURE_STORAGE_ANON", "F")
    assert made({})[1]["credential_provider"]()["token"] == "of the machine"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"credential": object()}, id="a credential of its own"),
        {"location_mode": "secondary"},
        {"version_aware": True},
        {"account_key": KEY, "unheard_of": 1},
        {"client_id": "c"},
        {"client_id": "c", "tenant_id": "t"},
        {"connection_string": "UseDevelopmentStorage=true"},
        {"connection_string": "AccountName=a"},
        {"connection_string": f"BlobEndpoint=http://h;AccountKey={KEY}"},
    ],
    ids=str,
)
def test_what_obstore_cannot_follow_is_left_to_adlfs(options):
    with pytest.raises(NotFollowed):
        AzureSettings.from_fsspec(options).stores()


@pytest.mark.parametrize(
    "bucket", ["lake", "lake@example.com", HOST, f"la.ke@{HOST}", f"l:pass@{HOST}"]
)
def test_a_place_that_obstore_cannot_follow_is_left_to_adlfs(made, bucket):
    with pytest.raises(NotFollowed):
        made({"account_key": KEY}, bucket)


class _Answers(BaseHTTPRequestHandler):
    """A request handler that sends the server's pages, or an error."""

    def do_GET(self) -> None:
        server: Any = self.server
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        server.asked.append(asked)
        page = int(asked.get("marker", 0))
        body = server.pages[page].replace("AT/", asked["prefix"]).encode()
        self.send_response(server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Do not print requests in the output of tests."""


@pytest.fixture
def azure() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.status, server.pages, server.asked = 200, [], []
    server.options = {
        "connection_string": f"BlobEndpoint=http://127.0.0.1:{server.server_port}/acc;"
        f"AccountName=acc;AccountKey={KEY}"
    }
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def blob(name: str, size: int = 1, kind: str = "file") -> str:
    return (
        f"<Blob><Name>{name}</Name><Properties><Last-Modified>Wed, 25 Nov 2026 08:00:00 GMT"
        f"</Last-Modified><Content-Length>{size}</Content-Length><Content-Type>a/b</Content-Type>"
        f"<ResourceType>{kind}</ResourceType></Properties></Blob>"
    )


def prefix(name: str) -> str:
    return (
        f"<BlobPrefix><Name>{name}/</Name><Properties><ResourceType>directory</ResourceType>"
        "<Content-Length>0</Content-Length></Properties></BlobPrefix>"
    )


def page(blobs: str, following: str = "") -> str:
    return (
        '<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Prefix>t/</Prefix>'
        f"<Blobs>{blobs}</Blobs><NextMarker>{following}</NextMarker></EnumerationResults>"
    )


def refusal(code: str) -> str:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>No.</Message></Error>'


@pytest.mark.parametrize(
    ("status", "code", "error", "throttled"),
    [
        (403, "AuthenticationFailed", AccessDenied, False),
        (401, "InvalidAuthenticationInfo", AccessDenied, False),
        (409, "PublicAccessNotPermitted", AccessDenied, False),
        (404, "ContainerNotFound", SourceError, False),
        (404, "ResourceNotFound", SourceError, False),
        (400, "InvalidQueryParameterValue", SourceError, False),
        (503, "ServerBusy", SourceUnavailable, True),
        (429, "TooManyRequests", SourceUnavailable, True),
        (500, "OperationTimedOut", SourceUnavailable, False),
    ],
)
def test_what_azure_refuses(azure, status, code, error, throttled):
    azure.status, azure.pages = status, [refusal(code)]
    with pytest.raises(error) as raised:
        Storage(azure.options).level(f"abfss://{AT}/t")
    assert type(raised.value) is error
    assert ("There is no bucket 'lake@" in str(raised.value)) == (status == 404)
    assert getattr(raised.value, "is_throttled", False) is throttled
    # The client does not retry the request, because splitlib's engine does.
    assert len(azure.asked) == 1


def test_an_account_with_directories(azure):
    azure.pages = [
        page(prefix("t/k=1") + blob("t/k=1", 0, "directory") + blob("t/a b") + blob("t/_x"))
    ]
    level = Storage(azure.options).level(f"abfss://{AT}/t")
    assert [file.path for file in level.files] == [f"abfss://{AT}/t/a b"]
    assert level.directories == ["k=1"]
    assert azure.asked == [
        {"restype": "container", "comp": "list", "prefix": "t/", "delimiter": "/"}
    ]


@pytest.mark.parametrize(("names", "requests"), [(5000, 1), (5001, 2), (10_000, 2)])
def test_requests_are_counted_as_azure_answers_them(azure, names, requests):
    blobs = [blob(f"t/{n:05}") for n in range(names)]
    azure.pages = [
        page("".join(blobs[at : at + 5000]), str(at // 5000 + 1) if at + 5000 < names else "")
        for at in range(0, names, 5000)
    ]
    storage = Storage(azure.options)
    files, took = storage.list_files([f"abfss://{AT}/t"])
    assert (files.num_rows, took, len(azure.asked)) == (names, requests, requests)


@pytest.mark.parametrize("protocol", ["abfss", "abfs", "wasbs", "az"])
def test_directories_are_listed_one_by_one(azure, protocol):
    azure.pages = [page(blob("AT/a"))]
    storage = Storage(azure.options)
    locations = [f"{protocol}://lake/t/{n}" for n in range(3)]
    assert storage.files_per_page(locations[0]) == 0
    files, took = storage.list_files(locations)
    assert files["path"].to_pylist() == [f"{location}/a" for location in locations]
    assert (took, [asked["delimiter"] for asked in azure.asked]) == (3, ["/"] * 3)
    assert storage.list_first(locations)[1:] == (1, 1)


@pytest.mark.parametrize("blobs", ["", blob("t/a") + blob("t/k=1", 0), blob("t/k=1", 0)])
def test_where_a_directory_may_be_empty_adlfs_says_so(azure, monkeypatch, blobs):
    azure.pages = [page(blobs)]
    asked = []

    class Filesystem:
        def ls(self, path: str, detail: bool) -> list[dict[str, Any]]:
            asked.append(path)
            # adlfs lists a directory twice, for its marker object and for its contents.
            return [{"name": "lake/t/k=1", "type": "directory", "size": None}] * 2

        def _strip_protocol(self, path: str) -> str:
            return "lake/t"

    monkeypatch.setattr(Storage, "filesystem", lambda *_: (Filesystem(), "lake/t"))
    assert Storage(azure.options).level("abfss://lake/t").directories == ["k=1"]
    assert asked == ["lake/t"]


def test_empty_objects_that_mean_nothing_cost_nothing(azure):
    azure.pages = [page(prefix("t/k=1") + blob("t/k=1", 0) + blob("t/_SUCCESS", 0))]
    assert Storage(azure.options).level("abfss://lake/t", retries=True).directories == ["k=1"]


def test_names_of_containers_hold_an_account():
    assert Bucket.of(f"abfss://{AT}/a/b/") == (AT, "a/b")
