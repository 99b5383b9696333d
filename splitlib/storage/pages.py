"""Listing object stores with obstore: far less work than by fsspec, and pages that begin anywhere.

S3 and Google Cloud Storage, which answers the same requests, tell up to 1,000 keys a request, in
the order of their bytes, from any key on. So directories that lie close together come with one
request instead of one each. Azure tells one directory at a time.
"""

from __future__ import annotations

import itertools
import re
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from os.path import commonpath
from typing import Any, Final, NamedTuple, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import AccessDenied, SourceError, SourceUnavailable
from splitlib.redaction import get_logger
from splitlib.storage.files import is_data
from splitlib.storage.forks import native_threads_start

FILES_PER_PAGE = 1000
"""What one request tells at most: S3's own limit, and Google's."""

_log = get_logger(__name__)

_OLDEST = (0, 9, 4)
# Of what the engine asks for again, within its deadline and at a pace that the store bears, obstore
# makes one attempt: more would multiply, and hide from the engine that the store throttles.
_RETRIES: dict[str, Any] = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}
_PATIENT_RETRIES: dict[str, Any] = {**_RETRIES, "max_retries": 2}
_THROTTLED = r"<Code>(SlowDown|Throttling\w*|RequestLimitExceeded)<|status code: (429|503)\b"
_NO_BUCKET = r"<Code>(NoSuchBucket|ContainerNotFound|ResourceNotFound)<"
_DENIED = r"status code: 40[13]\b|<Code>PublicAccessNotPermitted<"
_OTHER_REGION = r"Received redirect|<Code>(PermanentRedirect|AuthorizationHeaderMalformed)<"
_GREATEST = "\U0010ffff"
_MODIFIED = pa.timestamp("ms", "UTC")


class NotFollowed(Exception):
    """Something here is not as obstore takes it: another client has to list."""


class NotInOrder(NotFollowed):
    """The store does not list keys in the order of their bytes."""


class OtherRegion(NotFollowed):
    """The bucket is in another region than the one that is set, or taken for granted."""


class NotInPages(NotFollowed):
    """The store's pages end before they are full, so that no page proves its end."""


class Bucket(NamedTuple):
    """A bucket, and the name of one of its directories."""

    name: str
    directory: str
    """Without slashes around it; '' is the bucket itself."""

    @classmethod
    def of(cls, path: str) -> Self:
        """Of ``s3://bucket/a/b/``, or of another store.

        Raises:
            NotFollowed: if a part of it is empty, which obstore has no name for.
        """
        bucket, _, directory = path.partition("://")[2].partition("/")
        directory = directory.rstrip("/")
        if not bucket or "//" in f"/{directory}":
            raise NotFollowed(path)
        return cls(bucket, directory)


class StoreKind(NamedTuple):
    """How stores of one kind list."""

    names_per_request: int = FILES_PER_PAGE
    """What one request tells at most."""
    is_flat: bool = True
    """Whether a store has keys and nothing else, and tells them in order from any one on.

    Where not, a directory may be there with nothing in it.
    """


FLAT: Final = StoreKind()
"""S3's, and Google's."""


class StoreOf(Protocol):
    """Makes obstore's store of a bucket."""

    def __call__(self, bucket: str, *, retry_config: Any) -> Any:
        """The store."""


class Confirmation(Protocol):
    """Makes sure by other means that listings are whole."""

    def end(self, at: Bucket, after: str) -> None:
        """Raise :class:`SourceUnavailable` if a directory holds anything after a key."""

    def pages(self, at: Bucket) -> None:
        """Raise :class:`NotFollowed` if the pages of a bucket are not as obstore needs them."""


class PagedListing:
    """Buckets reached with the same options. Thread-safe.

    obstore takes any XML for a listing: an error that is answered with status 200, or the page of
    a proxy, are an empty one. So an end that no object proves is confirmed.

    Args:
        protocol: fsspec's, for errors.
        store_of: What makes their stores.
        kind: How these list.
        confirm: What makes sure that there is no more.

    Raises:
        NotFollowed: if obstore is not installed, or is too old.
    """

    def __init__(
        self,
        protocol: str,
        store_of: StoreOf,
        kind: StoreKind = FLAT,
        confirm: Confirmation | None = None,
    ) -> None:
        try:
            import arro3.core  # noqa: F401 - what obstore's batches are made of
            import obstore
        except ImportError as error:
            raise NotFollowed(str(error)) from error
        # nobody has to have installed it as an extra of splitlib, which has this bound, too
        if tuple(map(int, re.findall(r"\d+", obstore.__version__)[:3])) < _OLDEST:
            raise NotFollowed(f"obstore {obstore.__version__} misses keys that hold '%'.")
        self.kind = kind
        self._obstore = obstore
        self._protocol = protocol
        self._store_of = store_of
        self._confirm = confirm
        self._stores: dict[tuple[str, bool], Any] = {}
        self._lock = threading.Lock()
        self._checked: set[str] = set()
        self._checking = threading.Lock()

    def level(self, at: Bucket, *, patient: bool = False) -> tuple[pa.RecordBatch, list[str], int]:
        """What is directly in a directory: files, the names of directories, how much was told.

        An object that marks a directory, and an empty file, are told and are not among the files.

        Args:
            at: The directory.
            patient: Whether to try again here, as nobody else may.

        Raises:
            SourceError: if there is no such bucket.
            NotFollowed: if a key is none that obstore can name, or there may be empty directories,
                which it does not tell from what is not there, and from empty files.
        """
        store = self._store(at.name, patient=patient)
        self._check_pages(at)
        with self._translated(at):
            found = self._obstore.list_with_delimiter(
                store, at.directory or None, return_arrow=True
            )
        above = [path.rpartition("/") for path in found["common_prefixes"]]
        (objects,) = pa.table(found["objects"]).combine_chunks().to_batches() or [_NONE]
        files = _files(objects, at)
        parents = pc.unique(pc.replace_substring_regex(files["path"], "/?[^/]*$", "")).to_pylist()
        _refuse_others(at, [*parents, *(parent for parent, _, _ in above)])
        names, told = [name for _, _, name in above], len(objects) + len(above)
        if not self.kind.is_flat and (not told or _empty(objects).difference(names)):
            raise NotFollowed("There may be an empty directory.")
        if self.kind.is_flat and (not told or told >= self.kind.names_per_request):
            prefix = f"{at.directory}/" if at.directory else ""
            last = [f"{prefix}{name}/{_GREATEST}" for name in names]
            self._confirm_end(at, max([*last, *objects["path"].to_pylist()], default=""))
        return files, names, told

    def first_pages(
        self, bucket: str, prefixes: Sequence[str], *, below: bool
    ) -> tuple[list[pa.RecordBatch], int]:
        """The first pages of directories that tell all of the first one, mostly a single page.

        A page takes a request, and tells what is in several directories, below them and in between.
        The next one begins where the next object that is wanted may be.

        Args:
            bucket: Where they are.
            prefixes: Of the directories, each with a slash at its end; in the order of their bytes,
                none in another one.
            below: Whether all objects below them are wanted, too.

        Returns:
            The pages, and the number of the first directories of which they tell all.

        Raises:
            NotInOrder: if the store tells keys in another order.
            NotFollowed: if it tells one that obstore cannot name.
        """
        root = commonpath([prefixes[0], prefixes[-1]])
        store = self._store(bucket)
        self._check_pages(Bucket(bucket, root))
        # "." is the character before "/": nothing that is wanted lies before it
        first = prefixes[0][:-1] + "."
        after, found = first, []
        while True:
            files, told = self._page(store, Bucket(bucket, root), after)
            found.append(files)
            last = _last(files, after)
            if told < FILES_PER_PAGE:
                return found, len(prefixes)
            if last is None:
                raise NotInOrder("A page without a file does not say where the next one begins.")
            begun = bisect_left(prefixes, last)
            if begun and not last.startswith(prefixes[begun - 1]):
                return found, begun
            if begun > 1:
                return found, begun - 1
            after = max(last, first)
            if begun and not below:
                child, slash, _ = last[len(prefixes[0]) :].partition("/")
                # past all that is in a directory in it, where there may be much
                after = f"{prefixes[0]}{child}/{_GREATEST}" if slash else last

    def _page(self, store: Any, root: Bucket, after: str) -> tuple[pa.RecordBatch, int]:
        """The files in and below a directory, after a key; how many objects the request told."""
        with self._translated(root):
            options: Any = {"chunk_size": FILES_PER_PAGE, "return_arrow": True}
            pages = self._obstore.list(store, root.directory or None, offset=after, **options)
            page = next(pages, None)
        objects = _NONE if page is None else pa.record_batch(page)
        if not len(objects):
            self._confirm_end(root, after)
        files = _files(objects, root)
        _refuse_markers(files)
        inside = pc.starts_with(files["path"], f"{root.directory}/")
        if root.directory and not pc.all(inside, min_count=0).as_py():
            _refuse_others(root, files["path"].slice(0, 1).to_pylist())
        return files, len(objects)

    def _confirm_end(self, at: Bucket, after: str) -> None:
        if self._confirm is not None:
            self._confirm.end(at, after)

    def _check_pages(self, at: Bucket) -> None:
        """Look at the pages of a bucket before its first listing."""
        if self._confirm is not None and at.name not in self._checked:
            with self._checking:
                if at.name not in self._checked:
                    self._confirm.pages(at)
                    self._checked.add(at.name)

    def _store(self, bucket: str, *, patient: bool = False) -> Any:
        with self._lock:
            if (bucket, patient) not in self._stores:
                native_threads_start()
                retries: Any = _PATIENT_RETRIES if patient else _RETRIES
                self._stores[bucket, patient] = self._store_of(bucket, retry_config=retries)
            return self._stores[bucket, patient]

    @contextmanager
    def _translated(self, at: Bucket) -> Iterator[None]:
        """Around a request: obstore's errors as splitlib's."""
        from obstore.exceptions import (
            BaseError,
            InvalidPathError,
            NotFoundError,
            PermissionDeniedError,
            UnauthenticatedError,
        )

        where = f"{self._protocol}://{at.name}/{at.directory}"

        def said(error: Exception) -> str:
            return str(error).partition("Debug source:")[0].strip()  # the rest is for its builders

        try:
            yield
        except (InvalidPathError, ValueError) as error:  # a key, or the name of a directory
            raise NotFollowed(str(error)) from error
        except NotFoundError as error:
            raise SourceError(f"There is no bucket {at.name!r}.") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise AccessDenied(f"{where}: {said(error)}") from error
        except BaseError as error:
            text = said(error)
            if re.search(_NO_BUCKET, text):
                raise SourceError(f"There is no bucket {at.name!r}.") from error
            if re.search(_DENIED, text):
                raise AccessDenied(f"{where}: {text}") from error
            if re.search(_OTHER_REGION, text):
                raise OtherRegion(text) from error
            if re.search(r"status code: 4(0[0-79]|1\d|2[0-8])\b", text):
                raise SourceError(f"{where}: {text}") from error
            unavailable = SourceUnavailable(f"{where}: {text}")
            unavailable.is_throttled = re.search(_THROTTLED, text) is not None
            raise unavailable from error


_NONE = pa.RecordBatch.from_pydict(
    {"path": [], "last_modified": [], "size": []},
    schema=pa.schema(
        [("path", pa.string()), ("last_modified", _MODIFIED), ("size", pa.uint64())],
    ),
)


def _files(objects: pa.RecordBatch, at: Bucket) -> pa.RecordBatch:
    """Path, size and time of objects that hold something, but for the marker of ``at``.

    obstore shows a directory's marker, an object whose name ends with a slash, without the slash:
    not as what it is, and out of order. Most are empty. Of empty files nothing is ever read.
    """
    modified = objects["last_modified"].cast(_MODIFIED, safe=False).cast(pa.int64())
    columns = [objects["path"].cast(pa.string()), objects["size"].cast(pa.int64()), modified]
    files = pa.RecordBatch.from_arrays(columns, ["path", "size", "modified"])
    is_file = pc.and_(
        pc.greater(files["size"], 0), pc.not_equal(files["path"], pa.scalar(at.directory))
    )
    return files.filter(is_file)


def _refuse_markers(files: pa.RecordBatch) -> None:
    """Refuse a page with what is a file and a directory: a directory's marker that has content.

    Raises:
        NotFollowed: as the marker would be read.
    """
    for path, following in itertools.pairwise(files["path"].to_pylist()):
        if following.startswith(f"{path}/"):
            raise NotFollowed(f"{path!r} marks a directory, and has content.")


def _empty(objects: pa.RecordBatch) -> set[str]:
    """Names of the objects that hold nothing: empty files, and what marks directories of Azure."""
    paths = objects["path"].cast(pa.string()).filter(pc.equal(objects["size"], 0))
    return {name for path in paths.to_pylist() if is_data(name := path.rpartition("/")[2])}


def _refuse_others(at: Bucket, told: Sequence[str]) -> None:
    """Refuse the listing of another directory.

    Raises:
        SourceUnavailable: as it is the answer to another request.
    """
    if other := set(told).difference([at.directory]):
        raise SourceUnavailable(f"Asked for {at.directory!r}, the store listed {min(other)!r}.")


def _last(files: pa.RecordBatch, after: str) -> str | None:
    """The last path of a page; None = it has no file.

    Raises:
        NotInOrder: if they are not in the order of their bytes, or not after ``after``.
    """
    paths = files["path"]
    if not len(paths):
        return None
    ordered = pc.all(pc.greater(paths[1:], paths[:-1]), min_count=0).as_py()
    if not ordered or paths[0].as_py() <= after:
        raise NotInOrder("The store does not list keys in the order of their bytes.")
    last: str = paths[-1].as_py()
    return last
