"""List object stores with obstore, which is faster than fsspec and can start a page at any key.

S3 and Google Cloud Storage return up to 1,000 keys per request, in byte order. A request can start
after any key. So one request can list several adjacent directories. On Azure, a request lists only
one directory.
"""

from __future__ import annotations

import itertools
import re
import threading
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from os.path import commonpath
from typing import Any, Final, NamedTuple, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import AccessDenied, SourceError, SourceUnavailable
from splitlib.redaction import get_logger
from splitlib.storage.clients import native_threads_start
from splitlib.storage.files import is_data

FILES_PER_PAGE = 1000
"""Maximum number of keys per request on S3 and Google Cloud Storage."""

_log = get_logger(__name__)

_OLDEST = (0, 9, 4)
# obstore does not retry, because the engine does: it retries within its deadline, and sends fewer
# requests while a store throttles. Retries in obstore would multiply the number of attempts and
# hide throttling from the engine.
_RETRIES: dict[str, Any] = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}
_LONG_RETRIES: dict[str, Any] = {**_RETRIES, "max_retries": 2}
_THROTTLED = r"<Code>(SlowDown|Throttling\w*|RequestLimitExceeded)<|status code: (429|503)\b"
_NO_BUCKET = r"<Code>(NoSuchBucket|ContainerNotFound|ResourceNotFound)<|status code: 404\b"
_DENIED = r"status code: 40[13]\b|<Code>PublicAccessNotPermitted<"
_OTHER_REGION = (
    r"Received redirect|status code: 30\d\b|<Code>(PermanentRedirect|AuthorizationHeaderMalformed)<"
)
# An XML error document, and its fields that messages may quote. Others may contain credentials: S3
# returns an expired session token, and all stores return the request that they expected as signed.
_ERROR: Final = re.compile(r"(?:<\?xml[^>]*>\s*)?<Error\b.*", re.DOTALL)
_SHOWN: Final = re.compile(r"<(Code|Message|Details|Region|Endpoint)>([^<]*)")
_GREATEST = "\U0010ffff"
_MODIFIED = pa.timestamp("ms", "UTC")


class NotFollowed(Exception):
    """Raised if obstore cannot list a location correctly. The caller then lists it with fsspec."""


class NotInOrder(NotFollowed):
    """Raised if a store does not list keys in byte order."""


class OtherRegion(NotFollowed):
    """Raised if a bucket is not in the configured or default region."""


class Bucket(NamedTuple):
    """A bucket and a directory in it."""

    name: str
    directory: str
    """The directory's path without leading and trailing slash; '' is the bucket's root."""

    @classmethod
    def of(cls, path: str) -> Self:
        """Parse a URI such as ``s3://bucket/a/b/``.

        Raises:
            NotFollowed: for a path with an empty part, which obstore cannot represent.
        """
        bucket, _, directory = path.partition("://")[2].partition("/")
        directory = directory.rstrip("/")
        if not bucket or "//" in f"/{directory}":
            raise NotFollowed(path)
        return cls(bucket, directory)


class StoreKind(NamedTuple):
    """The listing behaviour of one kind of object store."""

    names_per_request: int = FILES_PER_PAGE
    """Maximum number of names per request."""
    is_flat: bool = True
    """Whether the store has only keys, without directories, and can start a listing at any key.

    If false, empty directories can exist.
    """


FLAT: Final = StoreKind()
"""Listing behaviour of S3 and Google Cloud Storage."""


class StoreOf(Protocol):
    """Function that creates the object that lists a bucket: an obstore store or a `ShownPages`."""

    def __call__(self, bucket: str, *, retry_config: Any) -> Any:
        """Return the store for ``bucket``."""


class ShownPages(ABC):
    """Lists a bucket without obstore. Subclasses must check that their listings are complete.

    Batches have the same columns as in obstore: ``path``, ``last_modified`` and ``size``.
    """

    @abstractmethod
    def level(self, directory: str) -> tuple[pa.RecordBatch, list[str]]:
        """Return the objects directly in a directory, and the paths of its subdirectories."""

    @abstractmethod
    def page(self, directory: str, after: str) -> pa.RecordBatch:
        """Return the objects below a directory, in key order, that follow the key ``after``.

        The result may leave out objects after the first 1,000.
        """


class PagedListing:
    """Lists buckets that are accessed with the same options. Thread-safe.

    obstore accepts any XML as a listing. An error with status 200, or a proxy's response, looks
    like an empty listing. So if a page is empty, or the last page is full, another client checks
    that the directory has no further keys.

    Args:
        protocol: fsspec's protocol name, for error messages.
        store_of: Function that creates the store for a bucket.
        kind: Listing behaviour of the stores.
        confirm: Function that raises :class:`SourceUnavailable` if a directory has an object after
            a key; None means no check.

    Raises:
        NotFollowed: if obstore is too old.
        ImportError: if obstore is missing.
    """

    def __init__(
        self,
        protocol: str,
        store_of: StoreOf,
        kind: StoreKind = FLAT,
        confirm: Callable[[Bucket, str], None] | None = None,
    ) -> None:
        import arro3.core  # noqa: F401 - obstore needs it to return Arrow batches
        import obstore

        # Check the version, because users may have installed obstore without the extra of splitlib
        # that requires a version without this bug.
        if tuple(map(int, re.findall(r"\d+", obstore.__version__)[:3])) < _OLDEST:
            raise NotFollowed(f"obstore {obstore.__version__} leaves out keys that contain '%'.")
        self.kind = kind
        self._obstore = obstore
        self._protocol = protocol
        self._store_of = store_of
        self._confirm = confirm
        self._stores: dict[tuple[str, bool], Any] = {}
        self._lock = threading.Lock()

    def level(self, at: Bucket, *, retries: bool = False) -> tuple[pa.RecordBatch, list[str], int]:
        """Return a directory's files, its subdirectories' names, and the number of listed entries.

        Directory markers and empty files count as entries, but are not returned as files.

        Args:
            at: The directory.
            retries: Whether obstore retries failed requests. Set this if the caller does not retry.

        Raises:
            SourceError: if the bucket does not exist.
            NotFollowed: if obstore cannot represent a key, or if there may be empty directories.
                obstore does not distinguish empty directories from missing directories or from
                empty files.
        """
        store = self._store(at.name, retries=retries)
        if isinstance(store, ShownPages):
            objects, paths = store.level(at.directory)
        else:
            with self._translated(at):
                found = self._obstore.list_with_delimiter(
                    store, at.directory or None, return_arrow=True
                )
            paths = list(found["common_prefixes"])
            (objects,) = pa.table(found["objects"]).combine_chunks().to_batches() or [_NONE]
        above = [path.rpartition("/") for path in paths]
        files = _files(objects, at)
        parents = pc.unique(pc.replace_substring_regex(files["path"], "/?[^/]*$", "")).to_pylist()
        _refuse_others(at, [*parents, *(parent for parent, _, _ in above)])
        names, entries = [name for _, _, name in above], len(objects) + len(above)
        if not self.kind.is_flat and (not entries or _empty(objects).difference(names)):
            raise NotFollowed("There may be an empty directory.")
        if self.kind.is_flat and (not entries or entries >= self.kind.names_per_request):
            prefix = f"{at.directory}/" if at.directory else ""
            last = [f"{prefix}{name}/{_GREATEST}" for name in names]
            self._confirm_end(store, at, max([*last, *objects["path"].to_pylist()], default=""))
        return files, names, entries

    def first_pages(
        self, bucket: str, prefixes: Sequence[str], *, below: bool
    ) -> tuple[list[pa.RecordBatch], int]:
        """List pages until they cover at least the first directory. Often one page is enough.

        A page may contain objects from several directories, from their subdirectories, and from
        other directories between them. The next page skips a subdirectory that was not requested.

        Args:
            bucket: Bucket name.
            prefixes: Directory paths with trailing slash, in byte order. No directory contains
                another one.
            below: Whether to include objects in subdirectories.

        Returns:
            The pages, and the number of directories they cover, starting with the first.

        Raises:
            NotInOrder: if the store lists keys in another order.
            NotFollowed: if obstore cannot represent a key.
        """
        root = commonpath([prefixes[0], prefixes[-1]])
        store = self._store(bucket)
        # "." is the character before "/", so all keys in the directory sort after this key.
        first = prefixes[0][:-1] + "."
        after, found = first, []
        while True:
            files, entries = self._page(store, Bucket(bucket, root), after)
            found.append(files)
            last = _last(files, after)
            if entries < FILES_PER_PAGE:
                return found, len(prefixes)
            if last is None:
                raise NotInOrder("A page without files does not show where the next page begins.")
            begun = bisect_left(prefixes, last)
            if begun and not last.startswith(prefixes[begun - 1]):
                return found, begun
            if begun > 1:
                return found, begun - 1
            after = max(last, first)
            if begun and not below:
                child, slash, _ = last[len(prefixes[0]) :].partition("/")
                # Skip the rest of a subdirectory, which may contain many objects.
                after = f"{prefixes[0]}{child}/{_GREATEST}" if slash else last

    def _page(self, store: Any, root: Bucket, after: str) -> tuple[pa.RecordBatch, int]:
        """Return a page of files below ``root`` after a key, and the page's number of objects."""
        if isinstance(store, ShownPages):
            objects = store.page(root.directory, after)
        else:
            with self._translated(root):
                options: Any = {"chunk_size": FILES_PER_PAGE, "return_arrow": True}
                pages = self._obstore.list(store, root.directory or None, offset=after, **options)
                page = next(pages, None)
            objects = _NONE if page is None else pa.record_batch(page)
        if not len(objects):
            self._confirm_end(store, root, after)
        files = _files(objects, root)
        _refuse_markers(files)
        inside = pc.starts_with(files["path"], f"{root.directory}/")
        if root.directory and not pc.all(inside, min_count=0).as_py():
            _refuse_others(root, files["path"].slice(0, 1).to_pylist())
        return files, len(objects)

    def _confirm_end(self, store: Any, at: Bucket, after: str) -> None:
        if self._confirm is not None and not isinstance(store, ShownPages):
            self._confirm(at, after)

    def _store(self, bucket: str, *, retries: bool = False) -> Any:
        from obstore.exceptions import BaseError

        with self._lock:
            if (bucket, retries) not in self._stores:
                native_threads_start()
                retry_config: Any = _LONG_RETRIES if retries else _RETRIES
                try:
                    store = self._store_of(bucket, retry_config=retry_config)
                except BaseError as error:  # such as an account file that obstore cannot parse
                    raise NotFollowed(str(error)) from error
                self._stores[bucket, retries] = store
            return self._stores[bucket, retries]

    @contextmanager
    def _translated(self, at: Bucket) -> Iterator[None]:
        """Translate obstore errors raised in the ``with`` block to splitlib errors."""
        from obstore.exceptions import (
            BaseError,
            InvalidPathError,
            NotFoundError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        where = f"{self._protocol}://{at.name}/{at.directory}"

        def message_of(error: Exception) -> str:
            return str(error).partition("Debug source:")[0].strip()  # cut off debug output

        try:
            yield
        except (InvalidPathError, ValueError) as error:  # obstore cannot represent a key or path
            raise NotFollowed(str(error)) from error
        except NotFoundError as error:
            raise SourceError(f"There is no bucket {at.name!r}.") from error
        # obstore's error is not the cause, because its text contains the whole response.
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise AccessDenied(f"{where}: {without_echo(message_of(error))}") from None
        except BaseError as error:
            raise error_of(message_of(error), at.name, where) from None


def error_of(text: str, bucket: str, where: str) -> Exception:
    """Return the splitlib error for a store's error response.

    Args:
        text: Status code and text of the response.
        bucket: Bucket name.
        where: The listed directory, for the message.
    """
    shown = without_echo(text)
    if re.search(_NO_BUCKET, text):
        return SourceError(f"There is no bucket {bucket!r}.")
    if re.search(_DENIED, text):
        return AccessDenied(f"{where}: {shown}")
    if re.search(_OTHER_REGION, text):
        return OtherRegion(shown)
    if re.search(r"status code: 4(0[0-79]|1\d|2[0-8])\b", text):
        return SourceError(f"{where}: {shown}")
    unavailable = SourceUnavailable(f"{where}: {shown}")
    unavailable.is_throttled = re.search(_THROTTLED, text) is not None
    return unavailable


def without_echo(text: str) -> str:
    """Return an error response without the fields that may repeat the request's credentials."""
    return _ERROR.sub(
        lambda document: ", ".join(
            f"{name}: {value}" for name, value in _SHOWN.findall(document[0])
        ),
        text,
    )


_NONE = pa.RecordBatch.from_pydict(
    {"path": [], "last_modified": [], "size": []},
    schema=pa.schema([("path", pa.string()), ("last_modified", _MODIFIED), ("size", pa.uint64())]),
)


def _files(objects: pa.RecordBatch, at: Bucket) -> pa.RecordBatch:
    """Return a batch of all non-empty objects, except the directory marker of ``at``.

    The columns are ``path``, ``size`` and ``modified``.

    A directory marker is an object whose name ends with a slash. obstore drops the slash, so the
    marker looks like a file. Most markers are empty, so all empty objects are dropped. Empty files
    have no rows anyway.
    """
    modified = objects["last_modified"].cast(_MODIFIED, safe=False).cast(pa.int64())
    columns = [objects["path"].cast(pa.string()), objects["size"].cast(pa.int64()), modified]
    files = pa.RecordBatch.from_arrays(columns, ["path", "size", "modified"])
    is_file = pc.and_(
        pc.greater(files["size"], 0), pc.not_equal(files["path"], pa.scalar(at.directory))
    )
    return files.filter(is_file)


def _refuse_markers(files: pa.RecordBatch) -> None:
    """Raise ``NotFollowed`` if a directory marker is not empty, because it looks like a file."""
    for path, following in itertools.pairwise(files["path"].to_pylist()):
        if following.startswith(f"{path}/"):
            raise NotFollowed(f"{path!r} is a directory marker with content.")


def _empty(objects: pa.RecordBatch) -> set[str]:
    """Return the names of empty objects. On Azure, each is an empty file or a directory marker."""
    paths = objects["path"].cast(pa.string()).filter(pc.equal(objects["size"], 0))
    return {name for path in paths.to_pylist() if is_data(name := path.rpartition("/")[2])}


def _refuse_others(at: Bucket, directories: Sequence[str]) -> None:
    """Check that a response lists only the requested directory."""
    if other := set(directories).difference([at.directory]):
        raise SourceUnavailable(f"The store listed {min(other)!r} instead of {at.directory!r}.")


def _last(files: pa.RecordBatch, after: str) -> str | None:
    """Return the last path on a page, or None if the page has no files.

    Raises:
        NotInOrder: if the paths are not in byte order, or not after ``after``.
    """
    paths = files["path"]
    if not len(paths):
        return None
    ordered = pc.all(pc.greater(paths[1:], paths[:-1]), min_count=0).as_py()
    if not ordered or paths[0].as_py() <= after:
        raise NotInOrder("The store does not list keys in byte order.")
    last: str = paths[-1].as_py()
    return last
