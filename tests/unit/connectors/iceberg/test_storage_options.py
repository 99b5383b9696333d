"""PyIceberg properties are converted to fsspec options."""

from __future__ import annotations

import pytest
from pyiceberg import io

import splitlib
from splitlib.storage import AzureSettings, S3Settings
from tests.support.iceberg_tables import catalog_options

KEYS = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({}, {}),
        ({"uri": "http://x", "token": "t"}, {}),
        (KEYS, {"key": "k", "secret": "s"}),
        (KEYS | {"client.access-key-id": "x"}, {"key": "k", "secret": "s"}),
        (
            {"client.access-key-id": "k", "client.secret-access-key": "s"},
            {"key": "k", "secret": "s"},
        ),
        (
            KEYS | {"s3.session-token": "t", "s3.endpoint": "http://e", "client.region": "r"},
            {
                "key": "k",
                "secret": "s",
                "token": "t",
                "endpoint_url": "http://e",
                "client_kwargs": {"region_name": "r"},
            },
        ),
        ({"s3.anonymous": "true"}, {"anon": True}),
        (
            {"s3.force-virtual-addressing": "True"},
            {"config_kwargs": {"s3": {"addressing_style": "virtual"}}},
        ),
        # With a signer, a role or a profile, the keys may not be sufficient, so use no options.
        (KEYS | {"s3.signer": "S3V4RestSigner"}, {}),
        (KEYS | {"s3.role-arn": "arn:x"}, {}),
        (KEYS | {"client.profile-name": "p"}, {}),
    ],
)
def test_s3(properties, options):
    assert S3Settings.from_pyiceberg(properties).to_fsspec() == options


HOST = "acc.dfs.core.windows.net"


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({}, {}),
        ({"uri": "http://x", "token": "t", "s3.access-key-id": "k"}, {}),
        (
            {"adls.account-name": "acc", "adls.account-key": "k", "adls.account-host": "h"},
            {"account_name": "acc", "account_key": "k", "account_host": "h"},
        ),
        ({"adls.connection-string": "AccountName=acc"}, {"connection_string": "AccountName=acc"}),
        (
            {"adls.tenant-id": "t", "adls.client-id": "c", "adls.client-secret": "s"},
            {"tenant_id": "t", "client_id": "c", "client_secret": "s"},
        ),
        (
            {f"adls.sas-token.{HOST}": "one", "adls.sas-token.b.dfs.core.windows.net": "two"},
            {"account_name": "acc", "sas_token": "one"},
        ),
        (
            {f"adls.sas-token.{HOST}": "one", "adls.sas-token": "own", "adls.account-name": "own"},
            {"account_name": "own", "sas_token": "own"},
        ),
        # PyIceberg uses other credentials instead of the key, which are not converted.
        ({"adls.account-key": "k", "adls.token": "t"}, {}),
        ({"adls.account-key": "k", "adls.credential": "c"}, {}),
    ],
)
def test_azure(properties, options):
    assert AzureSettings.from_pyiceberg(properties).to_fsspec() == options


@pytest.mark.parametrize(
    ("cloud", "name"),
    [
        *((S3Settings, name) for name in ("S3_SIGNER", "S3_ROLE_ARN", "AWS_ROLE_ARN")),
        *((S3Settings, name) for name in ("S3_PROFILE_NAME", "AWS_PROFILE_NAME")),
        *((AzureSettings, name) for name in ("ADLS_TOKEN", "ADLS_CREDENTIAL")),
    ],
)
def test_properties_that_exclude_others(cloud, name):
    given = KEYS | {"adls.account-key": "k"}
    assert cloud.from_pyiceberg(given) != cloud()
    assert cloud.from_pyiceberg(given | {getattr(io, name): "x"}) == cloud()


@pytest.mark.parametrize("kind", ["S3", "AWS"])
def test_names_of_pyiceberg_for_s3(kind):
    names = {"key": "ACCESS_KEY_ID", "secret": "SECRET_ACCESS_KEY", "token": "SESSION_TOKEN"}
    given = {getattr(io, f"{kind}_{name}"): option for option, name in names.items()}
    given |= {getattr(io, f"{kind}_REGION"): "r", io.S3_ENDPOINT: "e", io.S3_ANONYMOUS: "true"}
    given |= {io.S3_FORCE_VIRTUAL_ADDRESSING: "true"}
    assert S3Settings.from_pyiceberg(given).to_fsspec() == {
        **{option: option for option in names},
        "anon": True,
        "endpoint_url": "e",
        "client_kwargs": {"region_name": "r"},
        "config_kwargs": {"s3": {"addressing_style": "virtual"}},
    }


def test_names_of_pyiceberg_for_azure():
    names = ["account_name", "account_host", "account_key", "connection_string", "sas_token"]
    names += ["client_id", "client_secret", "tenant_id"]
    given = {getattr(io, f"ADLS_{name.upper()}"): name for name in names}
    assert AzureSettings.from_pyiceberg(given).to_fsspec() == {name: name for name in names}


def test_options_of_a_table(catalog, table, tmp_path):
    given = {**catalog_options(tmp_path), **KEYS}
    given |= {"adls.account-name": "acc", "adls.account-key": "a"}
    with splitlib.load_table(".".join(table.name()), "iceberg", **given) as opened:
        assert opened.storage_options("s3") == {"key": "k", "secret": "s"}
        assert opened.storage_options("abfss") == {"account_name": "acc", "account_key": "a"}
        assert opened.storage_options("gs") == {}
