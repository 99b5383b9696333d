"""A client for AWS Glue that sends requests with a deadline, and raises splitlib's errors."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Final
from urllib.parse import urlsplit

import botocore.exceptions as boto_errors
import urllib3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.httpsession import ProxyConfiguration, get_cert_path
from botocore.loaders import create_loader
from botocore.session import get_session
from botocore.utils import get_environ_proxies

from splitlib.config import SplitConfig
from splitlib.errors import (
    AccessDenied,
    ConfigError,
    SourceError,
    SourceUnavailable,
    SplitlibError,
    TableNotFound,
    error_context,
)
from splitlib.hive.entries import readable_metadata
from splitlib.redaction import remember
from splitlib.remote.calls import current_call
from splitlib.remote.retry import retrying
from splitlib.storage.clients import in_forks_of_this

CATALOG: Final = "catalog"
"""Name of Glue in error messages about damaged metadata."""
NUMBERS: Final = {"connect_timeout_seconds": 10.0, "timeout_seconds": 60.0}
OPTIONS: Final = frozenset(
    {"region", "endpoint_url", "catalog_id", "profile", "key", "secret", "token", *NUMBERS}
)
SEGMENTS: Final = 10
"""Number of concurrent requests. Glue divides a table into at most 10 segments."""
MOST_BYTES: Final = 256 << 20
"""Maximum size of a response, in bytes."""
MOST_PAGES: Final = 100_000
"""Maximum number of pages of one result. Glue's largest tables have 20,000 pages of partitions."""
_PIECE: Final = 1 << 16
# Patterns of error codes.
_THROTTLED: Final = re.compile(
    "Throttl|SlowDown|TooManyRequests|RequestLimitExceeded|BandwidthLimit|ProvisionedThroughput"
)
_TRANSIENT: Final = re.compile("Internal|Timeout|ServiceUnavailable|NotReady|SourceRetryable")
# Glue reports most denials with status 400.
_DENIED: Final = re.compile(
    "AccessDenied|Expired|Signature|ClientTokenId|MissingAuthenticationToken|OptInRequired|"
    "PermissionTypeMismatch|UnrecognizedClient"
)
_NO_LOGIN: Final = (
    boto_errors.CredentialRetrievalError,
    boto_errors.NoCredentialsError,
    boto_errors.PartialCredentialsError,
    boto_errors.TokenRetrievalError,
    boto_errors.SSOTokenLoadError,
    boto_errors.UnauthorizedSSOTokenError,
)


class InvalidRequest(SourceError):
    """Glue rejected an argument of a request, such as a filter expression."""


class GlueClient:
    """Sends requests to Glue. Thread-safe.

    botocore finds the endpoint and the credentials, and signs the requests. Its client does not
    send them: it has no deadline for a whole response, converts a truncated response to an empty
    result, and drops fields that are newer than the installed botocore. Such a field may mean that
    a table is a view, or that its rows are filtered.

    Args:
        options: Connector options. Only those in :data:`OPTIONS` are used.

    Raises:
        ConfigError: for an invalid option, or if no region is configured.
        AccessDenied: if there are no credentials.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._connect_seconds, self._seconds = (
            positive(name, options.get(name, default)) for name, default in NUMBERS.items()
        )
        for name in OPTIONS.difference(NUMBERS).intersection(options):
            if not isinstance(options[name], str | None):
                # The message must not contain the value, which may be a secret.
                raise ConfigError(f"{name} is a {type(options[name]).__name__}, not a text.")
        catalog_id = options.get("catalog_id")
        self._always = {} if catalog_id is None else {"CatalogId": str(catalog_id)}
        if (options.get("key") is None) != (options.get("secret") is None):
            raise ConfigError("One of the options key and secret is missing.", hint="pass both.")
        with _errors():
            session = get_session()
            session.register_component("data_loader", _loader())
            for name in ("profile", "region"):
                if options.get(name):
                    session.set_config_variable(name, str(options[name]))
            if options.get("key"):
                keys = (str(options.get(name) or "") for name in ("key", "secret", "token"))
                session.set_credentials(*keys)
            verify = session.get_config_variable("ca_bundle")
            self._certificates = get_cert_path(
                verify or os.environ.get("REQUESTS_CA_BUNDLE") or True
            )
            try:
                client = session.create_client("glue", endpoint_url=options.get("endpoint_url"))
                self._url = client.meta.endpoint_url
                self._connect()
            except ValueError as error:
                raise ConfigError(f"The client of Glue cannot be made: {error}") from error
            self.region = client.meta.region_name
            """Region of the catalog."""
            client.close()
            self._credentials = session.get_credentials()
            if self._credentials is None:
                raise boto_errors.NoCredentialsError
        # A forked process must not use its parent's connections.
        in_forks_of_this(self, GlueClient._connect)

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Send one request, and return the JSON object in the response.

        Args:
            operation: Name of the operation in Glue's API, such as ``GetTable``.
            arguments: Arguments of the operation. Those that are None are not sent.

        Raises:
            TableNotFound: if the database or table does not exist.
            InvalidRequest: if Glue rejects an argument.
            AccessDenied: if Glue denies access.
            SourceUnavailable: for throttling, and other failures that a retry may fix.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"AWSGlue.{operation}",
        }
        with error_context(connector="glue"), _errors():
            body = json.dumps(self._always | given).encode()
            request = AWSRequest("POST", self._url, headers, body)
            credentials = self._credentials.get_frozen_credentials()
            remember("", {"secret": credentials.secret_key, "token": credentials.token})
            SigV4Auth(credentials, "glue", self.region).add_auth(request)
            status, received = self._send(dict(request.prepare().headers), body)
            try:
                answer = json.loads(received)
            except (ValueError, RecursionError):
                answer = None
            if status >= 300:
                answer = answer if isinstance(answer, dict) else {}
                code = str(answer.get("__type") or "").rpartition("#")[2]
                text = answer.get("Message") or answer.get("message") or "no message"
                raise _refusal(code, status, f"{operation}: {text} ({code or 'status'} {status})")
            if not isinstance(answer, dict):
                raise SourceUnavailable(
                    "A response of Glue is not a JSON object.",
                    hint="check endpoint_url, and whether a proxy responds instead of Glue.",
                )
            return answer

    def pages(
        self, operation: str, field: str, token: str | None = None, **arguments: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the responses to a request whose result comes in pages, each with retries.

        Args:
            operation: As for :meth:`call`.
            field: The response's field that contains the entries.
            token: Token of the first page to request, or None to start at the beginning.
            arguments: As for :meth:`call`.

        Raises:
            SourceError: if the pages repeat or do not end, and as for :meth:`call`.
        """
        seen = {token}
        for _ in range(MOST_PAGES):
            request = partial(self.call, operation, **arguments, NextToken=token)
            answer = retrying(request, SplitConfig())
            with readable_metadata(field, catalog=CATALOG):
                # Recognize a repeated page by its first entry. Empty pages may repeat.
                marks = [json.dumps(each) for each in answer[field][:1]]
                token = answer.get("NextToken") or None
                if not seen.isdisjoint([*marks, token or ""]):
                    raise SourceError(f"Glue returns the same page of {field} again and again.")
                seen.update([*marks, token])
            yield answer
            if token is None:  # an empty page with a token is not the last one
                return
        raise SourceError(f"Glue returns more than {MOST_PAGES} pages of {field}.")

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()

    def _connect(self) -> None:
        settings: dict[str, Any] = {
            "ca_certs": self._certificates,
            "cert_reqs": "CERT_REQUIRED",
            "maxsize": SEGMENTS,
            # Without TCP_NODELAY, a body is sent only after Glue has acknowledged its headers. This
            # would delay every request.
            "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        }
        parts = urlsplit(self._url)
        proxies = ProxyConfiguration(get_environ_proxies(self._url))
        proxy = proxies.proxy_url_for(self._url)
        manager = urllib3.PoolManager(**settings)
        if proxy:
            login = proxies.proxy_headers_for(proxy)
            manager = urllib3.ProxyManager(proxy, proxy_headers=login, **settings)
        self._pool = manager.connection_from_url(self._url)
        self._target = self._url if proxy and parts.scheme == "http" else parts.path or "/"

    def _send(self, headers: dict[str, Any], body: bytes) -> tuple[int, bytes]:
        """Send one request, and return the status and body of the response.

        Raises:
            SourceUnavailable: if the response is late, or the current call was abandoned.
            SourceError: if the response is larger than :data:`MOST_BYTES`.
        """
        call, seconds = current_call(), self._seconds
        if call is not None:  # the request must not take longer than the call that it belongs to
            seconds = min(seconds, call.remaining_seconds())
            if not seconds or call.abandoned.is_set():
                raise SourceUnavailable("There is no time left for a request to Glue.")
        until = time.monotonic() + seconds
        response = self._pool.urlopen(
            "POST",
            self._target,
            body,
            headers,
            timeout=urllib3.Timeout(connect=min(self._connect_seconds, seconds), read=seconds),
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
        )
        try:
            return response.status, _body(response, until)
        except BaseException:
            response.close()
            raise


def _body(response: Any, until: float) -> bytes:
    call = current_call()
    # Before version 2, urllib3 has no `read1`. Its `read` returns only after `_PIECE` bytes or at
    # the end, so that the deadline is checked less often.
    read = getattr(response, "read1", response.read)
    found = bytearray()
    while piece := read(_PIECE):
        found += piece
        if len(found) > MOST_BYTES:
            raise SourceError(f"A response of Glue has more than {MOST_BYTES} bytes.")
        if time.monotonic() > until or (call is not None and call.abandoned.is_set()):
            raise SourceUnavailable("A response of Glue did not arrive in time.")
    return bytes(found)


@contextmanager
def _errors() -> Iterator[None]:
    """Convert botocore's and urllib3's exceptions in the ``with`` block to splitlib's errors."""
    try:
        yield
    except boto_errors.ClientError as error:  # from an AWS service that issues credentials
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        raise _refusal(code, status, str(error)) from error
    except _NO_LOGIN as error:
        hint = "pass key and secret, or a profile, or set the AWS environment variables."
        raise AccessDenied(f"There are no credentials for Glue: {error}", hint=hint) from error
    except boto_errors.NoRegionError as error:
        hint = "pass region=..., or set AWS_REGION."
        raise ConfigError("The region of Glue is unknown.", hint=hint) from error
    except urllib3.exceptions.SSLError as error:
        raise SourceError(f"The connection to Glue is not secure: {error}") from error
    except (urllib3.exceptions.HTTPError, boto_errors.HTTPClientError) as error:
        raise SourceUnavailable(f"Glue does not respond: {error}") from error
    except boto_errors.BotoCoreError as error:
        raise ConfigError(f"The AWS configuration cannot be used: {error}") from error


def _refusal(code: str, status: int, text: str) -> SplitlibError:
    """Return the error for an error response of AWS with this code and HTTP status."""
    if code == "EntityNotFoundException":
        return TableNotFound(text, hint="run 'splitlib tables' to list the tables of Glue.")
    if _DENIED.search(code) or status in (401, 403):
        return AccessDenied(text)
    if code == "InvalidInputException":
        return InvalidRequest(text)
    is_throttled = bool(_THROTTLED.search(code)) or status in (429, 503)
    if is_throttled or _TRANSIENT.search(code) or status >= 500:
        unavailable = SourceUnavailable(text)
        unavailable.is_throttled = is_throttled
        return unavailable
    return SourceError(text)


def positive(option: str, value: Any) -> float:
    """Return the value of an option that must be a positive number.

    Raises:
        ConfigError: if the value is not a positive number.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if not 0 < number <= threading.TIMEOUT_MAX:
        raise ConfigError(f"Option {option} must be a positive number, not {value!r}.")
    return number


@cache
def _loader() -> Any:
    """Return botocore's loader, cached because loading AWS's service models is slow."""
    return create_loader()
