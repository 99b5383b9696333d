"""Convert properties of PyIceberg's ``FileIO`` to options of fsspec file systems.

A catalog may issue credentials for a table. PyIceberg adds them to these properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyiceberg.io import (
    ADLS_ACCOUNT_HOST,
    ADLS_ACCOUNT_KEY,
    ADLS_ACCOUNT_NAME,
    ADLS_CLIENT_ID,
    ADLS_CLIENT_SECRET,
    ADLS_CONNECTION_STRING,
    ADLS_CREDENTIAL,
    ADLS_SAS_TOKEN,
    ADLS_TENANT_ID,
    ADLS_TOKEN,
    AWS_ACCESS_KEY_ID,
    AWS_PROFILE_NAME,
    AWS_REGION,
    AWS_ROLE_ARN,
    AWS_SECRET_ACCESS_KEY,
    AWS_SESSION_TOKEN,
    S3_ACCESS_KEY_ID,
    S3_ANONYMOUS,
    S3_ENDPOINT,
    S3_FORCE_VIRTUAL_ADDRESSING,
    S3_PROFILE_NAME,
    S3_REGION,
    S3_ROLE_ARN,
    S3_SECRET_ACCESS_KEY,
    S3_SESSION_TOKEN,
    S3_SIGNER,
)

_NAMES: Final = {
    "key": (S3_ACCESS_KEY_ID, AWS_ACCESS_KEY_ID),
    "secret": (S3_SECRET_ACCESS_KEY, AWS_SECRET_ACCESS_KEY),
    "token": (S3_SESSION_TOKEN, AWS_SESSION_TOKEN),
    "endpoint_url": (S3_ENDPOINT,),
}
# If one of these properties is set, PyIceberg does not use the access key and the secret key.
_OTHERS: Final = (S3_SIGNER, S3_ROLE_ARN, AWS_ROLE_ARN, S3_PROFILE_NAME, AWS_PROFILE_NAME)
_AZURE: Final = {
    "account_host": ADLS_ACCOUNT_HOST,
    "account_key": ADLS_ACCOUNT_KEY,
    "account_name": ADLS_ACCOUNT_NAME,
    "client_id": ADLS_CLIENT_ID,
    "client_secret": ADLS_CLIENT_SECRET,
    "connection_string": ADLS_CONNECTION_STRING,
    "sas_token": ADLS_SAS_TOKEN,
    "tenant_id": ADLS_TENANT_ID,
}


def s3_options(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of s3fs; empty if there are none, or if s3fs cannot express them."""
    if any(properties.get(name) for name in _OTHERS):
        return {}
    options: dict[str, Any] = {}
    for option, names in _NAMES.items():
        if (value := _first(properties, names)) is not None:
            options[option] = value
    if region := _first(properties, (S3_REGION, AWS_REGION)):
        options["client_kwargs"] = {"region_name": region}
    if _is_true(properties.get(S3_ANONYMOUS)):
        options["anon"] = True
    if _is_true(properties.get(S3_FORCE_VIRTUAL_ADDRESSING)):
        options["config_kwargs"] = {"s3": {"addressing_style": "virtual"}}
    return options


def azure_options(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of adlfs; empty if there are none, or if adlfs cannot express them."""
    if any(properties.get(name) for name in (ADLS_TOKEN, ADLS_CREDENTIAL)):
        return {}
    options = {option: value for option, name in _AZURE.items() if (value := properties.get(name))}
    for name, value in properties.items():
        # Catalogs issue a SAS token for each account host. Like PyIceberg, use the first one.
        if name.startswith(f"{ADLS_SAS_TOKEN}."):
            host = name.removeprefix(f"{ADLS_SAS_TOKEN}.")
            options.setdefault("account_name", host.partition(".")[0])
            options.setdefault("sas_token", value)
    return options


def _first(properties: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((properties[name] for name in names if properties.get(name)), None)


def _is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes", "y", "t", "on")
