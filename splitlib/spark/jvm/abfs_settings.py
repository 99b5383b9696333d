"""Translate options of adlfs into settings of Hadoop's ABFS connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from splitlib.storage import connection_parts

_ABFS: Final = "org.apache.hadoop.fs.azurebfs"
_LOGIN: Final = "https://login.microsoftonline.com"


def abfs_settings(options: Mapping[str, Any], authority: str) -> dict[str, str]:
    """Return the Hadoop settings for one container; empty means the session's own settings apply.

    Options without a counterpart in ABFS are ignored. If the options name another account, the
    result is empty.

    Args:
        options: Options of adlfs.
        authority: ``container@host``, as in the paths of the files.
    """
    container, _, host = authority.partition("@")
    given = {name: str(value) for name, value in options.items() if value is not None}
    if connection := given.get("connection_string"):
        told = connection_parts(connection)
        names = ("account_name", "account_key")
        given = {name: told[k] for name in names if (k := name.replace("_", "").upper()) in told}
        given |= {"sas_token": told.get("SHAREDACCESSSIGNATURE", "")}
    account = host.partition(".")[0]
    if not host or given.get("account_name", account) != account:
        return {}
    # Set each setting for the account and for the container, since ABFS prefers the more specific
    # name, and the session may have set either of them.
    return {
        f"fs.azure.{name}.{place}": value
        for name, value in _identity(given).items()
        for place in (host, f"{container}.{host}")
    }


def _identity(given: Mapping[str, str]) -> dict[str, str]:
    """Return the authentication settings. If several are given, the order of adlfs decides."""
    if key := given.get("account_key"):
        return {
            "account.auth.type": "SharedKey",
            "account.keyprovider": f"{_ABFS}.services.SimpleKeyProvider",
            "account.key": key,
        }
    if signature := given.get("sas_token"):
        # If the session sets a SAS token provider class, ABFS uses the class and not this token.
        return {"account.auth.type": "SAS", "sas.fixed.token": signature.removeprefix("?")}
    tenant, client, secret = map(given.get, ("tenant_id", "client_id", "client_secret"))
    if not (tenant and client and secret):
        return {}
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{_ABFS}.oauth2.ClientCredsTokenProvider",
        "account.oauth2.client.endpoint": f"{_LOGIN}/{tenant}/oauth2/token",
        "account.oauth2.client.id": client,
        "account.oauth2.client.secret": secret,
    }
