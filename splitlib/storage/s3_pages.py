"""List buckets on S3-compatible servers other than AWS, and limit the size of responses.

obstore accepts responses of any size. It does not report whether a response is a listing, or
whether it is truncated. So obstore is used only for S3 on AWS, and this module for other servers.
botocore signs and sends the requests. Responses are parsed while they are received.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, unquote_plus
from xml.parsers import expat

import pyarrow as pa

from splitlib.errors import SourceError, SourceUnavailable, SplitlibError
from splitlib.storage.pages import FILES_PER_PAGE, NotFollowed, ShownPages, error_of, without_echo
from splitlib.storage.received import no_listing, no_next_page, too_large

_MOST_BYTES: Final = 16 << 20
"""Maximum response size in bytes. 1,000 percent-encoded keys of 1,024 bytes are below 4 MB."""
_MOST_OF_AN_ERROR: Final = 1 << 16
_MOST_PAGES: Final = 10_000
"""Maximum number of pages for one directory. This is enough for ten million names."""
_MOST_EMPTY_PAGES: Final = 100
_MOST_DEPTH: Final = 16
_WANTED: Final = frozenset(
    {
        "EncodingType",
        "IsTruncated",
        "Key",
        "LastModified",
        "NextContinuationToken",
        "Prefix",
        "Size",
    }
)
_PIECE: Final = 1 << 16
# Matches keys that are not valid paths, such as keys with an empty part. fsspec lists the
# directories of such keys.
_UNNAMED: Final = re.compile(r"(?:^|/)\.{0,2}/|(?:^|/)\.{1,2}$|[\x00-\x1f\x7f]")


class S3Pages(ShownPages):
    """Lists the keys of one bucket. Thread-safe.

    Args:
        bucket: Bucket name.
        url: Bucket URL.
        get: Function that sends a signed GET request to a URL and returns the response.
        seconds: Maximum duration of a request, in seconds.
        retries: Maximum number of retries per request.
    """

    def __init__(
        self, bucket: str, url: str, get: Callable[[str], Any], seconds: float, retries: int
    ) -> None:
        self._bucket = bucket
        self._url = url
        self._get = get
        self._seconds = seconds
        self._retries = retries

    def level(self, directory: str) -> tuple[pa.RecordBatch, list[str]]:
        """Return the objects directly in a directory, and the paths of its subdirectories."""
        keys, folders = _Keys(), dict[str, None]()
        for page in self._pages(directory, delimiter="/"):
            keys.extend(page.keys)
            folders.update(dict.fromkeys(page.folders))
        return keys.batch(), list(folders)

    def page(self, directory: str, after: str) -> pa.RecordBatch:
        """Return the objects below a directory, in key order, that follow the key ``after``.

        The result may leave out objects after the first 1,000.
        """
        keys = _Keys()
        # One request may not be enough: a server may return fewer keys than requested even if more
        # keys follow.
        for page in self._pages(directory, **{"start-after": after}):
            keys.extend(page.keys)
            if len(keys) >= FILES_PER_PAGE:
                break
        return keys.batch()

    def _pages(self, directory: str, **parameters: str) -> Iterator[_Page]:
        """Yield the pages of a directory's listing. A page is requested only when it is needed."""
        prefix = f"{directory}/" if directory else ""
        where = f"s3://{self._bucket}/{directory}"
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix, **parameters}
        query["max-keys"] = str(FILES_PER_PAGE)
        tokens, empty = set[str](), 0
        while True:
            page = self._listed(query, where)
            yield page
            if not page.is_truncated:
                return
            empty = 0 if len(page.keys) or page.folders else empty + 1
            token = page.token
            if not token:
                raise no_next_page(where)
            if token in tokens or empty > _MOST_EMPTY_PAGES or len(tokens) >= _MOST_PAGES:
                raise SourceError(
                    f"The store returns endless pages for {where!r}.",
                    hint="report this to the operator of the store.",
                )
            tokens.add(token)
            query.pop("start-after", None)
            query["continuation-token"] = token

    def _listed(self, query: Mapping[str, str], where: str) -> _Page:
        """Request and return one page. Retry if the storage is unavailable."""
        for attempt in range(self._retries + 1):
            try:
                return self._received(query, where)
            except SourceUnavailable:
                if attempt == self._retries:
                    raise
            time.sleep(random.uniform(0.05, 0.1) * 2**attempt)
        raise AssertionError

    def _received(self, query: Mapping[str, str], where: str) -> _Page:
        from botocore.exceptions import HTTPClientError
        from urllib3.exceptions import HTTPError

        until = time.monotonic() + self._seconds
        try:
            query_text = "&".join(
                f"{name}={quote(query[name], safe='-_.~')}" for name in sorted(query)
            )
            answer = self._get(f"{self._url}?{query_text}")
            try:
                pieces = _pieces(answer.raw, until, where)
                if answer.status_code == 200:
                    return _parsed(pieces, where)
                text = _beginning(pieces)
            finally:
                # Reuse the connection only if the whole response was received.
                answer.raw.release_conn() if _is_done(answer.raw) else answer.raw.close()
        except (HTTPClientError, HTTPError, HTTPException, OSError) as error:
            if isinstance(error, SplitlibError):
                raise
            raise SourceUnavailable(f"{where}: {error}") from error
        text = f"Server returned error status code: {answer.status_code} {text}"
        raise error_of(text, self._bucket, where)


class _Keys:
    """Object keys with their sizes and modification times, as columns."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.sizes: list[int] = []
        self.times: list[str] = []

    def __len__(self) -> int:
        return len(self.paths)

    def extend(self, others: _Keys) -> None:
        """Add the keys of another page."""
        self.paths += others.paths
        self.sizes += others.sizes
        self.times += others.times

    def batch(self) -> pa.RecordBatch:
        """Return the listed objects as an Arrow batch, with the columns of obstore's listings.

        Raises:
            NotFollowed: if a modification time cannot be parsed.
        """
        try:
            times = pa.array(self.times, pa.string()).cast(pa.timestamp("ns", "UTC"))
        except pa.ArrowInvalid as error:
            raise NotFollowed(str(error)) from error
        columns = [pa.array(self.paths, pa.string()), times, pa.array(self.sizes, pa.uint64())]
        return pa.RecordBatch.from_arrays(columns, ["path", "last_modified", "size"])


class _Page:
    """One page of a listing. An XML parser calls its methods to fill it from the response."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._path: list[str] = []
        self._text: list[str] = []
        self._found: dict[str, str] = {}
        self._entry: dict[str, str] = {}
        self.data: Callable[[str], None] = self._text.append
        self.keys = _Keys()
        self.folders: list[str] = []

    @property
    def is_truncated(self) -> bool:
        """Whether another page follows."""
        return self._found["IsTruncated"] == "true"

    @property
    def token(self) -> str | None:
        """Token to request the next page; None if the response has no token."""
        return self._found.get("NextContinuationToken")

    def start(self, name: str, _: object) -> None:
        self._text.clear()
        name = name.rpartition(":")[2]
        if not self._path and name != "ListBucketResult":
            raise no_listing(self._where)
        if len(self._path) == _MOST_DEPTH:
            raise no_listing(self._where)
        self._path.append(name)

    def doctype(self, *_: object) -> None:
        # Listings have no document type. One could define entities that expand to endless text.
        raise no_listing(self._where)

    def end(self, _: str) -> None:
        name, depth = self._path.pop(), len(self._path)
        if depth == 2 and name in _WANTED:
            self._entry[name] = "".join(self._text)
        elif depth == 1:
            if name == "Contents":
                self._add_key()
            elif name == "CommonPrefixes":
                self._add_folder()
            elif name in _WANTED:
                self._found[name] = "".join(self._text)
            self._entry.clear()
        self._text.clear()

    def finish(self) -> None:
        """Check that the page is complete, and decode its names.

        Raises:
            SourceUnavailable: if the response is not a complete listing.
            NotFollowed: if a name cannot be part of a path.
        """
        if self._found.get("IsTruncated") not in ("true", "false"):
            raise no_listing(self._where)
        is_encoded = self._found.get("EncodingType") == "url"
        self.folders = [_named(name, is_encoded) for name in self.folders]
        self.keys.paths = [_named(name, is_encoded) for name in self.keys.paths]

    def _add_folder(self) -> None:
        folder = self._entry.get("Prefix", "")
        if not folder.endswith("/"):
            raise no_listing(self._where)
        self.folders.append(folder)

    def _add_key(self) -> None:
        try:
            key, when = self._entry["Key"], self._entry["LastModified"]
            size = int(self._entry["Size"])
        except (KeyError, ValueError) as error:
            raise no_listing(self._where) from error
        if not key or not 0 <= size < 1 << 63:
            raise no_listing(self._where)
        self.keys.paths.append(key)
        self.keys.times.append(when)
        # A directory marker is not a file, even if it has content. With size 0, it is ignored.
        self.keys.sizes.append(0 if key.endswith("/") else size)


def _named(name: str, is_encoded: bool) -> str:
    """Decode a key or directory name, and remove its trailing slash."""
    if is_encoded:
        try:
            name = unquote_plus(name, errors="strict")
        except UnicodeDecodeError as error:
            raise NotFollowed(repr(name)) from error
    if _UNNAMED.search(name):
        raise NotFollowed(repr(name))
    return name.removesuffix("/")


def _parsed(pieces: Iterator[bytes], where: str) -> _Page:
    """Parse a page of a listing while its response is received in pieces."""
    page = _Page(where)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = page.start
    parser.EndElementHandler = page.end
    parser.CharacterDataHandler = page.data
    parser.StartDoctypeDeclHandler = page.doctype
    beginning = b""
    try:
        for piece in pieces:
            beginning = beginning or piece
            parser.Parse(piece)
        parser.Parse(b"", True)
    except expat.ExpatError as failure:
        raise no_listing(where) from failure
    except SourceUnavailable:
        text = beginning[:1000].decode(errors="replace")
        if "<Error>" in text:  # S3 may return an error with status 200
            raise SourceUnavailable(f"{where}: {without_echo(text)}") from None
        raise
    page.finish()
    return page


def _pieces(raw: Any, until: float, where: str) -> Iterator[bytes]:
    """Yield a response's body in pieces. Raise an error if the body is too large or too slow."""
    # Before version 2, urllib3 has no read1. Its read waits until a piece is full, so that the
    # deadline is checked less often.
    read = getattr(raw, "read1", raw.read)
    received = 0
    while piece := read(_PIECE, decode_content=False):
        yield piece
        received += len(piece)
        if received > _MOST_BYTES:
            raise too_large(where, _MOST_BYTES)
        if time.monotonic() > until:
            raise SourceUnavailable(f"The response to a list request for {where!r} takes too long.")


def _beginning(pieces: Iterator[bytes]) -> str:
    """Return the first 1,000 bytes of an error response as text."""
    found = b""
    for piece in pieces:
        found += piece
        if len(found) > _MOST_OF_AN_ERROR:
            break
    return found[:1000].decode(errors="replace")


def _is_done(raw: Any) -> bool:
    """Return whether the whole response was received."""
    behind = getattr(raw, "_fp", None)
    return behind is not None and behind.isclosed()
