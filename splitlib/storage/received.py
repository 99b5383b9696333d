"""Limits of the listings that fsspec's clients receive, which would take answers of any size.

s3fs, gcsfs and adlfs send their requests by aiohttp. Rows of data files are not limited here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cache
from inspect import signature
from typing import Any, Final

from splitlib.errors import SourceUnavailable

_MOST_BYTES: Final = 64 << 20
"""The most of one answer: 1,000 names of Google's, or 5,000 of Azure's, are below 20 MB."""
_SECONDS: Final = 120.0
_PIECE: Final = 1 << 16


def too_large(what: str, most_bytes: int) -> SourceUnavailable:
    """The error of an answer that is larger than any listing.

    Args:
        what: What was listed.
        most_bytes: How many bytes it may have.
    """
    return SourceUnavailable(
        f"The answer to a listing of {what!r} has more than {most_bytes} bytes.",
        hint="check its endpoint, and whether a proxy answers in place of the storage.",
    )


def within_limits(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a filesystem of fsspec, whose client receives listings within limits.

    Args:
        kind: The class of the filesystem.
        options: Those that a user has given, which stay.
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
    """What sends the requests of s3fs; None = this version of aiobotocore takes no other."""
    import aiohttp
    from aiobotocore.config import AioConfig
    from aiobotocore.httpsession import AIOHTTPSession
    from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

    if "http_session_cls" not in signature(AioConfig.__init__).parameters:
        return None

    class LimitedSession(AIOHTTPSession):  # type: ignore[misc]  # not typed
        """Receives all that is no data within limits."""

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
    """The responses of gcsfs."""
    import aiohttp

    class LimitedResponse(aiohttp.ClientResponse):
        """Receives all that is no data within limits."""

        async def read(self) -> bytes:
            is_data = self.url.query.get("alt") == "media" or self.url.path.startswith("/download/")
            if self._body is None and not is_data:
                self._body = await _received(self)
            return await super().read()

    return LimitedResponse


async def _received(response: Any) -> bytes:
    """The body of a response of aiohttp.

    Raises:
        SourceUnavailable: if it is too large, or takes too long.
    """
    found = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            while len(found) <= _MOST_BYTES:
                if not (piece := await response.content.read(_PIECE)):
                    return bytes(found)
                found += piece
    except BaseException:
        response.close()
        raise
    response.close()
    raise too_large(str(response.url.with_query(None)), _MOST_BYTES)
