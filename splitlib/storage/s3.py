"""Credentials and options for S3 clients: s3fs, obstore, botocore, Hadoop's S3A and PyIceberg."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, Final, Self
from urllib.parse import quote, urlsplit

from splitlib.storage.clients import listing_options, nested_options, variables_of_obstore
from splitlib.storage.pages import FLAT, NotFollowed, StoreOf
from splitlib.storage.s3_pages import S3Pages

# For each `S3Settings` field, the s3fs options that set it. The first one takes precedence.
_OPTIONS: Final = {
    "key": ("key", "username", "client_kwargs.aws_access_key_id"),
    "secret": ("secret", "password", "client_kwargs.aws_secret_access_key"),
    "token": ("token", "client_kwargs.aws_session_token"),
    "anon": ("anon",),
    "endpoint_url": ("endpoint_url", "client_kwargs.endpoint_url"),
    "use_ssl": ("use_ssl", "client_kwargs.use_ssl"),
    "region": ("client_kwargs.region_name", "region", "config_kwargs.region_name"),
    "addressing_style": ("config_kwargs.s3.addressing_style",),
    "requester_pays": ("requester_pays",),
    "connect_timeout": ("config_kwargs.connect_timeout",),
    "read_timeout": ("config_kwargs.read_timeout",),
}
# s3fs options that do not affect listings. The number of connections is one of them, because
# obstore does not limit it.
_WITHOUT_MEANING: Final = {"cache_regions", "config_kwargs.max_pool_connections"}
_DIRECTORY_BUCKET: Final = "--x-s3"
# Partitions of AWS in which hosts end with ``amazonaws.com``, as obstore expects.
_PARTITIONS: Final = ("aws", "aws-us-gov")
_DEFAULT_REGION: Final = "us-east-1"
# botocore's settings that obstore does not have.
_OF_BOTOCORE: Final = ("use_dualstack_endpoint", "use_fips_endpoint")
_S3A: Final = "fs.s3a."
_S3A_NAMES: Final = (
    "access.key",
    "aws.credentials.provider",
    "connection.ssl.enabled",
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "requester.pays.enabled",
    "secret.key",
    "session.token",
)
# Matches a host such as s3.eu-west-1.amazonaws.com. Like S3A, splitlib takes the region from it.
_REGION_IN_HOST: Final = re.compile(
    r"\bs3[.-](?:(?:fips|dualstack|accesspoint)\.)*([a-z]+(?:-[a-z]+)+-\d+)\.(?:vpce\.)?amazonaws\."
)
_OF_A_BUCKET = re.compile(rf"fs\.s3a\.bucket\.(.+)\.({'|'.join(map(re.escape, _S3A_NAMES))})")
_PROVIDER: Final = "org.apache.hadoop.fs.s3a.{}AWSCredentialsProvider"
# Credential providers that use access.key and secret.key.
_WITH_KEYS: Final = ("SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider")
# If one of these properties is set, PyIceberg does not use the access key and the secret key, so
# splitlib must not use them either.
_NOT_BY_KEYS: Final = re.compile(r"(s3|client)\.(signer|role-arn|profile-name)")
_TRUE: Final = ("true", "1", "yes", "y", "t", "on")
_PYICEBERG: Final = {
    "key": "access-key-id",
    "secret": "secret-access-key",
    "token": "session-token",
    "region": "region",
}


@dataclass(frozen=True, repr=False)
class S3Settings:
    """Credentials and options for an S3 client. The fields are named as in s3fs and botocore."""

    key: str | None = None
    secret: str | None = None
    token: str | None = None
    anon: bool = False
    endpoint_url: str | None = None
    """Server URL; None means AWS."""
    use_ssl: bool = True
    region: str | None = None
    addressing_style: str = "auto"
    requester_pays: bool = False
    # Both timeouts are in seconds and have obstore's defaults.
    connect_timeout: float = 5
    read_timeout: float = 30
    others: tuple[str, ...] = ()
    """Names of options that only s3fs supports."""

    kind: ClassVar = FLAT
    hadoop_names: ClassVar = tuple(_S3A + name for name in _S3A_NAMES)
    hadoop_prefixes: ClassVar = (f"{_S3A}bucket.",)

    @classmethod
    def from_fsspec(cls, options: Mapping[str, Any]) -> Self:
        """Create the settings from s3fs options."""
        given = listing_options(dict(_flat(options)), _WITHOUT_MEANING)
        found: dict[str, Any] = {}
        for field, names in _OPTIONS.items():
            if values := [given.pop(name) for name in names if name in given]:
                found[field] = values[0]
        return cls(**found, others=tuple(given))

    @classmethod
    def from_hadoop(cls, settings: Mapping[str, str]) -> dict[str, Self]:
        """Create settings for each bucket from Hadoop's S3A settings.

        In the returned dict, the key ``s3`` applies to all buckets. Each bucket with settings of
        its own also has a key, such as ``s3://bucket``.
        """
        general = {name: settings.get(_S3A + name, "").strip() for name in _S3A_NAMES}
        stores = {"s3": general}
        for name, value in settings.items():
            if own := _OF_A_BUCKET.fullmatch(name):
                stores.setdefault(f"s3://{own[1]}", dict(general))[own[2]] = value.strip()
        return {store: cls._from_s3a(given) for store, given in stores.items()}

    @classmethod
    def _from_s3a(cls, given: Mapping[str, str]) -> Self:
        provider, endpoint = given["aws.credentials.provider"], given["endpoint"]
        key, secret, token = map(given.get, ("access.key", "secret.key", "session.token"))
        # S3A tries the providers in this order. The simple one does not use the session token, even
        # if Spark has copied a token from the environment.
        found: dict[str, Any] = {"anon": "Anonymous" in provider.partition(",")[0]}
        with_keys = [kind for kind in _WITH_KEYS if kind in provider]
        if key and secret and (with_keys or not provider):
            is_simple = min(with_keys, key=provider.index, default="").startswith("Simple")
            found = {"key": key, "secret": secret, "token": None if is_simple else token}
        in_host = _REGION_IN_HOST.search(endpoint)
        # Drop the global endpoint, which is the default, because s3fs would treat any explicit
        # endpoint as a server other than AWS.
        if endpoint.rpartition("/")[2] == "s3.amazonaws.com":
            endpoint = ""
        if endpoint and "://" not in endpoint:
            is_secure = given["connection.ssl.enabled"].lower() in ("", "true")
            endpoint = f"{'https' if is_secure else 'http'}://{endpoint}"
        return cls._of(
            **found,
            endpoint_url=endpoint,
            region=given["endpoint.region"] or (in_host[1] if in_host else None),
            addressing_style="path" if given["path.style.access"].lower() == "true" else None,
            requester_pays=given["requester.pays.enabled"].lower() == "true",
        )

    @classmethod
    def from_pyiceberg(cls, properties: Mapping[str, Any]) -> Self:
        """Create settings from PyIceberg properties, or empty settings if s3fs lacks an option."""
        given = {name: value for name, value in properties.items() if value}
        if any(_NOT_BY_KEYS.fullmatch(name) for name in given):
            return cls()
        is_set = {name for name, value in given.items() if str(value).lower() in _TRUE}
        return cls._of(
            **{k: given.get(f"s3.{v}", given.get(f"client.{v}")) for k, v in _PYICEBERG.items()},
            endpoint_url=given.get("s3.endpoint"),
            anon="s3.anonymous" in is_set,
            addressing_style="virtual" if "s3.force-virtual-addressing" in is_set else None,
        )

    @classmethod
    def _of(cls, **fields: Any) -> Self:
        """Create settings with these fields. Fields that are None or empty get their defaults."""
        return cls(**{name: value for name, value in fields.items() if value})

    def to_fsspec(self) -> dict[str, Any]:
        """Return the settings as s3fs options. Settings with default values are left out."""
        fields = {name: getattr(self, name) for name in _OPTIONS}
        changed = {name: v for name, v in fields.items() if v != getattr(S3Settings, name)}
        return nested_options({_OPTIONS[name][0]: value for name, value in changed.items()})

    def to_hadoop(self, bucket: str) -> dict[str, str]:
        """Return Hadoop's S3A settings for one bucket.

        Options without a counterpart in S3A are ignored. The Spark session's settings then apply.
        """
        found: dict[str, str | bool] = {}
        if self.anon:
            found["aws.credentials.provider"] = _PROVIDER.format("Anonymous")
        elif self.key and self.secret:
            kind = "Temporary" if self.token else "Simple"
            found["aws.credentials.provider"] = _PROVIDER.format(kind)
            found |= {"access.key": self.key, "secret.key": self.secret}
            found |= {"session.token": self.token} if self.token else {}
        if self.endpoint_url:
            found["endpoint"] = self.endpoint_url
        if self.endpoint_url or not self.use_ssl:
            is_secure = not (self.endpoint_url or "http://").startswith("http://")
            found["connection.ssl.enabled"] = is_secure
        if self.endpoint_url or self.region:
            # Without a region, botocore signs requests to servers other than AWS with the default
            # region. S3A must do the same.
            found["endpoint.region"] = self.region or _DEFAULT_REGION
        if self.endpoint_url or self.addressing_style != "auto":
            found["path.style.access"] = self.addressing_style != "virtual"
        if self.requester_pays:
            found["requester.pays.enabled"] = True
        texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in found.items()}
        return {f"{_S3A}bucket.{bucket}.{name}": text for name, text in texts.items()}

    def stores(self) -> StoreOf:
        """Return a function that creates stores with the same listings as s3fs.

        These are obstore stores for AWS, and :class:`S3Pages` for other servers.

        Raises:
            NotFollowed: if obstore does not support an option, or there are no credentials.
            ImportError: if a package is missing.
        """
        from botocore.session import get_session
        from obstore.store import S3Store

        if self.others:
            raise NotFollowed(", ".join(self.others))
        session = get_session()
        region = self.region or session.get_config_variable("region") or _DEFAULT_REGION
        endpoint = self.endpoint_url or _endpoint(session)
        whole = replace(self, endpoint_url=endpoint, region=region)
        if whole.endpoint_url is not None:
            return whole._shown_pages(session)
        if not self.use_ssl:
            raise NotFollowed("use_ssl")
        _refuse_environment(session, region)
        create: Any = partial(S3Store, **whole._to_obstore(session))

        def store(bucket: str, *, retry_config: Any) -> Any:
            if bucket.endswith(_DIRECTORY_BUCKET):
                raise NotFollowed("Directory buckets have other hosts and another login.")
            # The certificate of AWS is not valid for a host name with more than one label.
            auto = self.addressing_style == "auto" and "." not in bucket
            is_virtual = auto or self.addressing_style == "virtual"
            return create(
                bucket, virtual_hosted_style_request=is_virtual, retry_config=retry_config
            )

        return store

    def _to_obstore(self, session: Any) -> dict[str, Any]:
        """Return the arguments for obstore's ``S3Store`` on AWS, except for those of a bucket."""
        seconds = {"connect_timeout": self.connect_timeout, "timeout": self.read_timeout}
        timeouts = {name: timedelta(seconds=float(value)) for name, value in seconds.items()}
        settings = {
            "region": self.region,
            "request_payer": self.requester_pays,
            "client_options": {"allow_http": True, **timeouts},
        }
        credentials = self._credentials(session)
        if credentials is None:
            return settings | {"skip_signature": True}

        def give() -> dict[str, Any]:
            now = credentials.get_frozen_credentials()
            return {
                "access_key_id": now.access_key,
                "secret_access_key": now.secret_key,
                "token": now.token,
                # obstore calls this function again when the credentials expire. botocore has
                # renewed them by then.
                "expires_at": getattr(credentials, "_expiry_time", None),
            }

        return settings | {"credential_provider": give}

    def _shown_pages(self, session: Any) -> StoreOf:
        """Return a function that creates :class:`S3Pages`, for servers other than AWS."""
        get = self._sender(session)
        endpoint = urlsplit((self.endpoint_url or "").rstrip("/"))

        def store(bucket: str, *, retry_config: Any) -> Any:
            url = f"{endpoint.scheme}://{endpoint.netloc}{endpoint.path}/{quote(bucket, safe='')}"
            if self.addressing_style == "virtual":
                url = f"{endpoint.scheme}://{bucket}.{endpoint.netloc}{endpoint.path}/"
            retries = retry_config["max_retries"]
            return S3Pages(bucket, url, get, float(self.read_timeout), retries)

        return store

    def _sender(self, session: Any) -> Callable[[str], Any]:
        """Return a function that sends a signed GET request to a URL, and reuses connections."""
        from botocore.auth import S3SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.httpsession import URLLib3Session
        from botocore.utils import get_environ_proxies

        credentials = self._credentials(session)
        certificates = session.get_config_variable("ca_bundle")
        headers = {"x-amz-request-payer": "requester"} if self.requester_pays else {}
        client = URLLib3Session(
            verify=certificates or os.environ.get("REQUESTS_CA_BUNDLE") or True,
            proxies=get_environ_proxies(self.endpoint_url),
            timeout=(float(self.connect_timeout), float(self.read_timeout)),
            max_pool_connections=64,
        )

        def get(url: str) -> Any:
            request = AWSRequest("GET", url, dict(headers))
            request.stream_output = True
            if credentials is not None:
                now = credentials.get_frozen_credentials()
                S3SigV4Auth(now, "s3", self.region).add_auth(request)
            return client.send(request.prepare())

        return get

    def _credentials(self, session: Any) -> Any:
        """Return botocore credentials, or None for anonymous access."""
        from botocore.credentials import Credentials

        if self.anon:
            return None
        if self.key and self.secret:
            return Credentials(self.key, self.secret, self.token)
        if self.key or self.secret or self.token:
            raise NotFollowed("a key without its secret")
        if (found := session.get_credentials()) is None:
            raise NotFollowed("there are no credentials")
        return found


def _flat(options: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield options with dotted names, such as ``client_kwargs.endpoint_url``."""
    for name, value in options.items():
        if isinstance(value, Mapping) and name in ("client_kwargs", "config_kwargs", "s3"):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _endpoint(session: Any) -> str | None:
    """Return the endpoint URL that botocore reads from the environment, or None for AWS."""
    if {"endpoint_url", "services", "s3"} & set(session.get_scoped_config()):
        raise NotFollowed("the profile sets endpoint_url, services or s3")
    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")


def _refuse_environment(session: Any, region: str) -> None:
    """Check that obstore sends its requests to the same host, and as securely, as botocore.

    Raises:
        NotFollowed: if the environment or the region requires another host or certificate.
    """
    from botocore.exceptions import UnknownRegionError

    names = [name for name in _OF_BOTOCORE if session.get_config_variable(name)]
    # obstore reads the certificates of SSL_CERT_FILE, which is usually set together with these.
    if not os.environ.get("SSL_CERT_FILE"):
        names += ["ca_bundle"] * bool(session.get_config_variable("ca_bundle"))
        names += ["REQUESTS_CA_BUNDLE"] * bool(os.environ.get("REQUESTS_CA_BUNDLE"))
    if names := names + variables_of_obstore("AWS"):
        raise NotFollowed(", ".join(names))
    try:
        partition = session.get_partition_for_region(region)
    except UnknownRegionError:
        return
    if partition not in _PARTITIONS:
        raise NotFollowed(f"Region {region} is in partition {partition}.")
