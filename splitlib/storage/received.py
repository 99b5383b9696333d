"""Limit and check the listing responses that fsspec's storage clients receive.

s3fs, gcsfs and adlfs accept responses of any size, and gcsfs and adlfs accept any well-formed
response as a listing. This module limits and checks responses to list requests. It does not limit
the size of data files.

obstore accepts any XML as a listing. botocore, which s3fs uses, accepts any XML except errors. If a
proxy responds with an XML page, both return an empty listing. obstore also does not report whether
a page is the last one. So an additional s3fs request confirms the end of a listing, and its
response must have the fields of a listing.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from functools import cache
from html import unescape
from inspect import signature
from typing import Any, Final

from splitlib.errors import SourceError, SourceUnavailable

KEYS_PER_PAGE = 1000
"""Maximum number of keys in one page of an S3 listing."""


def confirm_end(fs: Any, bucket: str, directory: str, after: str = "") -> None:
    """Check that a directory has no objects after a key.

    Args:
        fs: The bucket's filesystem. Nothing is checked unless this is s3fs.
        bucket: Bucket name.
        directory: Directory path without trailing slash; '' is the bucket's root.
        after: The key. The default is the directory's marker object, which sorts first.

    Raises:
        SourceError: if the bucket does not exist.
        SourceUnavailable: if there are more objects, or the response is not a listing.
    """
    if not hasattr(fs, "call_s3"):
        return
    prefix = f"{directory}/" if directory else ""
    after = max(after, prefix)
    more = {"StartAfter": after} if after else {}
    answer = _answer(fs, bucket, Prefix=prefix, MaxKeys=1, **more)
    others = [object_["Key"] for object_ in answer.get("Contents", ())]
    if any(key.encode() > after.encode() for key in others) or answer["IsTruncated"]:
        raise SourceUnavailable(
            f"A listing of s3://{bucket}/{directory} left out {(others or [''])[0]!r}."
        )


def no_next_page(location: str) -> SourceError:
    """Return the error for a truncated listing whose next page cannot be requested.

    The response has no token for the next page, or the same token as the request.
    """
    return SourceError(
        f"The store returned a truncated listing of {location!r} without a new token for the rest.",
        hint="report this to the operator of the store.",
    )


def no_listing(location: str) -> SourceUnavailable:
    """Return the error for a response that is not a listing."""
    return SourceUnavailable(
        f"The response to a list request for {location!r} is not a listing.",
        hint="check endpoint_url, and whether a proxy responds instead of the store.",
    )


def _answer(fs: Any, bucket: str, **parameters: Any) -> Mapping[str, Any]:
    """Send a list request and return the response. Raise an error if it is not a listing."""
    # Older versions of s3fs do not add the setting for requester pays to such a request.
    parameters = {**getattr(fs, "req_kw", {}), "Bucket": bucket, **parameters}
    try:
        answer: Mapping[str, Any] = fs.call_s3("list_objects_v2", **parameters)
    except FileNotFoundError as error:
        raise SourceError(f"There is no bucket {bucket!r}.") from error
    if "IsTruncated" not in answer:  # S3 always sends this field
        raise no_listing(f"s3://{bucket}")
    return answer


MOST_BYTES: Final = 64 << 20
"""Maximum response size in bytes. Pages with 1,000 names from Google or 5,000 names from Azure are
smaller than 20 MB."""
_SECONDS: Final = 120.0
_PIECE: Final = 1 << 16


def too_large(what: str, most_bytes: int) -> SourceUnavailable:
    """Return the error for a listing response that exceeds the maximum size.

    Args:
        what: The listed location.
        most_bytes: Maximum response size in bytes.
    """
    return SourceUnavailable(
        f"The response to a list request for {what!r} has more than {most_bytes} bytes.",
        hint="check its endpoint, and whether a proxy responds instead of the storage.",
    )


def within_limits(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of ``options`` that limits the size of responses, for s3fs and gcsfs.

    Args:
        kind: The fsspec filesystem class. Options for other filesystems are only copied.
        options: The user's options. They override the added options.
    """
    limited = dict(options)
    match kind.__module__.partition(".")[0]:
        case "s3fs" if (session := _s3_session()) is not None:
            of_client = dict(options.get("config_kwargs") or {})
            limited["config_kwargs"] = {"http_session_cls": session, **of_client}
        case "gcsfs":
            of_session = dict(options.get("session_kwargs") or {})
            limited["session_kwargs"] = {"response_class": _limited_response(), **of_session}
    return limited


@cache
def _s3_session() -> Any:
    """Return an HTTP session class for s3fs, or None if aiobotocore is too old to accept one."""
    import aiohttp
    from aiobotocore.config import AioConfig
    from aiobotocore.httpsession import AIOHTTPSession
    from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

    if "http_session_cls" not in signature(AioConfig.__init__).parameters:
        return None

    class LimitedSession(AIOHTTPSession):  # type: ignore[misc]  # not typed
        """An HTTP session that limits the size of responses, except for file content."""

        async def send(self, request: Any) -> Any:
            if request.stream_output:
                return await super().send(request)
            request.stream_output = True
            try:
                answer = await super().send(request)
            finally:
                request.stream_output = False
            where = {"endpoint_url": request.url}
            try:
                answer._content = await _received(answer.raw)
            except TimeoutError as error:
                raise ReadTimeoutError(error=error, **where) from error
            except aiohttp.ClientError as error:
                raise ConnectionClosedError(error=error, request=request, **where) from error
            return answer

    return LimitedSession


@cache
def _limited_response() -> Any:
    """Return an HTTP response class for gcsfs."""
    import aiohttp

    class LimitedResponse(aiohttp.ClientResponse):
        """An HTTP response whose size is limited, except for file content."""

        async def read(self) -> bytes:
            is_data = self.url.query.get("alt") == "media" or self.url.path.startswith("/download/")
            if self._body is None and not is_data:
                self._body = await _received(self)
                if self.method == "GET" and self.status == 200 and self.url.path.endswith("/o"):
                    _check_google(self.url, self._body)
            return await super().read()

    return LimitedResponse


def limit_adlfs(fs: Any) -> None:
    """Limit the size of the responses that adlfs receives, because it has no option for this.

    Args:
        fs: The filesystem, which is changed in place. Filesystems other than adlfs are ignored.
    """
    client = getattr(fs, "service_client", None)
    transport = getattr(getattr(client, "_pipeline", None), "_transport", None)
    if transport is None or not type(fs).__module__.startswith("adlfs."):
        return
    send = transport.send

    async def limited(request: Any, *, stream: bool = False, **more: Any) -> Any:
        if stream:
            return await send(request, stream=True, **more)
        answer = await send(request, stream=True, **more)
        behind = getattr(answer, "internal_response", None) or answer._internal_response
        behind._body = await _received(behind)
        # azure-core has two response classes, with different methods to load the body.
        await (answer.load_body() if hasattr(answer, "load_body") else answer.read())
        if (
            behind.method == "GET"
            and behind.status == 200
            and "list" in behind.url.query.getall("comp", ())
        ):
            _check_azure(behind.url, behind._body)
        return answer

    transport.send = limited


def _check_google(url: Any, body: bytes) -> None:
    """Check that Google's response is a listing, and does not repeat the request's page token."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise no_listing(_place(url)) from error
    if not isinstance(answer, dict) or answer.get("kind") != "storage#objects":
        raise no_listing(_place(url))
    _check_next(url, answer.get("nextPageToken"), url.query.get("pageToken"))


def _check_azure(url: Any, body: bytes) -> None:
    """Check that Azure's response is a listing, and does not repeat the request's page marker."""
    end = body.rstrip()[-1000:]
    marker = re.search(rb"<NextMarker>([^<]*)</NextMarker>\s*</EnumerationResults>$", end)
    if marker is None and not re.search(rb"<NextMarker ?/>\s*</EnumerationResults>$", end):
        raise no_listing(_place(url))
    token = None if marker is None else unescape(marker[1].decode(errors="replace"))
    _check_next(url, token, url.query.get("marker"))


def _check_next(url: Any, token: object, requested: str | None) -> None:
    if token and token == requested:
        raise no_next_page(_place(url))


def _place(url: Any) -> str:
    """Return the listed location for messages, without query parameters that may be secret."""
    prefix = url.query.get("prefix", "")
    return f"{url.with_query(None)} {prefix}".strip()


async def _received(response: Any) -> bytes:
    """Receive the body of an aiohttp response, up to the size limit.

    Raises:
        SourceUnavailable: if the body is too large.
        TimeoutError: if receiving the body takes too long.
    """
    found = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            while len(found) <= MOST_BYTES:
                if not (piece := await response.content.read(_PIECE)):
                    return bytes(found)
                found += piece
    except BaseException:
        response.close()
        raise
    response.close()
    raise too_large(_place(response.url), MOST_BYTES)
