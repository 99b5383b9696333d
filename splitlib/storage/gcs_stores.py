"""Create obstore's stores for Google Cloud Storage, from options of gcsfs.

gcsfs is fsspec's client for Google. obstore is a faster client, which splitlib uses for listings.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from splitlib.storage.pages import NotFollowed, StoreOf

# Options of gcsfs that do not affect listings.
_WITHOUT_MEANING: Final = frozenset(
    {
        "access",
        "cache_timeout",
        "consistency",
        "default_block_size",
        "default_location",
        "listings_expiry_time",
        "max_paths",
        "project",
        "skip_instance_cache",
        "use_listings_cache",
    }
)
_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_only",)
# Environment variable with the address of an emulator. obstore cannot list most emulators, because
# they do not have the XML API.
_EMULATOR: Final = "STORAGE_EMULATOR_HOST"


def gcs_stores(options: Mapping[str, Any]) -> StoreOf:
    """Return a function that creates stores which behave as gcsfs does with these options.

    Raises:
        NotFollowed: if obstore does not support an option, or there are no credentials.
    """
    given = {key: value for key, value in options.items() if key not in _WITHOUT_MEANING}
    given = {key: value for key, value in given.items() if value is not None}
    token = given.pop("token", None)
    if given or os.environ.get(_EMULATOR):
        raise NotFollowed(", ".join(given) or _EMULATOR)
    settings: dict[str, Any] = {"skip_signature": True}
    if token != "anon":
        settings = {"credential_provider": _credentials(token)}

    def store(bucket: str, *, retry_config: Any) -> Any:
        from obstore.store import GCSStore

        return GCSStore(bucket, retry_config=retry_config, **settings)

    return store


def _credentials(token: Any) -> Callable[[], dict[str, Any]]:
    """Return a function that gets the same credentials as gcsfs.

    Raises:
        NotFollowed: if there are no credentials, or gcsfs would use others.
    """
    try:
        from google.auth import default
        from google.auth.credentials import Credentials
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
    except ImportError as error:
        raise NotFollowed(str(error)) from error
    try:
        found: Any
        if token in (None, "google_default"):
            found, _ = default(scopes=_SCOPES)
        elif isinstance(token, Credentials):
            found = token
        else:
            found = _of_account(_account(token))
    except (GoogleAuthError, ValueError) as error:
        raise NotFollowed(str(error)) from error
    lock = threading.Lock()

    def give() -> dict[str, Any]:
        with lock:
            if not found.valid:
                found.refresh(Request())
            expiry = found.expiry  # in UTC, but without a time zone
            expires = None if expiry is None else expiry.replace(tzinfo=UTC)
            return {"token": found.token, "expires_at": expires}

    return give


def _account(token: Any) -> Mapping[str, Any]:
    """Return the JSON description of an account; ``token`` is the mapping, or the path of a file.

    Raises:
        NotFollowed: if the token is neither a file nor a mapping.
        ValueError: if the file is not JSON.
    """
    if isinstance(token, str) and os.path.isfile(token):
        token = json.loads(Path(token).read_text(encoding="utf-8"))
    if not isinstance(token, Mapping):
        raise NotFollowed("token")
    return token


def _of_account(account: Mapping[str, Any]) -> Any:
    from google.oauth2.credentials import Credentials as UserCredentials
    from google.oauth2.service_account import Credentials as ServiceCredentials

    of_service: Any = ServiceCredentials.from_service_account_info
    of_user: Any = UserCredentials.from_authorized_user_info
    match account.get("type"):
        case "service_account":
            return of_service(account, scopes=_SCOPES)
        case "authorized_user":
            return of_user(account, scopes=_SCOPES)
    raise NotFollowed("an account of another type")
