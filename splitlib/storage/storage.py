"""The storage behind a table's locations: fsspec for all of it, and obstore where that serves."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import (
    LocationNotAllowed,
    MissingPartition,
    SourceError,
)
from splitlib.redaction import get_logger
from splitlib.storage.allowed import is_restricted, refuse_outside
from splitlib.storage.azure_stores import azure_stores
from splitlib.storage.confirmed import confirm_end, has_whole_pages
from splitlib.storage.files import Level, StoredFile, file_batch, is_data, of_directories, of_rows
from splitlib.storage.filesystems import (
    Filesystems,
    Links,
    OptionsByProtocol,
    level_of,
)
from splitlib.storage.forks import in_forks_of_this, native_threads_are_lost
from splitlib.storage.gcs_stores import gcs_stores
from splitlib.storage.locations import Location, local_path, located
from splitlib.storage.pages import (
    FILES_PER_PAGE,
    FLAT,
    Bucket,
    NotFollowed,
    NotInOrder,
    NotInPages,
    OtherRegion,
    PagedListing,
    StoreKind,
)
from splitlib.storage.s3_stores import endpoint_of, s3_stores

_log = get_logger(__name__)
# S3's directory buckets list in no order, and from the beginning only.
_UNORDERED_BUCKET = "--x-s3"
# Of how many buckets one call asks for pages, one after the other.
_BUCKETS = 4
# Endpoints and buckets whose pages were looked at, once in a process.
_WITH_WHOLE_PAGES: set[tuple[str, str]] = set()
_AZURE = StoreKind(names_per_request=5000, is_flat=False)
# By fsspec's protocol, what makes the stores that obstore lists.
_STORES = {
    "s3": (s3_stores, FLAT),
    "gs": (gcs_stores, FLAT),
    "abfss": (azure_stores, _AZURE),
    "az": (azure_stores, _AZURE),
}


class Storage:
    """The filesystems and object stores behind the locations of a table. Thread-safe.

    Args:
        options: Options of fsspec's filesystem, as in ``fsspec.filesystem(protocol, **options)``.
            Whatever lists follows them, or is not used. Those that are
            :class:`OptionsByProtocol` are for locations of these protocols only.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = {} if options is None else options
        self._filesystems = Filesystems(self._options)
        self._lock = threading.Lock()
        self._listings: dict[str, PagedListing | None] = {}
        """By what tells options apart; None = fsspec lists."""
        self._is_in_order = True
        self._buckets: set[str] = set()
        """Those that are known to be there."""
        in_forks_of_this(self, Storage._fork)

    def _fork(self) -> None:
        # obstore's threads are not in a forked process, where any call of it waits for ever
        self._lock = threading.Lock()
        self._listings = {}

    def filesystem(self, location: str) -> tuple[Any, str]:
        """The filesystem of ``location`` and the path in it.

        Raises:
            ConnectorNotInstalled: if the package for the protocol is missing.
            CorruptMetadata: for no path at all, which fsspec takes for the working directory.
            LocationNotAllowed: if it is outside of what may be reached.
        """
        refuse_outside(location)
        return self._filesystems.of(location)

    def files_per_page(self, location: str) -> int:
        """How many files of neighbouring directories one request lists; 0 = of one directory only.

        See :attr:`splitlib.spi.Connector.files_per_page`.
        """
        place = located(location)
        listing = self._listing(place)
        if listing is None or _UNORDERED_BUCKET in place.path.split("/")[2]:
            return 0
        return FILES_PER_PAGE if self._is_in_order and listing.kind.is_flat else 0

    def list_files(
        self, locations: Sequence[str], *, below: bool = False
    ) -> tuple[pa.RecordBatch, int]:
        """The data files in directories, and how many requests that took.

        On an object store a directory without files has none; it is not missing.

        Args:
            locations: Of the directories.
            below: Whether files in directories below them count, too.

        Returns:
            Files as in :data:`splitlib.model.FILE_SCHEMA`, ``partition`` being the place of their
            directory in ``locations``.

        Raises:
            MissingPartition: if there is no such directory.
            SourceError: if a symbolic link leads back to a directory above it.
        """
        found, requests, first = [], 0, 0
        while first < len(locations):
            files, took, listed = self.list_first(locations[first:], below=below)
            rows = pa.array(range(first, first + listed), pa.int64())
            found.append(of_rows(files, rows))
            requests, first = requests + took, first + listed
        (batch,) = pa.Table.from_batches(found).combine_chunks().to_batches() or [file_batch([])]
        return batch, requests

    def list_first(
        self, locations: Sequence[str], *, below: bool = False
    ) -> tuple[pa.RecordBatch, int, int]:
        """As :meth:`list_files`, of the first directory, and of those after it that come with it.

        Of a store that lists in pages, with the request that it takes anyway.

        Returns:
            Files and requests as there, and of how many of the first directories these are.
        """
        if len(locations) > 1 and self._is_in_order:
            try:
                return self._listed_first(locations, below)
            except NotFollowed as reason:
                _log.info("Directories are listed one by one: %s", reason)
                self._is_in_order &= not isinstance(reason, NotInOrder)
        found, requests = self._files_of(locations[0], below)
        return file_batch((0, file) for file in found), requests, 1

    def files(self, location: str) -> list[StoredFile]:
        """The data files directly in a directory, by name; sub-directories are not looked into.

        Raises:
            MissingPartition: if there is no such directory.
        """
        return self.level(location).files

    def files_below(self, location: str) -> tuple[list[StoredFile], int]:
        """The data files in a directory and below it, and how many listings that took.

        Raises:
            MissingPartition: if there is no such directory.
            SourceError: as of :meth:`levels_below`.
        """
        levels = list(self.levels_below(location))
        return [file for level in levels for file in level.files], sum(
            level.requests for level in levels
        )

    def levels_below(self, location: str, *, patient: bool = False) -> Iterator[Level]:
        """A directory, then each directory below it, those of one directory by name.

        Args:
            location: Of the directory.
            patient: As of :meth:`level`.

        Raises:
            MissingPartition: if there is no such directory.
            SourceError: if symbolic links lead back to a directory above them, or very often to the
                same one.
        """
        links = Links()
        pending = [location]
        while pending:
            here = pending.pop()
            try:
                level = self.level(here, patient=patient)
            except MissingPartition:
                if here == location or not located(here).is_on_object_store:
                    raise
                continue  # the last object of it has gone since it was listed
            yield level
            below = [f"{here.rstrip('/')}/{name}" for name in level.directories]
            for directory in below:
                links.follow(*self.filesystem(directory))
            pending += reversed(below)

    def directories(self, location: str) -> list[str]:
        """Names of the directories directly in a directory, sorted, without hidden ones.

        Raises:
            MissingPartition: if there is no such directory.
        """
        # a listing of partitions that has begun is not tried again as a whole
        return self.level(location, patient=True).directories

    def level(self, location: str, *, patient: bool = False) -> Level:
        """What is directly in a directory.

        Args:
            location: Of the directory.
            patient: Whether failures are tried again here, as nobody else may.

        Raises:
            MissingPartition: if there is no such directory: on an object store, nothing at all.
            LocationNotAllowed: if it is outside of what may be reached.
        """
        refuse_outside(location)
        place = located(location)
        base = local_path(location).rstrip("/")
        listing = self._listing(place)
        if listing is not None:
            try:
                objects, directories, told = listing.level(Bucket.of(place.path), patient=patient)
            except NotFollowed as reason:
                _log.info("%s is listed with fsspec: %s", location, reason)
                if isinstance(reason, OtherRegion | NotInPages):
                    # botocore finds the region, and looks at every page
                    self._listings[self._filesystems.group_of(place)] = None
            else:
                if not told:
                    self._buckets.add(_bucket(place))
                    raise MissingPartition(f"There is nothing at {location!r}.")
                files = [
                    StoredFile(f"{base}/{name}", size, modified)
                    for path, size, modified in zip(*objects.to_pydict().values(), strict=True)
                    if is_data(name := path.rpartition("/")[2])
                ]
                requests = max(1, -(-told // listing.kind.names_per_request))
                shown = sorted(filter(is_data, directories))
                return Level(files, shown, requests, frozenset(directories).difference(shown))
        return level_of(*self.filesystem(location), location)

    def given_options(self, protocol: str) -> Mapping[str, Any]:
        """What a user has given for a protocol; empty where the session has told its own."""
        return {} if isinstance(self._options, OptionsByProtocol) else self._options

    def _listing(self, place: Location) -> PagedListing | None:
        group = self._filesystems.group_of(place)
        with self._lock:
            if group not in self._listings:
                self._listings[group] = None
                if place.protocol in _STORES:
                    try:
                        self._listings[group] = self._paged_listing(place.protocol, group)
                    except NotFollowed as reason:
                        _log.info("%s:// is listed with fsspec: %s", place.protocol, reason)
            return self._listings[group]

    def _paged_listing(self, protocol: str, group: str) -> PagedListing:
        if native_threads_are_lost():
            raise NotFollowed("This process was forked from one that had used obstore.")
        make, kind = _STORES[protocol]
        options = self._filesystems.options_of(group)
        confirmed = _Confirmed(self._filesystems, protocol, options)
        return PagedListing(protocol, make(options), kind, confirmed)

    def _listed_first(
        self, locations: Sequence[str], below: bool
    ) -> tuple[pa.RecordBatch, int, int]:
        """See :meth:`list_first`, of directories that pages tell together.

        Raises:
            NotFollowed: if they are not that.
        """
        listing, buckets = self._in_buckets(locations)
        if len(buckets) > _BUCKETS:
            raise NotFollowed("They are in many buckets.")
        found, told, requests = [], set[int](), 0
        for name, rows in buckets.items():
            first = next(iter(rows))
            prefixes = sorted(prefix for prefix in rows if prefix >= first)
            pages, complete = listing.first_pages(name, prefixes, below=below)
            found.append(of_directories(pa.Table.from_batches(pages), rows, locations, below))
            told.update(rows[prefix] for prefix in prefixes[:complete])
            requests += len(pages)
        listed = min(set(range(len(locations))) - told, default=len(locations))
        (files,) = pa.Table.from_batches(found).combine_chunks().to_batches() or found[:1]
        return files.filter(pc.less(files["partition"], listed)), requests, listed

    def _in_buckets(
        self, locations: Sequence[str]
    ) -> tuple[PagedListing, dict[str, dict[str, int]]]:
        """What lists directories together; and by bucket and prefix, which of them it is.

        Raises:
            NotFollowed: if they cannot be listed together.
        """
        roots: dict[tuple[str, str], dict[str, int]] = {}
        for row, location in enumerate(locations):
            parts = location.split("/", 3)
            if len(parts) < 4 or parts[1] or not parts[3].strip("/"):
                raise NotFollowed(f"{location!r} is no directory in a bucket.")
            scheme, _, bucket, directory = parts
            roots.setdefault((scheme, bucket), {})[directory.rstrip("/") + "/"] = row
        refuse_outside(*locations)
        buckets: dict[str, dict[str, int]] = {}
        groups = set()
        for (scheme, name), rows in roots.items():
            place = located(f"{scheme}//{name}/")
            groups.add(self._filesystems.group_of(place))
            buckets.setdefault(name, {}).update(rows)
        listing = self._listing(place) if len(groups) == 1 else None
        if listing is None or not listing.kind.is_flat:
            raise NotFollowed("No page tells several of them.")
        for name, rows in buckets.items():
            prefixes = sorted(rows)
            self._refuse_between(f"{place.protocol}://{name}", prefixes)
            nested = any(b.startswith(a) for a, b in itertools.pairwise(prefixes))
            if nested or sum(map(len, buckets.values())) < len(locations):
                raise NotFollowed("One directory is in another one, or the same.")
            if any("//" in prefix or prefix[0] == "/" for prefix in prefixes):
                raise NotFollowed("Part of a directory's name is empty.")
        return listing, buckets

    def _refuse_between(self, bucket: str, prefixes: Sequence[str]) -> None:
        """Let directories be listed together only if what lies between them is allowed, too.

        Raises:
            NotFollowed: if it is not.
        """
        if is_restricted():
            above = os.path.commonpath([prefixes[0], prefixes[-1]])
            try:
                refuse_outside(f"{bucket}/{above}")
            except LocationNotAllowed as error:
                raise NotFollowed("Between them there may be what is not allowed.") from error

    def _files_of(self, location: str, below: bool) -> tuple[list[StoredFile], int]:
        try:
            if below:
                return self.files_below(location)
            level = self.level(location)
        except MissingPartition:
            if not located(location).is_on_object_store:
                raise
            self._check_bucket(location)
            return [], 1
        return level.files, level.requests

    def _check_bucket(self, location: str) -> None:
        """Make sure that the bucket of a directory in which nothing was found is there.

        Raises:
            SourceError: if not.
        """
        bucket = _bucket(located(location))
        if bucket in self._buckets:
            return
        fs, path = self._filesystems.of(bucket)  # which may be above what is allowed
        try:
            fs.ls(path)
        except FileNotFoundError as error:
            raise SourceError(f"There is no bucket {bucket!r}.") from error
        except PermissionError:
            pass  # of what may not be looked at it is said that it is there
        self._buckets.add(bucket)


class _Confirmed:
    """See :class:`splitlib.storage.pages.Confirmation`; with what fsspec has for the protocol."""

    def __init__(self, filesystems: Filesystems, protocol: str, options: Mapping[str, Any]) -> None:
        self._filesystems = filesystems
        self._protocol = protocol
        self._options = options

    def end(self, at: Bucket, after: str) -> None:
        if self._protocol == "s3":
            confirm_end(self._filesystem(at), at.name, at.directory, after)

    def pages(self, at: Bucket) -> None:
        endpoint = endpoint_of(self._options) if self._protocol == "s3" else None
        if endpoint is None or (endpoint, at.name) in _WITH_WHOLE_PAGES:
            return  # of AWS and Google it is known
        if not has_whole_pages(self._filesystem(at), at.name, at.directory):
            raise NotInPages("The store goes on with another page before one is full.")
        _WITH_WHOLE_PAGES.add((endpoint, at.name))

    def _filesystem(self, at: Bucket) -> Any:
        return self._filesystems.of(f"{self._protocol}://{at.name}/{at.directory}")[0]


def _bucket(place: Location) -> str:
    return "/".join(place.path.split("/")[:3])
