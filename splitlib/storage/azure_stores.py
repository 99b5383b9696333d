"""Create obstore's stores for Azure Blob Storage, from options of adlfs.

adlfs is fsspec's client for Azure. obstore is a faster client, which splitlib uses for listings.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from splitlib.storage.options import connection_parts
from splitlib.storage.pages import NotFollowed, StoreOf

# Options of adlfs that do not affect listings. Its timeouts apply to reads and writes.
_WITHOUT_MEANING: Final = frozenset(
    {
        "assume_container_exists",
        "blocksize",
        "connection_timeout",
        "default_cache_type",
        "default_fill_cache",
        "listings_expiry_time",
        "max_concurrency",
        "max_paths",
        "read_timeout",
        "skip_instance_cache",
        "timeout",
        "use_listings_cache",
    }
)
# Options that adlfs reads from environment variables ``AZURE_STORAGE_*`` if they are not given.
_AMBIENT: Final = (
    "account_name",
    "account_key",
    "connection_string",
    "sas_token",
    "client_id",
    "client_secret",
    "tenant_id",
)
_SCOPE: Final = "https://storage.azure.com/.default"
_ACCOUNT: Final = re.compile(r"([\w-]+)\.(?:dfs|blob)\.core\.windows\.net")


class _Account(NamedTuple):
    """Endpoint and credentials of a storage account."""

    settings: Mapping[str, Any]
    name: str | None = None
    """Name of the account; None means that each location contains it."""
    endpoint: str | None = None
    """URL of the endpoint; None means Azure's public cloud."""


def azure_stores(options: Mapping[str, Any]) -> StoreOf:
    """Return a function that creates stores which behave as adlfs does with these options.

    Raises:
        NotFollowed: if obstore does not support an option, or there are no credentials.
    """
    given = {key: value for key, value in options.items() if key not in _WITHOUT_MEANING}
    given = {key: value for key, value in given.items() if value is not None}
    known = {name: given.pop(name, None) or _ambient(name) for name in _AMBIENT}
    anonymous = given.pop("anon", None)
    if anonymous is None:
        anonymous = (_ambient("anon") or "false").lower() not in ("false", "0", "f")
    host = given.pop("account_host", None)
    if given:
        raise NotFollowed(", ".join(given))
    if connection := known["connection_string"]:
        account = _of_connection(connection)
    else:
        endpoint = f"https://{host}" if host else None
        account = _Account(_settings(known, bool(anonymous)), options.get("account_name"), endpoint)

    def store(bucket: str, *, retry_config: Any) -> Any:
        from obstore.store import AzureStore

        container, _, authority = bucket.partition("@")
        named = _ACCOUNT.fullmatch(authority)
        name = account.name or (named[1] if named else known["account_name"])
        if not name or "." in container or ":" in bucket:
            raise NotFollowed(bucket)
        return AzureStore(
            container,
            account_name=name,
            endpoint=account.endpoint or f"https://{name}.blob.core.windows.net",
            client_options={"allow_http": True},
            retry_config=retry_config,
            use_emulator=False,  # ignore environment variables for emulators, as adlfs does
            **account.settings,
        )

    return store


def _ambient(name: str) -> str | None:
    return os.environ.get(f"AZURE_STORAGE_{name.upper()}")


def _of_connection(text: str) -> _Account:
    """Return the account from a connection string, which overrides other options.

    Raises:
        NotFollowed: if the account or its credentials are missing.
    """
    told = connection_parts(text)
    name = told.get("ACCOUNTNAME")
    if not name:
        raise NotFollowed("a connection string without an account")
    scheme = told.get("DEFAULTENDPOINTSPROTOCOL", "https")
    host = f"{name}.blob.{told.get('ENDPOINTSUFFIX', 'core.windows.net')}"
    known = {"account_key": told.get("ACCOUNTKEY"), "sas_token": told.get("SHAREDACCESSSIGNATURE")}
    if not any(known.values()):
        raise NotFollowed("a connection string without credentials")
    endpoint = told.get("BLOBENDPOINT") or f"{scheme}://{host}"
    return _Account(_settings(known, anonymous=False), name, endpoint)


def _settings(known: Mapping[str, str | None], anonymous: bool) -> dict[str, Any]:
    """Return obstore's settings for the first credentials found, in the same order as adlfs.

    Raises:
        NotFollowed: if the package ``azure-identity`` or a part of the credentials is missing.
    """
    if key := known.get("account_key"):
        return _asking_with(lambda: {"access_key": key, "expires_at": None})
    if signature := known.get("sas_token"):
        signature = signature.removeprefix("?")
        return _asking_with(lambda: {"sas_token": signature, "expires_at": None})
    if anonymous and not known.get("client_id"):
        return {"skip_signature": True}
    return _asking_with(_tokens(known))


def _asking_with(credentials: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return {"credential_provider": credentials, "skip_signature": False}


def _tokens(known: Mapping[str, str | None]) -> Callable[[], dict[str, Any]]:
    """Return a function that gets access tokens for a client id, or for the default identity.

    Raises:
        NotFollowed: if the package ``azure-identity`` or a part of the credentials is missing.
    """
    try:
        from azure.identity import ClientSecretCredential, DefaultAzureCredential
    except ImportError as error:
        raise NotFollowed(str(error)) from error
    found: Any
    if known.get("client_id"):
        try:
            found = ClientSecretCredential(
                *(str(known[name] or "") for name in ("tenant_id", "client_id", "client_secret"))
            )
        except ValueError as error:
            raise NotFollowed(str(error)) from error
    else:
        found = DefaultAzureCredential()
    lock = threading.Lock()

    def give() -> dict[str, Any]:
        with lock:
            token = found.get_token(_SCOPE)
        return {"token": token.token, "expires_at": datetime.fromtimestamp(token.expires_on, UTC)}

    return give
