"""Credentials and options for Azure clients (including ABFS) and Google Cloud Storage clients."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from splitlib.errors import ConfigError
from splitlib.storage.clients import listing_options, variables_of_obstore
from splitlib.storage.pages import FLAT, NotFollowed, StoreKind, StoreOf

# adlfs options that do not affect listings. The timeouts apply to reads and writes only.
_OF_AZURE: Final = {
    "assume_container_exists",
    "blocksize",
    "connection_timeout",
    "read_timeout",
    "timeout",
}
# If the user does not set these, adlfs reads them from environment variables AZURE_STORAGE_*.
_CLIENT: Final = ("tenant_id", "client_id", "client_secret")
_AMBIENT: Final = ("account_name", "account_key", "connection_string", "sas_token", *_CLIENT)
_NAMES: Final = (*_AMBIENT, "account_host")
_SCOPE: Final = "https://storage.azure.com/.default"
_LOGIN: Final = "https://login.microsoftonline.com"
_PUBLIC: Final = re.compile(r"([\w-]+)\.(?:dfs|blob)\.core\.windows\.net")
# A host that starts with an account's name, also outside of the public cloud.
_WITH_ACCOUNT: Final = re.compile(r"[^.:]+\.(?:dfs|blob)\.", re.IGNORECASE)
_ABFS: Final = "fs.azure."
_CLASSES: Final = "org.apache.hadoop.fs.azurebfs"
_CLIENT_CLASS: Final = "ClientCredsTokenProvider"
# Names of Hadoop settings for a single Azure account end with the account's host.
_ACCOUNT: Final = re.compile(r"\.([a-z0-9]+)\.(?:dfs|blob)\.core\.[a-z.]+$")
_TENANT: Final = re.compile(r"https://[^/]+/([^/]+)/oauth2/")


@dataclass(frozen=True, repr=False)
class AzureSettings:
    """Credentials and options for an Azure client. The fields are named as in adlfs."""

    account_name: str | None = None
    """Account name; None means that each location contains it."""
    account_host: str | None = None
    """Endpoint host or URL; None means Azure's public cloud."""
    account_key: str | None = None
    connection_string: str | None = None
    """Azure connection string, with account and credentials. It overrides the other fields."""
    sas_token: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    tenant_id: str | None = None
    anon: bool | None = None
    others: tuple[str, ...] = ()
    """Names of options that only adlfs supports."""

    kind: ClassVar = StoreKind(names_per_request=5000, is_flat=False)
    hadoop_names: ClassVar = ()
    # These settings are matched by prefix, because their names may continue with an account.
    hadoop_prefixes: ClassVar = (f"{_ABFS}account.", f"{_ABFS}sas.fixed.token")

    @classmethod
    def from_fsspec(cls, options: Mapping[str, Any]) -> Self:
        """Create the settings from adlfs options."""
        given = listing_options(options, _OF_AZURE)
        known: dict[str, Any] = {name: given.pop(name, None) for name in (*_NAMES, "anon")}
        return cls(**known, others=tuple(given))

    @classmethod
    def from_hadoop(cls, settings: Mapping[str, str]) -> dict[str, Self]:
        """Create settings for each account from Hadoop's ABFS settings.

        In the returned dict, the key ``abfss`` applies to all accounts. Each account with settings
        of its own also has a key, such as ``abfss://account``.
        """
        general: dict[str, str] = {}
        accounts: dict[str, dict[str, str]] = {}
        hosts: dict[str, str] = {}
        for name, value in settings.items():
            if name.startswith(_ABFS):
                own = _ACCOUNT.search(name)
                into = accounts.setdefault(own[1], {}) if own else general
                into[name[len(_ABFS) : own.start() if own else None]] = value.strip()
                if own and not _PUBLIC.fullmatch(own[0][1:]):
                    hosts[own[1]] = own[0][1:].replace(".dfs.", ".blob.")
        stores = {"abfss": cls._from_abfs(general)}
        for account, given in accounts.items():
            own_settings = cls._from_abfs(general | given)
            if host := hosts.get(account):  # adlfs expects accounts in the public cloud
                own_settings = replace(own_settings, account_name=account, account_host=host)
            stores[f"abfss://{account}"] = own_settings
        return stores

    @classmethod
    def _from_abfs(cls, given: Mapping[str, str]) -> Self:
        """Create settings with the account key, the SAS token or the client secret.

        If several of them are set, the type of authentication decides. Without a type, the first
        one is used.
        """
        kind = given.get("account.auth.type", "")
        if kind in ("", "SharedKey") and (key := given.get("account.key")):
            return cls(account_key=key)
        if kind in ("", "SAS") and (signature := given.get("sas.fixed.token")):
            return cls(sas_token=signature)
        is_client = kind in ("", "OAuth") and given.get("account.oauth.provider.type", "").endswith(
            _CLIENT_CLASS
        )
        tenant = _TENANT.match(given.get("account.oauth2.client.endpoint", ""))
        client, secret = (given.get(f"account.oauth2.client.{name}") for name in ("id", "secret"))
        if is_client and tenant and client and secret:
            return cls(tenant_id=tenant[1], client_id=client, client_secret=secret)
        return cls()

    @classmethod
    def from_pyiceberg(cls, properties: Mapping[str, Any]) -> Self:
        """Create settings from PyIceberg properties, or empty settings if adlfs lacks an option."""
        if properties.get("adls.token") or properties.get("adls.credential"):
            return cls()
        found: dict[str, Any] = {n: properties.get(f"adls.{n.replace('_', '-')}") for n in _NAMES}
        for name, value in properties.items():
            # Catalogs issue a SAS token for each account host. Like PyIceberg, use the first one.
            if name.startswith("adls.sas-token."):
                found["account_name"] = found["account_name"] or name.split(".")[2]
                found["sas_token"] = found["sas_token"] or value
        return cls(**found)

    def to_fsspec(self) -> dict[str, Any]:
        """Return the settings as adlfs options, without ``anon`` and ``others``.

        Call this only for settings from Hadoop or PyIceberg, which never set these two fields.
        """
        return {name: value for name in _NAMES if (value := getattr(self, name))}

    def to_hadoop(self, authority: str) -> dict[str, str]:
        """Return Hadoop's ABFS settings for one container.

        Options without a counterpart in ABFS are ignored. If the options name another account, the
        result is empty, and the Spark session's own settings apply.

        Args:
            authority: ``container@host``, as in the file paths.
        """
        own = self._connected()
        container, _, host = authority.partition("@")
        account = host.partition(".")[0]
        if not host or (own.account_name or account) != account:
            return {}
        # Set each value for both the account and the container. The session may have set either of
        # them, and ABFS prefers the more specific name.
        return {
            f"{_ABFS}{name}.{place}": str(value)
            for name, value in own._abfs_identity().items()
            for place in (host, f"{container}.{host}")
        }

    def _abfs_identity(self) -> dict[str, str]:
        """Return ABFS settings for the authentication method that adlfs would choose."""
        if self.account_key:
            return {
                "account.auth.type": "SharedKey",
                "account.keyprovider": f"{_CLASSES}.services.SimpleKeyProvider",
                "account.key": self.account_key,
            }
        if self.sas_token:
            # This has no effect if the session sets a class that provides SAS tokens, because ABFS
            # prefers that class.
            token = self.sas_token.removeprefix("?")
            return {"account.auth.type": "SAS", "sas.fixed.token": token}
        if not (self.tenant_id and self.client_id and self.client_secret):
            return {}
        return {
            "account.auth.type": "OAuth",
            "account.oauth.provider.type": f"{_CLASSES}.oauth2.{_CLIENT_CLASS}",
            "account.oauth2.client.endpoint": f"{_LOGIN}/{self.tenant_id}/oauth2/token",
            "account.oauth2.client.id": self.client_id,
            "account.oauth2.client.secret": self.client_secret,
        }

    def check_account(self, authority: str) -> None:
        """Check that the options do not name another account than a location.

        adlfs would list the account in the options. If the directory does not exist there, adlfs
        raises no error, and rows would be lost silently.

        Args:
            authority: ``container@host`` or ``container``, as in the file paths.

        Raises:
            ConfigError: if the accounts differ, or if only the environment names the account for a
                host outside of the public cloud.
        """
        host = authority.partition("@")[2].lower()
        text = self.connection_string or _ambient("connection_string")
        whole = replace(self, connection_string=text)._connected()
        if not _WITH_ACCOUNT.match(host):  # an emulator's host, for example, names no account
            return
        name = whole.account_name
        is_given = self.connection_string or (name and not text)
        is_ambient = not (name or text or _PUBLIC.fullmatch(host))
        if is_ambient:
            name = _ambient("account_name")
        differs = name and name.lower() != host.partition(".")[0]
        if differs or (name and is_ambient and not whole.account_host):
            raise ConfigError(
                f"The files are in the Azure account {host!r}, but the "
                f"{'storage options name' if is_given else 'environment names'} {name!r}.",
                hint="pass account_name and credentials of the files' account as storage_options, "
                "and account_host for an account outside of the public cloud.",
            )

    def _connected(self) -> AzureSettings:
        """Convert the connection string to settings, or return ``self`` if there is none."""
        if not self.connection_string:
            return self
        pairs = (part.partition("=") for part in self.connection_string.rstrip(";").split(";"))
        values = {name.upper(): value for name, _, value in pairs}
        name, scheme = values.get("ACCOUNTNAME"), values.get("DEFAULTENDPOINTSPROTOCOL", "https")
        host = f"{scheme}://{name}.blob.{values.get('ENDPOINTSUFFIX', 'core.windows.net')}"
        return AzureSettings(
            account_name=name,
            account_host=values.get("BLOBENDPOINT") or host,
            account_key=values.get("ACCOUNTKEY"),
            sas_token=values.get("SHAREDACCESSSIGNATURE"),
        )

    def stores(self) -> StoreOf:
        """Return a function that creates obstore stores with the same listings as adlfs.

        Raises:
            NotFollowed: if obstore does not support an option, or there are no credentials.
            ImportError: if a package is missing.
        """
        from obstore.store import AzureStore

        if refused := [*self.others, *variables_of_obstore("AZURE")]:
            raise NotFollowed(", ".join(refused))
        ambient: dict[str, Any] = {n: getattr(self, n) or _ambient(n) for n in _AMBIENT}
        whole = replace(self, **ambient)
        account = self.account_name
        if whole.connection_string:
            whole = whole._connected()
            account = whole.account_name
            if not (account and (whole.account_key or whole.sas_token)):
                raise NotFollowed("a connection string without account or credentials")
        credentials = whole._credentials()
        settings: dict[str, Any] = {"skip_signature": credentials is None}
        settings |= {"credential_provider": credentials} if credentials else {}
        host = whole.account_host or ""
        endpoint = host if "://" in host or not host else f"https://{host}"

        def store(bucket: str, *, retry_config: Any) -> Any:
            container, _, authority = bucket.partition("@")
            named = _PUBLIC.fullmatch(authority)
            name = account or (named[1] if named else whole.account_name)
            self.check_account(bucket)
            if not name or "." in container or ":" in bucket:
                raise NotFollowed(bucket)
            return AzureStore(
                container,
                account_name=name,
                endpoint=endpoint or f"https://{name}.blob.core.windows.net",
                client_options={"allow_http": True},
                retry_config=retry_config,
                use_emulator=False,  # ignore the emulator's environment variables, as adlfs does
                **settings,
            )

        return store

    def _credentials(self) -> Callable[[], dict[str, Any]] | None:
        """Return a function that gets the same credentials as adlfs, or None if anonymous."""
        if self.account_key:
            return lambda: {"access_key": self.account_key, "expires_at": None}
        if self.sas_token:
            signature = self.sas_token.removeprefix("?")
            return lambda: {"sas_token": signature, "expires_at": None}
        anonymous = self.anon
        if anonymous is None:
            anonymous = (_ambient("anon") or "false").lower() not in ("false", "0", "f")
        if anonymous and not self.client_id:
            return None
        from azure.identity import ClientSecretCredential, DefaultAzureCredential

        client = tuple(getattr(self, name) or "" for name in _CLIENT)
        try:
            found: Any = (
                ClientSecretCredential(*client) if self.client_id else DefaultAzureCredential()
            )
        except ValueError as error:
            raise NotFollowed(str(error)) from error
        lock = threading.Lock()

        def give() -> dict[str, Any]:
            with lock:
                token = found.get_token(_SCOPE)
            expires = datetime.fromtimestamp(token.expires_on, UTC)
            return {"token": token.token, "expires_at": expires}

        return give


def _ambient(name: str) -> str | None:
    return os.environ.get(f"AZURE_STORAGE_{name.upper()}")


# gcsfs options that do not affect listings.
_OF_GCS: Final = {"access", "cache_timeout", "consistency", "default_location"}
_SCOPES: Final = ("https://www.googleapis.com/auth/devstorage.read_only",)
# Environment variable with an emulator's address. If it is set, gcsfs lists the buckets: obstore
# uses the XML API, which most emulators do not have.
_EMULATOR: Final = "STORAGE_EMULATOR_HOST"
_KEY_FILE: Final = "auth.service.account.json.keyfile"


@dataclass(frozen=True, repr=False)
class GcsSettings:
    """Credentials and options for a Google Cloud Storage client."""

    token: Any = None
    """``anon``, a key file or its content, or google-auth credentials; None means the default."""
    project: str | None = None
    others: tuple[str, ...] = ()
    """Names of options that only gcsfs supports."""

    kind: ClassVar = FLAT
    hadoop_names: ClassVar = ()
    hadoop_prefixes: ClassVar = ("fs.gs.", "google.cloud.auth.")

    @classmethod
    def from_fsspec(cls, options: Mapping[str, Any]) -> Self:
        """Create the settings from gcsfs options."""
        given = listing_options(options, _OF_GCS)
        token, project = given.pop("token", None), given.pop("project", None)
        return cls(token, project, tuple(given))

    @classmethod
    def from_hadoop(cls, settings: Mapping[str, str]) -> dict[str, Self]:
        """Create settings for all buckets, with the key file and project in Hadoop's settings."""
        given = {name: value.strip() for name, value in settings.items()}
        token = given.get(f"fs.gs.{_KEY_FILE}") or given.get(f"google.cloud.{_KEY_FILE}")
        if given.get("fs.gs.auth.type", "").upper() == "UNAUTHENTICATED":
            token = "anon"
        return {"gs": cls(token, given.get("fs.gs.project.id"))}

    def to_fsspec(self) -> dict[str, Any]:
        """Return the settings as gcsfs options, without ``others``.

        Call this only for settings from Hadoop, which never set this field.
        """
        options = {"token": self.token, "project": self.project}
        return {name: value for name, value in options.items() if value}

    def stores(self) -> StoreOf:
        """Return a function that creates obstore stores with the same listings as gcsfs.

        Raises:
            NotFollowed: if obstore does not support an option, or there are no credentials.
            ImportError: if a package is missing.
        """
        from obstore.store import GCSStore

        variables = [_EMULATOR] if os.environ.get(_EMULATOR) else []
        if refused := [*self.others, *variables, *variables_of_obstore("GOOGLE")]:
            raise NotFollowed(", ".join(refused))
        if self.token == "anon":
            return partial(GCSStore, skip_signature=True)
        return partial(GCSStore, credential_provider=_credentials(self.token))


def _credentials(token: Any) -> Callable[[], Any]:
    """Return a function that gets the same credentials as gcsfs."""
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
            expiry = found.expiry  # a time in UTC, but without a time zone
            expires = None if expiry is None else expiry.replace(tzinfo=UTC)
            return {"token": found.token, "expires_at": expires}

    return give


def _of_account(token: Any) -> Any:
    """Create google-auth credentials from an account's JSON: a mapping or the path of a file."""
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
