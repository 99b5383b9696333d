"""Listing S3 with obstore: several times less work than botocore, and pages that begin anywhere.

S3 tells up to 1,000 keys a request, in the order of their bytes, from any key on. So directories
that lie close together come with one request instead of one each.
"""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from os.path import commonpath
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import AccessDenied, SourceError, SourceUnavailable
from splitlib.redaction import get_logger

FILES_PER_PAGE = 1000
"""What one request tells at most: S3's own limit."""

_log = get_logger(__name__)

# Options of s3fs that say nothing about a listing.
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
_OLDEST = (0, 9, 4)
# Of what the engine asks for again, within its deadline and at a pace that the store bears, obstore
# makes one attempt: more would multiply, and hide from the engine that the store throttles.
_RETRIES: dict[str, Any] = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}
_PATIENT_RETRIES: dict[str, Any] = {**_RETRIES, "max_retries": 2}
_THROTTLED = r"<Code>(SlowDown|Throttling\w*|RequestLimitExceeded)<|status code: (429|503)\b"
_OTHER_REGION = r"Received redirect|<Code>(PermanentRedirect|AuthorizationHeaderMalformed)<"
_GREATEST = "\U0010ffff"
_MODIFIED = pa.timestamp("ms", "UTC")


class NotFollowed(Exception):
    """Something here is not as obstore takes it: another client has to list."""


class NotInOrder(NotFollowed):
    """The store does not list keys in the order of their bytes, as S3 does."""


class OtherRegion(NotFollowed):
    """The bucket is in another region than the one that is set, or taken for granted."""


class Bucket(NamedTuple):
    """A bucket, and the name of one of its directories."""

    name: str
    directory: str
    """Without slashes around it; '' is the bucket itself."""

    @classmethod
    def of(cls, path: str) -> Self:
        """Of ``s3://bucket/a/b/``.

        Raises:
            NotFollowed: if a part of it is empty, which obstore has no name for.
        """
        bucket, _, directory = path.removeprefix("s3://").partition("/")
        directory = directory.rstrip("/")
        if not bucket or "//" in f"/{directory}":
            raise NotFollowed(path)
        return cls(bucket, directory)


class Page(NamedTuple):
    """What one request tells of directories."""

    files: pa.RecordBatch
    """Of them, and perhaps of others: ``path``, ``size``, ``modified``."""
    complete: int
    """Of so many of the first directories there are no other files."""


class S3Listing:
    """Buckets reached with the same options. Thread-safe.

    Args:
        options: Those of s3fs, which mean the same here.

    Raises:
        NotFollowed: if obstore is not installed, is too old, or has no counterpart of an option.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        try:
            import arro3.core  # noqa: F401 - what obstore's batches are made of
            import obstore
        except ImportError as error:
            raise NotFollowed(str(error)) from error
        # nobody has to have installed it as an extra of splitlib, which has this bound, too
        if tuple(map(int, re.findall(r"\d+", obstore.__version__)[:3])) < _OLDEST:
            raise NotFollowed(f"obstore {obstore.__version__} misses keys that hold '%'.")
        self._obstore = obstore
        self._settings = _settings(options)
        self._stores: dict[tuple[str, bool], Any] = {}
        self._lock = threading.Lock()

    def level(self, at: Bucket, *, patient: bool = False) -> tuple[pa.RecordBatch, list[str], int]:
        """What is directly in a directory: files, the names of directories, how much was told.

        An object that marks a directory, and an empty file, are told and are not among the files.

        Args:
            at: The directory.
            patient: Whether to try again here, as nobody else may.

        Raises:
            SourceError: if there is no such bucket.
            NotFollowed: if a key is none that obstore can name.
        """
        store = self._store(at.name, patient=patient)
        with _translated(at):
            found = self._obstore.list_with_delimiter(
                store, at.directory or None, return_arrow=True
            )
        above = [path.rpartition("/") for path in found["common_prefixes"]]
        (objects,) = pa.table(found["objects"]).combine_chunks().to_batches() or [_NONE]
        files = _files(objects)
        parents = pc.unique(pc.replace_substring_regex(files["path"], "/?[^/]*$", "")).to_pylist()
        _refuse_others(at, [*parents, *(parent for parent, _, _ in above)])
        return files, [name for _, _, name in above], len(objects) + len(above)

    def pages(
        self, bucket: str, prefixes: Sequence[str], *, below: bool
    ) -> Iterator[pa.RecordBatch]:
        """The objects in directories, and some of those below and in between.

        Each page takes one request and begins where the next object that is wanted may be: the
        least requests that S3 permits, as a page cannot hold more and none is asked for twice.

        Args:
            bucket: Where they are.
            prefixes: Of the directories, each with a slash at its end; in the order of their bytes,
                none in another one.
            below: Whether all objects below them are wanted, too.

        Raises:
            NotInOrder: if the store tells keys in another order.
            NotFollowed: if it tells one that obstore cannot name.
        """
        for page in self._pages(bucket, prefixes, below=below):
            yield page.files

    def first_pages(
        self, bucket: str, prefixes: Sequence[str], *, below: bool
    ) -> tuple[list[pa.RecordBatch], int]:
        """The first of :meth:`pages` that tell all of the first directory, mostly one.

        And the number of the first directories of which these tell all.
        """
        found = []
        for page in self._pages(bucket, prefixes, below=below):
            found.append(page.files)
            if page.complete:
                return found, page.complete
        return found, len(prefixes)

    def _pages(self, bucket: str, prefixes: Sequence[str], *, below: bool) -> Iterator[Page]:
        root = commonpath([prefixes[0], prefixes[-1]])
        store = self._store(bucket)
        # "." is the character before "/": nothing that is wanted lies before it
        after = prefixes[0][:-1] + "."
        while True:
            with _translated(Bucket(bucket, root)):
                page = next(
                    self._obstore.list(
                        store,
                        root or None,
                        offset=after,
                        chunk_size=FILES_PER_PAGE,
                        return_arrow=True,
                    ),
                    None,
                )
            objects = _NONE if page is None else pa.record_batch(page)
            files = _files(objects)
            if root and not pc.all(pc.starts_with(files["path"], f"{root}/"), min_count=0).as_py():
                _refuse_others(Bucket(bucket, root), files["path"].slice(0, 1).to_pylist())
            last = _last(files, after)
            if len(objects) < FILES_PER_PAGE:
                yield Page(files, len(prefixes))
                return
            if last is None:
                raise NotInOrder("A page without a file does not say where the next one begins.")
            position = bisect_left(prefixes, last)
            if position and last.startswith(prefix := prefixes[position - 1]):
                yield Page(files, position - 1)
                child, slash, _ = last[len(prefix) :].partition("/")
                # past all that is in a directory in it, where there may be much
                after = f"{prefix}{child}/{_GREATEST}" if slash and not below else last
                continue
            yield Page(files, position)
            if position == len(prefixes):
                return
            after = max(last, prefixes[position][:-1] + ".")

    def _store(self, bucket: str, *, patient: bool = False) -> Any:
        with self._lock:
            if (bucket, patient) not in self._stores:
                from obstore.store import S3Store

                retries: Any = _PATIENT_RETRIES if patient else _RETRIES
                self._stores[bucket, patient] = S3Store(
                    bucket, retry_config=retries, **self._settings
                )
            return self._stores[bucket, patient]


_NONE = pa.RecordBatch.from_pydict(
    {"path": [], "last_modified": [], "size": []},
    schema=pa.schema(
        [("path", pa.string()), ("last_modified", _MODIFIED), ("size", pa.uint64())],
    ),
)


def _files(objects: pa.RecordBatch) -> pa.RecordBatch:
    """Path, size and time of objects that hold something.

    obstore shows a directory's marker, an empty object whose name ends with a slash, without the
    slash: not as what it is, and out of order. Of empty files nothing is ever read.
    """
    modified = objects["last_modified"].cast(_MODIFIED, safe=False).cast(pa.int64())
    columns = [objects["path"].cast(pa.string()), objects["size"].cast(pa.int64()), modified]
    files = pa.RecordBatch.from_arrays(columns, ["path", "size", "modified"])
    return files.filter(pc.greater(files["size"], 0))


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


@contextmanager
def _translated(at: Bucket) -> Iterator[None]:
    """Around a request: obstore's errors as splitlib's."""
    from obstore.exceptions import (
        BaseError,
        InvalidPathError,
        NotFoundError,
        PermissionDeniedError,
        UnauthenticatedError,
    )

    where = f"s3://{at.name}/{at.directory}"

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
        if "NoSuchBucket" in text:
            raise SourceError(f"There is no bucket {at.name!r}.") from error
        if re.search(_OTHER_REGION, text):
            raise OtherRegion(text) from error
        if re.search(r"status code: 4(0[0-79]|1\d|2[0-8])\b", text):
            raise SourceError(f"{where}: {text}") from error
        unavailable = SourceUnavailable(f"{where}: {text}")
        unavailable.is_throttled = re.search(_THROTTLED, text) is not None
        raise unavailable from error


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of s3fs as those of obstore.

    Raises:
        NotFollowed: if there is no counterpart of one.
    """
    given = {key: value for key, value in options.items() if key not in _WITHOUT_MEANING}
    given = {key: value for key, value in given.items() if value is not None}
    for key, value in dict(given.pop("client_kwargs", None) or {}).items():
        if key not in _CLIENT_KEYS:
            raise NotFollowed(f"client_kwargs {key}")
        given.setdefault(_CLIENT_KEYS[key], value)
    config = dict(given.pop("config_kwargs", None) or {})
    config.pop("max_pool_connections", None)  # here there is no limit
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
        # as botocore does: AWS wants the bucket in the host's name, other servers in the path
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
    """What the environment and the files of AWS say, as botocore understands them."""

    def __init__(self) -> None:
        try:
            from botocore.session import get_session
        except ImportError as error:
            raise NotFollowed(str(error)) from error
        self._session = get_session()

    def endpoint(self) -> str | None:
        """Of a server that is not AWS.

        Raises:
            NotFollowed: if a profile may give it in one of several ways.
        """
        profile = self._session.get_scoped_config()
        if {"endpoint_url", "services", "s3"} & set(profile):
            raise NotFollowed("the profile's endpoint_url, services or s3")
        return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")

    def region(self) -> str | None:
        """The default region."""
        region: str | None = self._session.get_config_variable("region")
        return region

    def credentials(self) -> Callable[[], dict[str, Any]] | None:
        """What gives them whenever they are needed; None = there are none."""
        found = self._session.get_credentials()
        if found is None:
            return None

        def give() -> dict[str, Any]:
            now = found.get_frozen_credentials()
            # asked again for each expiry that is known, and botocore renews them in time
            expires = getattr(found, "_expiry_time", None)
            return {
                "access_key_id": now.access_key,
                "secret_access_key": now.secret_key,
                "token": now.token,
                "expires_at": expires,
            }

        return give
