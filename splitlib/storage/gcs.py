"""Credentials and options of clients of Google Cloud Storage: gcsfs, obstore, Hadoop's."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from splitlib.storage.options import listing_options
from splitlib.storage.pages import FLAT, NotFollowed, StoreOf

# Options of gcsfs that do not affect listings.
_WITHOUT_MEANING: Final = {"access", "cache_timeout", "consistency", "default_location"}
_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_only",)
# Environment variable with the address of an emulator. obstore cannot list most emulators, because
# they do not have the XML API.
_EMULATOR: Final = "STORAGE_EMULATOR_HOST"
_KEY_FILE: Final = "auth.service.account.json.keyfile"


@dataclass(frozen=True, repr=False)
class GcsSettings:
    """Credentials and options of a client of Google Cloud Storage."""

    token: Any = None
    """``anon``, a key file or its content, or credentials of google-auth; None means default."""
    project: str | None = None
    others: tuple[str, ...] = ()
    """Names of options that only gcsfs supports."""

    kind: ClassVar = FLAT
    hadoop_names: ClassVar = ()
    hadoop_prefixes: ClassVar = ("fs.gs.", "google.cloud.auth.")

    @classmethod
    def from_fsspec(cls, options: Mapping[str, Any]) -> Self:
        """Return the settings in options of gcsfs."""
        given = listing_options(options, _WITHOUT_MEANING)
        token, project = given.pop("token", None), given.pop("project", None)
        return cls(token, project, tuple(given))

    @classmethod
    def from_hadoop(cls, settings: Mapping[str, str]) -> dict[str, Self]:
        """Return the settings of Hadoop's client, for all buckets: key file and project."""
        given = {name: value.strip() for name, value in settings.items()}
        token = given.get(f"fs.gs.{_KEY_FILE}") or given.get(f"google.cloud.{_KEY_FILE}")
        if given.get("fs.gs.auth.type", "").upper() == "UNAUTHENTICATED":
            token = "anon"
        return {"gs": cls(token, given.get("fs.gs.project.id"))}

    def to_fsspec(self) -> dict[str, Any]:
        """Return options of gcsfs, for settings of Hadoop."""
        options = {"token": self.token, "project": self.project}
        return {name: value for name, value in options.items() if value}

    def stores(self) -> StoreOf:
        """Return a function that creates stores of obstore which list as gcsfs does.

        Raises:
            NotFollowed: if obstore does not support an option, or there are no credentials.
            ImportError: if a package is missing.
        """
        from obstore.store import GCSStore

        if self.others or os.environ.get(_EMULATOR):
            raise NotFollowed(", ".join(self.others) or _EMULATOR)
        if self.token == "anon":
            return partial(GCSStore, skip_signature=True)
        return partial(GCSStore, credential_provider=_credentials(self.token))


def _credentials(token: Any) -> Callable[[], Any]:
    """Return a function that gets the same credentials as gcsfs.

    Raises:
        NotFollowed: if there are no credentials, or gcsfs would use others.
        ImportError: if the package ``google-auth`` is missing.
    """
    from google.auth import default
    from google.auth.credentials import Credentials
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        found: Any
        if token in (None, "google_default"):
            found, _ = default(scopes=_SCOPES)
        elif isinstance(token, Credentials):
            found = token
        else:
            found = _of_account(token)
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


def _of_account(token: Any) -> Any:
    """Return the credentials in the description of an account, a mapping or the path of a file.

    Raises:
        NotFollowed: if the token is neither, or describes an account of another type.
        ValueError: if the file is not JSON.
    """
    from google.oauth2.credentials import Credentials as UserCredentials
    from google.oauth2.service_account import Credentials as ServiceCredentials

    of_service: Any = ServiceCredentials.from_service_account_info
    of_user: Any = UserCredentials.from_authorized_user_info
    if isinstance(token, str) and os.path.isfile(token):
        token = json.loads(Path(token).read_text(encoding="utf-8"))
    match token:
        case {"type": "service_account"}:
            return of_service(token, scopes=_SCOPES)
        case {"type": "authorized_user"}:
            return of_user(token, scopes=_SCOPES)
    raise NotFollowed("the token is not a known account")
