"""obstore's stores of Google Cloud Storage, from the options of gcsfs."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from splitlib.storage.pages import NotFollowed, StoreOf

# Options of gcsfs that say nothing about a listing.
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
# The address of an emulator: most of these answer gcsfs, and not obstore, which asks in XML.
_EMULATOR: Final = "STORAGE_EMULATOR_HOST"


def gcs_stores(options: Mapping[str, Any]) -> StoreOf:
    """What makes stores with options of gcsfs, which mean the same here.

    Raises:
        NotFollowed: if obstore has no counterpart of one, or nobody knows the credentials.
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
    """What gives credentials whenever they are needed, found as gcsfs finds them.

    Raises:
        NotFollowed: if there are none, or gcsfs finds them in another way.
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
            expiry = found.expiry  # in UTC, without saying so
            expires = None if expiry is None else expiry.replace(tzinfo=UTC)
            return {"token": found.token, "expires_at": expires}

    return give


def _account(token: Any) -> Mapping[str, Any]:
    """What a file in JSON says of an account, or its content.

    Raises:
        NotFollowed: if it is neither.
        ValueError: if it is another file.
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
