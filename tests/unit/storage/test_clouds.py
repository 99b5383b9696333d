"""Options of s3fs, adlfs and gcsfs are translated into Hadoop settings and the reverse."""

from __future__ import annotations

import pytest

from splitlib.storage import AzureSettings, S3Settings
from splitlib.storage.clouds import GcsSettings

S3A = "org.apache.hadoop.fs.s3a"
ABFS = "org.apache.hadoop.fs.azurebfs"
HOST = "acc.dfs.core.windows.net"
AT = f"lake@{HOST}"
S, TEMPORARY = f"{S3A}.SimpleAWSCredentialsProvider", f"{S3A}.TemporaryAWSCredentialsProvider"
SIMPLE = {
    "access.key": "k",
    "secret.key": "s",
    "aws.credentials.provider": f"{S3A}.SimpleAWSCredentialsProvider",
}


@pytest.mark.parametrize(
    "settings",
    [
        S3Settings.from_fsspec({"key": "hidden", "secret": "hidden", "token": "hidden"}),
        AzureSettings.from_fsspec({"account_key": "hidden", "sas_token": "hidden"}),
        AzureSettings.from_fsspec({"connection_string": "AccountKey=hidden"}),
        GcsSettings.from_fsspec({"token": {"private_key": "hidden"}}),
    ],
)
def test_credentials_are_not_shown(settings):
    assert "hidden" not in f"{settings!r} {settings}"


def test_options_without_a_counterpart_are_named():
    options = {
        "session": object(),
        "s3_additional_kwargs": {},
        "client_kwargs": {"verify": False, "region_name": None},
        "config_kwargs": {"max_pool_connections": 9, "s3": {"payload_signing_enabled": True}},
    }
    assert S3Settings.from_fsspec(options).others == (
        "session",
        "s3_additional_kwargs",
        "client_kwargs.verify",
        "config_kwargs.s3.payload_signing_enabled",
    )


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        ({"access.key": "k"}, {}),
        # With this credentials provider, Hadoop ignores configured keys. It requests credentials
        # from the cloud instance.
        (
            {
                "access.key": "k",
                "secret.key": "s",
                "aws.credentials.provider": f"{S3A}.auth.IAMInstanceCredentialsProvider",
            },
            {},
        ),
        (
            {
                "access.key": "k",
                "secret.key": "s",
                "aws.credentials.provider": f"{S3A}.SimpleAWSCredentialsProvider",
            },
            {"key": "k", "secret": "s"},
        ),
        (
            {"access.key": "k", "secret.key": "s", "session.token": "t"},
            {"key": "k", "secret": "s", "token": "t"},
        ),
        # Only the provider for temporary credentials uses the token.
        ({**SIMPLE, "session.token": "t"}, {"key": "k", "secret": "s"}),
        (
            {**SIMPLE, "session.token": "t", "aws.credentials.provider": f"{TEMPORARY},{S}"},
            {"key": "k", "secret": "s", "token": "t"},
        ),
        (
            {**SIMPLE, "session.token": "t", "aws.credentials.provider": f"{S},{TEMPORARY}"},
            {"key": "k", "secret": "s"},
        ),
        ({"aws.credentials.provider": f"some.Chain, {S3A}.AnonymousAWSCredentialsProvider"}, {}),
        ({"endpoint": "minio:9000"}, {"endpoint_url": "https://minio:9000"}),
        (
            {"endpoint": "s3.eu-west-1.amazonaws.com"},
            {
                "endpoint_url": "https://s3.eu-west-1.amazonaws.com",
                "client_kwargs": {"region_name": "eu-west-1"},
            },
        ),
        (
            {"endpoint": "https://s3-us-gov-west-1.amazonaws.com", "endpoint.region": "other"},
            {
                "endpoint_url": "https://s3-us-gov-west-1.amazonaws.com",
                "client_kwargs": {"region_name": "other"},
            },
        ),
        (
            {"endpoint": "minio:9000", "connection.ssl.enabled": "false"},
            {"endpoint_url": "http://minio:9000"},
        ),
        ({"endpoint": "s3.amazonaws.com"}, {}),
        ({"endpoint": "https://s3.amazonaws.com"}, {}),
        (
            {"aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider"},
            {"anon": True},
        ),
        ({"endpoint.region": "eu-west-1"}, {"client_kwargs": {"region_name": "eu-west-1"}}),
        (
            {"path.style.access": "true"},
            {"config_kwargs": {"s3": {"addressing_style": "path"}}},
        ),
        ({"path.style.access": "false", "requester.pays.enabled": "false"}, {}),
        ({"requester.pays.enabled": "TRUE"}, {"requester_pays": True}),
    ],
)
def test_settings_as_options(settings, options):
    given = {f"fs.s3a.{name}": value for name, value in settings.items()}
    assert S3Settings.from_hadoop(given)["s3"].to_fsspec() == options


OAUTH = {
    "account.auth.type": "OAuth",
    "account.oauth.provider.type": (
        "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
    ),
    "account.oauth2.client.endpoint": (
        "https://login.microsoftonline.com/some-tenant/oauth2/token"
    ),
    "account.oauth2.client.id": "some-client",
    "account.oauth2.client.secret": "some-secret",
}


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        ({"account.key": " k "}, {"account_key": "k"}),
        ({"sas.fixed.token": "sv=1"}, {"sas_token": "sv=1"}),
        ({"account.key": "k", "account.auth.type": "SharedKey"}, {"account_key": "k"}),
        (
            {"account.key": "k", "sas.fixed.token": "sv=1", "account.auth.type": "SAS"},
            {"sas_token": "sv=1"},
        ),
        (
            {**OAUTH, "account.key": "k", "sas.fixed.token": "sv=1"},
            {
                "tenant_id": "some-tenant",
                "client_id": "some-client",
                "client_secret": "some-secret",
            },
        ),
        ({**OAUTH, "account.auth.type": "Custom"}, {}),
        (
            OAUTH,
            {
                "tenant_id": "some-tenant",
                "client_id": "some-client",
                "client_secret": "some-secret",
            },
        ),
        ({k: v for k, v in OAUTH.items() if "provider" not in k}, {}),
        ({k: v for k, v in OAUTH.items() if "secret" not in k}, {}),
    ],
)
def test_settings_of_azure_as_options(settings, options):
    given = {f"fs.azure.{name}": value for name, value in settings.items()}
    assert AzureSettings.from_hadoop(given)["abfss"].to_fsspec() == options


def test_accounts_outside_of_the_public_cloud():
    name = "fs.azure.account.key.{}.dfs.core.{}"
    given = {name.format("cn", "chinacloudapi.cn"): "k", name.format("acc", "windows.net"): "k"}
    stores = AzureSettings.from_hadoop(given)
    assert stores["abfss://acc"].to_fsspec() == {"account_key": "k"}
    assert stores["abfss://cn"].to_fsspec() == {
        "account_name": "cn",
        "account_host": "cn.blob.core.chinacloudapi.cn",
        "account_key": "k",
    }


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({}, {}),
        ({"fs.gs.project.id": "p"}, {"project": "p"}),
        ({"fs.gs.auth.service.account.json.keyfile": "/k.json"}, {"token": "/k.json"}),
        ({"google.cloud.auth.service.account.json.keyfile": "/k.json"}, {"token": "/k.json"}),
        (
            {
                "fs.gs.auth.service.account.json.keyfile": "/own.json",
                "google.cloud.auth.service.account.json.keyfile": "/other.json",
            },
            {"token": "/own.json"},
        ),
        ({"fs.gs.auth.type": "UNAUTHENTICATED"}, {"token": "anon"}),
    ],
)
def test_settings_of_google_as_options(settings, options):
    assert GcsSettings.from_hadoop(settings)["gs"].to_fsspec() == options


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
        ({"config_kwargs": {"region_name": "r"}}, {"endpoint.region": "r"}),
        ({"requester_pays": True}, {"requester.pays.enabled": "true"}),
    ],
)
def test_options_of_s3_as_settings(options, settings):
    expected = {f"fs.s3a.bucket.b.{name}": value for name, value in settings.items()}
    assert S3Settings.from_fsspec(options).to_hadoop("b") == expected


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
def test_options_of_azure_as_settings(options, settings):
    expected = {}
    for name, value in settings.items():
        for place in (HOST, f"lake.{HOST}"):
            expected[f"fs.azure.{name}.{place}"] = value
    assert AzureSettings.from_fsspec(options).to_hadoop(AT) == expected


def test_a_container_of_no_account_is_the_sessions():
    assert AzureSettings.from_fsspec({"account_key": "k=="}).to_hadoop("lake") == {}
