"""Options of s3fs and adlfs are converted to scan options that Hadoop reads."""

from __future__ import annotations

import pytest

from splitlib.spark.jvm.hadoop import abfs_settings, s3a_settings, scan_options

S3A = "org.apache.hadoop.fs.s3a"
ABFS = "org.apache.hadoop.fs.azurebfs"
HOST = "acc.dfs.core.windows.net"
AT = f"lake@{HOST}"
GIVEN = {"key": "k", "secret": "s"}
SIMPLE = {
    "access.key": "k",
    "secret.key": "s",
    "aws.credentials.provider": f"{S3A}.SimpleAWSCredentialsProvider",
}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({"use_listings_cache": False, "anon": False, "profile": "p"}, {}),
        ({"key": "k"}, {}),
        ({"key": "k", "secret": "s"}, SIMPLE),
        ({"username": "k", "password": "s"}, SIMPLE),
        ({"client_kwargs": {"aws_access_key_id": "k", "aws_secret_access_key": "s"}}, SIMPLE),
        ({"key": "k", "secret": "s", "client_kwargs": {"aws_access_key_id": "x"}}, SIMPLE),
        (
            {"key": "k", "secret": "s", "token": "t"},
            SIMPLE
            | {
                "session.token": "t",
                "aws.credentials.provider": f"{S3A}.TemporaryAWSCredentialsProvider",
            },
        ),
        (
            {"anon": "true", "key": "k", "secret": "s"},
            {"aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider"},
        ),
        (
            {"client_kwargs": {"endpoint_url": "http://minio:9000"}},
            {
                "endpoint": "http://minio:9000",
                "connection.ssl.enabled": "false",
                "endpoint.region": "us-east-1",
                "path.style.access": "true",
            },
        ),
        (
            {
                "endpoint_url": "https://store",
                "client_kwargs": {"region_name": "eu-west-1"},
                "config_kwargs": {"s3": {"addressing_style": "virtual"}},
            },
            {
                "endpoint": "https://store",
                "connection.ssl.enabled": "true",
                "endpoint.region": "eu-west-1",
                "path.style.access": "false",
            },
        ),
        ({"use_ssl": False}, {"connection.ssl.enabled": "false"}),
        ({"requester_pays": True}, {"requester.pays.enabled": "true"}),
    ],
)
def test_settings(options, settings):
    assert s3a_settings(options) == settings


def test_a_scan_without_settings_is_the_sessions():
    assert scan_options({}, [("s3a", "b")]) == {}
    assert scan_options({"s3": {"anon": False}, "abfss": {"anon": True}}, [("s3a", "b")]) == {}
    assert scan_options({"s3": GIVEN}, []) == {}
    assert scan_options({"s3": GIVEN}, [("hdfs", "h"), ("abfss", AT)]) == {}


def test_every_bucket_has_the_settings():
    options = scan_options({"s3": GIVEN}, [("s3a", "b.c"), ("s3", "d"), ("s3a", "b.c")])
    for bucket in ("b.c", "d"):
        found = {name: options[f"fs.s3a.bucket.{bucket}.{name}"] for name in SIMPLE}
        assert found == SIMPLE
    inner = options["fs.viewfs.mounttable.d.linkFallback"].removesuffix("://d/")
    assert options[f"fs.{inner}.impl"] == f"{S3A}.S3AFileSystem"
    assert options["fs.s3.impl.disable.cache"] == options["fs.s3a.impl.disable.cache"] == "true"


def test_scans_share_options_only_if_they_share_settings():
    roots = [("s3a", "b"), ("s3a", "c")]
    one, same = (scan_options({"s3": GIVEN}, at) for at in (roots, roots[::-1]))
    other = scan_options({"s3": GIVEN | {"secret": "x"}}, roots)
    name = "fs.viewfs.mounttable.b.linkFallback"
    assert one == same
    assert one[name] != other[name]


KEY = {
    "account.auth.type": "SharedKey",
    "account.keyprovider": f"{ABFS}.services.SimpleKeyProvider",
    "account.key": "k==",
}
SIGNED = {"account.auth.type": "SAS", "sas.fixed.token": "sv=1&sig=a%3D"}


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {}),
        ({"anon": True, "account_name": "acc", "use_listings_cache": False}, {}),
        ({"account_key": "k=="}, KEY),
        ({"account_key": "k==", "sas_token": "s", "client_id": "c"}, KEY),
        ({"account_key": None, "account_name": None, "sas_token": "?sv=1&sig=a%3D"}, SIGNED),
        ({"account_name": "acc", "account_key": "k=="}, KEY),
        ({"account_name": "other", "account_key": "k=="}, {}),
        ({"client_id": "c", "client_secret": "s"}, {}),
        (
            {"tenant_id": "t", "client_id": "c", "client_secret": "s"},
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": f"{ABFS}.oauth2.ClientCredsTokenProvider",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
                "account.oauth2.client.id": "c",
                "account.oauth2.client.secret": "s",
            },
        ),
        ({"connection_string": "AccountName=acc;AccountKey=k==;", "account_key": "x"}, KEY),
        ({"connection_string": "AccountName=other;AccountKey=k=="}, {}),
        (
            {"connection_string": "BlobEndpoint=h;SharedAccessSignature=sv=1&sig=a%3D"},
            SIGNED,
        ),
    ],
    ids=str,
)
def test_settings_of_a_container(options, settings):
    expected = {}
    for name, value in settings.items():
        for place in (HOST, f"lake.{HOST}"):
            expected[f"fs.azure.{name}.{place}"] = value
    assert abfs_settings(options, AT) == expected


def test_a_container_of_no_account_is_the_sessions():
    assert abfs_settings({"account_key": "k=="}, "lake") == {}


def test_containers_are_reached_as_securely_as_their_paths_say():
    options = scan_options({"abfss": {"account_key": "k=="}}, [("abfs", AT), ("abfss", f"p{AT}")])
    found = {}
    for container in (AT, f"p{AT}"):
        inner, _, rest = options[f"fs.viewfs.mounttable.{container}.linkFallback"].partition("://")
        assert rest == f"{container}/"
        found[container] = options[f"fs.{inner}.impl"].removeprefix(f"{ABFS}.")
    assert found == {AT: "AzureBlobFileSystem", f"p{AT}": "SecureAzureBlobFileSystem"}


def test_a_container_of_another_account_has_what_the_session_has():
    other = "lake@other.dfs.core.windows.net"
    given = {"abfss": {"account_name": "acc", "account_key": "k=="}}
    options = scan_options(given, [("abfss", AT), ("abfss", other)])
    inner = options[f"fs.viewfs.mounttable.{other}.linkFallback"].partition("://")[0]
    assert options[f"fs.{inner}.impl"] == f"{ABFS}.SecureAzureBlobFileSystem"
    assert inner not in options[f"fs.viewfs.mounttable.{AT}.linkFallback"]
    assert not any(name.endswith("other.dfs.core.windows.net") for name in options)
