"""Create obstore's stores for S3, from options of s3fs.

s3fs is fsspec's client for S3. obstore is a faster client, which splitlib uses for listings.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from splitlib.storage.pages import NotFollowed, StoreOf

# Options of s3fs that do not affect listings.
_WITHOUT_MEANING = frozenset(
    {
        "cache_regions",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "listings_expiry_time",
        "max_concurrency",
        "max_paths",
        "skip_instance_cache",
        "use_listings_cache",
    }
)
_KEYS = {"key": "access_key_id", "secret": "secret_access_key", "token": "token"}
_CLIENT_KEYS = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "endpoint_url": "endpoint_url",
    "region_name": "region",
    "use_ssl": "use_ssl",
}
_CONFIG_SECONDS = {"connect_timeout": "connect_timeout", "read_timeout": "timeout"}


def s3_stores(options: Mapping[str, Any]) -> StoreOf:
    """Return a function that creates stores which behave as s3fs does with these options.

    Raises:
        NotFollowed: if obstore does not support an option.
    """
    settings = _settings(options)
    if "endpoint" in settings:
        return _shown_pages(settings)

    def store(bucket: str, *, retry_config: Any) -> Any:
        from obstore.store import S3Store

        return S3Store(bucket, retry_config=retry_config, **settings)

    return store


def _shown_pages(settings: Mapping[str, Any]) -> StoreOf:
    """Return a function that creates stores on servers other than AWS, listed without obstore."""
    from splitlib.storage.s3_pages import S3Pages, sender

    send = sender(settings, _Ambient().certificates())

    def store(bucket: str, *, retry_config: Any) -> Any:
        return S3Pages(bucket, settings, send, retry_config["max_retries"])

    return store


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in options.items() if key not in _WITHOUT_MEANING}
    given = {key: value for key, value in given.items() if value is not None}
    for key, value in dict(given.pop("client_kwargs", None) or {}).items():
        if key not in _CLIENT_KEYS:
            raise NotFollowed(f"client_kwargs {key}")
        given.setdefault(_CLIENT_KEYS[key], value)
    config = dict(given.pop("config_kwargs", None) or {})
    config.pop("max_pool_connections", None)  # obstore has no such limit
    style = dict(config.pop("s3", None) or {})
    virtual = style.pop("addressing_style", "auto") == "virtual"
    region = config.pop("region_name", None)
    seconds = {_CONFIG_SECONDS[k]: config.pop(k) for k in list(config) if k in _CONFIG_SECONDS}
    keys = {name: given.pop(option, None) for option, name in _KEYS.items()}
    anonymous = bool(given.pop("anon", False))
    payer = bool(given.pop("requester_pays", False))
    endpoint = given.pop("endpoint_url", None)
    secure = given.pop("use_ssl", True)
    region = given.pop("region", None) or region
    if given or config or style:
        raise NotFollowed(", ".join([*given, *config, *style]))
    ambient = _Ambient()
    endpoint = endpoint or ambient.endpoint()
    region = region or ambient.region()
    settings: dict[str, Any] = {
        "region": region or "us-east-1",
        # As botocore: AWS expects the bucket in the host name, other servers in the path.
        "virtual_hosted_style_request": virtual or endpoint is None,
        "request_payer": payer,
        "client_options": {
            "allow_http": True,
            **{name: timedelta(seconds=float(value)) for name, value in seconds.items()},
        },
    }
    if endpoint is not None:
        settings["endpoint"] = endpoint
    elif not secure:
        raise NotFollowed("use_ssl")
    if anonymous:
        settings["skip_signature"] = True
    elif keys["access_key_id"] and keys["secret_access_key"]:
        settings["credential_provider"] = lambda: {**keys, "expires_at": None}
    elif any(keys.values()):
        raise NotFollowed("a key without its secret")
    elif (provider := ambient.credentials()) is not None:
        settings["credential_provider"] = provider
    else:
        raise NotFollowed("there are no credentials")
    return settings


class _Ambient:
    """Settings from environment variables and AWS's configuration files, as botocore reads them."""

    def __init__(self) -> None:
        try:
            from botocore.session import get_session
        except ImportError as error:
            raise NotFollowed(str(error)) from error
        self._session = get_session()

    def endpoint(self) -> str | None:
        """Return the URL of the endpoint; None means AWS.

        Raises:
            NotFollowed: if the profile in AWS's configuration file may set the endpoint.
        """
        profile = self._session.get_scoped_config()
        if {"endpoint_url", "services", "s3"} & set(profile):
            raise NotFollowed("the profile sets endpoint_url, services or s3")
        return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")

    def region(self) -> str | None:
        """Return the default region; None means that it is not set."""
        region: str | None = self._session.get_config_variable("region")
        return region

    def certificates(self) -> bool | str:
        """Return the path of a file with trusted certificates; True means the default file."""
        given: str | None = self._session.get_config_variable("ca_bundle")
        return given or os.environ.get("REQUESTS_CA_BUNDLE") or True

    def credentials(self) -> Callable[[], dict[str, Any]] | None:
        """Return a function that gets current credentials; None if there are no credentials."""
        found = self._session.get_credentials()
        if found is None:
            return None

        def give() -> dict[str, Any]:
            now = found.get_frozen_credentials()
            # obstore calls this again when credentials expire. botocore renews them before.
            expires = getattr(found, "_expiry_time", None)
            return {
                "access_key_id": now.access_key,
                "secret_access_key": now.secret_key,
                "token": now.token,
                "expires_at": expires,
            }

        return give
