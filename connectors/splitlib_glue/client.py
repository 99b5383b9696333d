"""A client for AWS Glue that sends requests with a deadline, and raises splitlib's errors."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import boto3.session
import botocore.exceptions as boto_errors
import urllib3
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.httpsession import get_cert_path
from botocore.loaders import create_loader
from botocore.session import get_session
from botocore.utils import get_environ_proxies

from splitlib.errors import (
    AccessDenied,
    ConfigError,
    CorruptMetadata,
    SourceError,
    SourceUnavailable,
    SplitlibError,
    TableNotFound,
    error_context,
)
from splitlib.remote.calls import current_call
from splitlib.storage.clients import in_forks_of_this

NUMBERS: Final = {"connect_timeout_seconds": 10.0, "timeout_seconds": 60.0}
OPTIONS: Final = frozenset(
    {"region", "endpoint_url", "catalog_id", "profile", "key", "secret", "token", *NUMBERS}
)
SEGMENTS: Final = 10
"""Number of concurrent requests. Glue divides a table into at most 10 segments."""
MOST_BYTES: Final = 256 << 20
"""Maximum size of a response, in bytes."""
_PIECE: Final = 1 << 16
_THROTTLED: Final = frozenset(
    {
        "BandwidthLimitExceeded",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "TooManyRequestsException",
    }
)
_TRANSIENT: Final = frozenset(
    {
        "FederationSourceRetryableException",
        "InternalError",
        "InternalFailure",
        "InternalServiceException",
        "OperationTimeoutException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ResourceNotReadyException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
    }
)
# Glue reports most denials with status 400.
_DENIED: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "OptInRequired",
        "PermissionTypeMismatchException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
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

    botocore's retries are turned off, because the engine retries with its own settings.

    Args:
        options: Connector options. Only those in :data:`OPTIONS` are used.

    Raises:
        ConfigError: for an invalid option, or if no region is configured.
        AccessDenied: if there are no credentials.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        numbers = {k: positive(k, options.get(k, default)) for k, default in NUMBERS.items()}
        self._catalog_id = options.get("catalog_id")
        if (options.get("key") is None) != (options.get("secret") is None):
            raise ConfigError("One of the options key and secret is missing.", hint="pass both.")
        with _errors():
            session = get_session()
            session.register_component("data_loader", _loader())
            made = boto3.session.Session(
                aws_access_key_id=options.get("key"),
                aws_secret_access_key=options.get("secret"),
                aws_session_token=options.get("token"),
                region_name=options.get("region"),
                profile_name=options.get("profile"),
                botocore_session=session,
            )
            config = Config(retries={"mode": "standard", "total_max_attempts": 1})
            try:
                client = made.client(
                    "glue", endpoint_url=options.get("endpoint_url"), config=config
                )
            except ValueError as error:
                raise ConfigError(f"The client of Glue cannot be made: {error}") from error
        self.region = client.meta.region_name
        """Region of the catalog."""
        self._client: Any = client
        self._sender = _Sender(session, client.meta.endpoint_url, **numbers)
        client.meta.events.register("before-send.glue", self._sender)

    def call(self, operation: str, **arguments: Any) -> Any:
        """Send one request, and return the JSON object in the response.

        botocore's own result is not used, because it lacks fields that are newer than the installed
        botocore. Such a field may mean that a table is a view, or that its rows are filtered.

        Args:
            operation: Name of botocore's method, such as ``get_table``.
            arguments: Arguments of the method. Those that are None are not sent.

        Raises:
            TableNotFound: if the database or table does not exist.
            InvalidRequest: if Glue rejects an argument.
            AccessDenied: if Glue denies access.
            SourceUnavailable: for throttling, and other failures that a retry may fix.
            CorruptMetadata: if botocore's result is not a mapping.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        if self._catalog_id is not None:
            given.setdefault("CatalogId", self._catalog_id)
        self._sender.received.answer = None
        with error_context(connector="glue"), _errors():
            parsed = getattr(self._client, operation)(**given)
        if not isinstance(parsed, Mapping):
            raise CorruptMetadata(f"The answer of Glue to {operation} is not an object.")
        return self._sender.received.answer

    def close(self) -> None:
        """Close all connections."""
        self._sender.close()
        self._client.close()


class _Sender:
    """Sends botocore's requests, and limits the size and duration of their responses.

    botocore returns an empty result for a body that is not JSON, such as a truncated one. This
    class raises an error instead.
    """

    def __init__(
        self, session: Any, url: str, connect_timeout_seconds: float, timeout_seconds: float
    ) -> None:
        self._proxy = get_environ_proxies(url).get(urlsplit(url).scheme)
        verify = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
        self._connect_seconds, self._seconds = connect_timeout_seconds, timeout_seconds
        self._settings: dict[str, Any] = {
            "ca_certs": get_cert_path(verify or True),
            "cert_reqs": "CERT_REQUIRED",
            "maxsize": SEGMENTS,
            # Without TCP_NODELAY, a body is sent only after its headers were acknowledged.
            "socket_options": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        }
        self.received = threading.local()
        """Has an attribute ``answer``: the last JSON object that the current thread received."""
        self._connect()
        # A forked process must not use its parent's connections.
        in_forks_of_this(self, _Sender._connect)

    def _connect(self) -> None:
        self._manager = urllib3.PoolManager(**self._settings)
        if self._proxy:
            self._manager = urllib3.ProxyManager(self._proxy, **self._settings)
        self._pools: set[urllib3.HTTPConnectionPool] = set()

    def __call__(self, request: Any, **_: Any) -> AWSResponse:
        call, parts = current_call(), urlsplit(request.url)
        seconds = self._seconds
        if call is not None:  # the request must not take longer than the call that it belongs to
            seconds = min(seconds, call.remaining_seconds())
            if not seconds or call.abandoned.is_set():
                raise SourceUnavailable("There is no time left for a request to Glue.")
        until = time.monotonic() + seconds
        is_whole = self._proxy and parts.scheme == "http"
        pool = self._manager.connection_from_url(request.url)
        self._pools.add(pool)
        response = pool.urlopen(
            request.method,
            request.url if is_whole else parts.path or "/",
            request.body,
            request.headers,
            timeout=urllib3.Timeout(connect=min(self._connect_seconds, seconds), read=seconds),
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
        )
        complete = False
        try:
            body = self._received(response, until)
            complete = True
        finally:
            if not complete:
                response.close()
        if response.status < 300:
            self.received.answer = _parsed(body)
        return AWSResponse(request.url, response.status, response.headers, _Body(body))

    def _received(self, response: Any, until: float) -> bytes:
        call = current_call()
        found = bytearray()
        # Before version 2, urllib3 has no read1, and its read waits until a piece is full.
        read = getattr(response, "read1", response.read)
        while piece := read(_PIECE):
            found += piece
            if len(found) > MOST_BYTES:
                raise SourceError(f"A response of Glue has more than {MOST_BYTES} bytes.")
            if time.monotonic() > until or (call is not None and call.abandoned.is_set()):
                raise SourceUnavailable("A response of Glue did not arrive in time.")
        return bytes(found)

    def close(self) -> None:
        # urllib3's pool managers would leave open connections to the garbage collector.
        for pool in self._pools:
            pool.close()


class _Body:
    """A response body with the method ``stream``, which botocore calls on urllib3's responses."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise SourceUnavailable(
            "A response of Glue is not a JSON object.",
            hint="check endpoint_url, and whether a proxy responds instead of Glue.",
        )
    return answer


@contextmanager
def _errors() -> Iterator[None]:
    """Convert botocore's and urllib3's exceptions in the ``with`` block to splitlib's errors."""
    try:
        yield
    except SplitlibError:
        raise
    except boto_errors.ClientError as error:
        raise _of_answer(error) from error
    except _NO_LOGIN as error:
        hint = "pass key and secret, or a profile, or set the AWS environment variables."
        raise AccessDenied(f"There are no credentials for Glue: {error}", hint=hint) from error
    except boto_errors.NoRegionError as error:
        hint = "pass region=..., or set AWS_REGION."
        raise ConfigError("The region of Glue is unknown.", hint=hint) from error
    except (boto_errors.ProfileNotFound, boto_errors.ParamValidationError) as error:
        raise ConfigError(f"A name or option cannot be sent to Glue: {error}") from error
    except urllib3.exceptions.SSLError as error:
        raise SourceError(f"The connection to Glue is not secure: {error}") from error
    except urllib3.exceptions.HTTPError as error:
        raise SourceUnavailable(f"Glue does not respond: {error}") from error


def _of_answer(error: boto_errors.ClientError) -> SplitlibError:
    """Convert an error response from Glue to an error of splitlib."""
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    text = str(error)
    if code == "EntityNotFoundException":
        return TableNotFound(text, hint="run 'splitlib tables' to list the tables of Glue.")
    if code in _DENIED or status in (401, 403):
        return AccessDenied(text)
    if code == "InvalidInputException":
        return InvalidRequest(text)
    if code in _THROTTLED or code in _TRANSIENT or status == 429 or status >= 500:
        unavailable = SourceUnavailable(text)
        unavailable.is_throttled = code in _THROTTLED or status in (429, 503)
        return unavailable
    return SourceError(text)


def positive(option: str, value: Any) -> float:
    """Return the value of an option that must be a positive number.

    Raises:
        ConfigError: if the value is not a positive number.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not number > 0:
        raise ConfigError(f"Option {option} must be a positive number, not {value!r}.")
    return number


@cache
def _loader() -> Any:
    """Return botocore's loader, cached because loading AWS's service models is slow."""
    return create_loader()
