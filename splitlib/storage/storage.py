"""``Storage``: lists directories with obstore or fsspec, and reads files with fsspec."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.errors import FileChanged, LocationNotAllowed, MissingPartition, SourceError
from splitlib.redaction import get_logger
from splitlib.storage.clients import in_forks_of_this, native_threads_are_lost
from splitlib.storage.clouds import AzureSettings, GcsSettings
from splitlib.storage.files import (
    Level,
    StoredFile,
    file_batch,
    is_data,
    is_searched,
    of_directories,
    of_rows,
)
from splitlib.storage.filesystems import (
    Filesystems,
    Links,
    OptionsByProtocol,
    level_of,
    modified,
    no_directory,
)
from splitlib.storage.locations import Location, local_path, located, refuse_outside
from splitlib.storage.pages import (
    FILES_PER_PAGE,
    Bucket,
    NotFollowed,
    NotInOrder,
    OtherRegion,
    PagedListing,
)
from splitlib.storage.received import confirm_end
from splitlib.storage.s3 import S3Settings

_log = get_logger(__name__)
# Name suffix of S3 directory buckets. S3 lists their keys unordered, and always from the start. So
# one request cannot list several of their directories.
_UNORDERED_BUCKET = "--x-s3"
# Maximum number of buckets in a call that lists several directories per page.
_BUCKETS = 4
CLOUDS: Final[Mapping[str, type[S3Settings | GcsSettings | AzureSettings]]] = {
    "s3": S3Settings,
    "gs": GcsSettings,
    "abfss": AzureSettings,
    "az": AzureSettings,
}
"""Class of each cloud's client settings, by fsspec's protocol name."""


class Storage:
    """Access to a table's files, on any filesystem or object store. Thread-safe.

    Args:
        options: fsspec filesystem options, as in ``fsspec.filesystem(protocol, **options)``. If
            obstore does not support one of them, fsspec lists the directories. An
            :class:`OptionsByProtocol` has separate options per protocol.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options = {} if options is None else options
        self._filesystems = Filesystems(self._options)
        self._lock = threading.Lock()
        self._listings: dict[str, PagedListing | None] = {}
        """obstore listers by :meth:`Filesystems.group_of`. None means that fsspec is used."""
        self._is_in_order = True
        self._buckets: set[str] = set()
        """Buckets that earlier requests have shown to exist."""
        in_forks_of_this(self, Storage._fork)

    def _fork(self) -> None:
        # A forked process does not have obstore's threads, so any obstore call would hang. Without
        # these listers, `_paged_listing` decides again, and fsspec lists the directories.
        self._lock = threading.Lock()
        self._listings = {}

    def filesystem(self, location: str) -> tuple[Any, str]:
        """Return the filesystem for ``location``, and the location's path in this filesystem.

        Raises:
            ConnectorNotInstalled: if the package for the protocol is missing.
            CorruptMetadata: for an empty path, which fsspec would read as the working directory.
            LocationNotAllowed: if the location is not allowed.
        """
        refuse_outside([location])
        return self._filesystems.of(location)

    def files_per_page(self, location: str) -> int:
        """Return the maximum number of files per request, or 0.

        0 means that one request cannot list several directories. See
        :attr:`splitlib.spi.Connector.files_per_page`.
        """
        place = located(location)
        listing = self._listing(place)
        if listing is None or _UNORDERED_BUCKET in place.path.split("/")[2]:
            return 0
        return FILES_PER_PAGE if self._is_in_order and listing.kind.is_flat else 0

    def list_files(
        self, locations: Sequence[str], *, below: bool = False
    ) -> tuple[pa.RecordBatch, int]:
        """Return the data files in the directories ``locations``, and the number of requests.

        On an object store, a directory without files is not an error, because directories do not
        exist there.

        Args:
            locations: Directory locations.
            below: Whether to include files in subdirectories.

        Returns:
            The files, with the columns of :data:`splitlib.model.FILE_SCHEMA`, and the number of
            requests. ``partition`` is the directory's index in ``locations``.

        Raises:
            MissingPartition: if a directory does not exist.
            SourceError: if a symbolic link leads to one of its parent directories.
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
        """List the first directory, and the following ones that happen to be on the same pages.

        One page of an object store's listing can contain the files of several directories.

        Returns:
            The files and the number of requests, as in :meth:`list_files`, and the number of
            leading directories that were listed completely.
        """
        if len(locations) > 1 and self._is_in_order:
            try:
                return self._listed_first(locations, below)
            except NotFollowed as reason:
                _log.info("Directories are listed one by one: %s", reason)
                self._is_in_order &= not isinstance(reason, NotInOrder)
        found, requests = self._files_of(locations[0], below)
        return file_batch((0, file) for file in found), requests, 1

    def files_below(self, location: str) -> tuple[list[StoredFile], int]:
        """Return the data files in a directory and its subdirectories, and the number of requests.

        Raises:
            MissingPartition: if the directory does not exist.
            SourceError: if a symbolic link leads to one of its parent directories, or too many
                links lead to the same directory.
        """
        levels = list(self.levels_below(location))
        return [file for level in levels for file in level.files], sum(
            level.requests for level in levels
        )

    def levels_below(self, location: str, *, retries: bool = False) -> Iterator[Level]:
        """Yield the content of a directory, then of each subdirectory, ordered by name.

        Args:
            location: Directory location.
            retries: Whether to retry failed requests. Set this if the caller does not retry.

        Raises:
            MissingPartition: if the directory does not exist.
            SourceError: if a symbolic link leads to one of its parent directories, or too many
                links lead to the same directory.
        """
        links = Links()
        pending = [location]
        while pending:
            here = pending.pop()
            try:
                level = self.level(here, retries=retries)
            except MissingPartition:
                if here == location or not located(here).is_on_object_store:
                    raise
                continue  # this directory's objects were deleted after its parent was listed
            yield level
            below = [f"{here.rstrip('/')}/{name}" for name in level.directories]
            for directory in below:
                links.follow(*self.filesystem(directory))
            pending += reversed(below)

    def level(self, location: str, *, retries: bool = False) -> Level:
        """Return the files and subdirectories directly in a directory.

        Args:
            location: Directory location.
            retries: Whether to retry failed requests. Set this if the caller does not retry.

        Raises:
            MissingPartition: if the directory does not exist, or is empty on an object store.
            LocationNotAllowed: if the location is not allowed.
        """
        refuse_outside([location])
        place = located(location)
        base = local_path(location).rstrip("/")
        listing = self._listing(place)
        if listing is not None:
            try:
                objects, directories, entries = listing.level(
                    Bucket.of(place.path), retries=retries
                )
            except NotFollowed as reason:
                _log.info("%s is listed with fsspec: %s", location, reason)
                if isinstance(reason, OtherRegion):  # use s3fs, which finds the region
                    self._listings[self._filesystems.group_of(place)] = None
            else:
                if not entries:
                    self._buckets.add(_bucket(place))
                    raise MissingPartition(f"There is nothing at {location!r}.")
                found = [
                    StoredFile(f"{base}/{path.rpartition('/')[2]}", size, modified)
                    for path, size, modified in zip(*objects.to_pydict().values(), strict=True)
                ]
                names = [file.path.rpartition("/")[2] for file in found]
                files = [file for file, name in zip(found, names, strict=True) if is_data(name)]
                requests = max(1, -(-entries // listing.kind.names_per_request))
                shown = sorted(filter(is_searched, directories))
                hidden = frozenset(directories).difference(shown)
                hidden_files = frozenset(name for name in names if not is_data(name))
                return Level(files, shown, requests, hidden, hidden_files)
        return level_of(*self.filesystem(location), location)

    def read_end(self, file: StoredFile, length: int) -> bytes:
        """Return the last bytes of a listed file, with one request.

        Args:
            file: The file's entry in a listing.
            length: Number of bytes, at most the file size.

        Raises:
            FileChanged: if a local file's size or modification time has changed since the listing.
                Other files are not checked, because that would take another request.
            LocationNotAllowed: if the location is not allowed.
        """
        fs, path = self.filesystem(file.path)
        found: bytes = fs.cat_file(path, start=file.size - length, end=file.size)
        if getattr(fs, "local_file", False):
            now = fs.info(path)
            if (now["size"], modified(now)) != (file.size, file.modified):
                raise FileChanged(f"{file.path!r} has changed since it was listed.")
        return found

    @property
    def given_options(self) -> Mapping[str, Any]:
        """Options that the user passed. Empty if the options come from a Spark session."""
        return {} if isinstance(self._options, OptionsByProtocol) else self._options

    def _listing(self, place: Location) -> PagedListing | None:
        group = self._filesystems.group_of(place)
        with self._lock:
            if group not in self._listings:
                self._listings[group] = None
                if place.protocol in CLOUDS:
                    try:
                        self._listings[group] = self._paged_listing(place.protocol, group)
                    except (NotFollowed, ImportError) as reason:
                        _log.info("%s:// is listed with fsspec: %s", place.protocol, reason)
            return self._listings[group]

    def _paged_listing(self, protocol: str, group: str) -> PagedListing:
        if native_threads_are_lost():
            raise NotFollowed("This process was forked from one that had used obstore.")
        settings = CLOUDS[protocol].from_fsspec(self._filesystems.options_of(group))
        # A bound method of this object would be a reference cycle.
        confirm = partial(_confirm, self._filesystems) if protocol == "s3" else None
        return PagedListing(protocol, settings.stores(), settings.kind, confirm)

    def _listed_first(
        self, locations: Sequence[str], below: bool
    ) -> tuple[pa.RecordBatch, int, int]:
        """Implement :meth:`list_first` with pages that may cover several directories."""
        listing, buckets = self._in_buckets(locations)
        if len(buckets) > _BUCKETS:
            raise NotFollowed("The directories are in too many buckets.")
        found, complete_rows, requests = [], set[int](), 0
        for name, rows in buckets.items():
            first = next(iter(rows))
            prefixes = sorted(prefix for prefix in rows if prefix >= first)
            pages, complete = listing.first_pages(name, prefixes, below=below)
            found.append(of_directories(pa.Table.from_batches(pages), rows, locations, below))
            complete_rows.update(rows[prefix] for prefix in prefixes[:complete])
            requests += len(pages)
        listed = min(set(range(len(locations))) - complete_rows, default=len(locations))
        (files,) = pa.Table.from_batches(found).combine_chunks().to_batches() or found[:1]
        return files.filter(pc.less(files["partition"], listed)), requests, listed

    def _in_buckets(
        self, locations: Sequence[str]
    ) -> tuple[PagedListing, dict[str, dict[str, int]]]:
        """Return the object that lists the locations, and their indexes by bucket and path.

        An example of the indexes is ``{"bucket": {"sales/day=1/": 0}}``.
        """
        roots: dict[tuple[str, str], dict[str, int]] = {}
        for row, location in enumerate(locations):
            parts = location.split("/", 3)
            if len(parts) < 4 or parts[1] or not parts[3].strip("/"):
                raise NotFollowed(f"{location!r} is not a directory in a bucket.")
            scheme, _, bucket, directory = parts
            roots.setdefault((scheme, bucket), {})[directory.rstrip("/") + "/"] = row
        buckets: dict[str, dict[str, int]] = {}
        groups = set()
        for (scheme, name), rows in roots.items():
            place = located(f"{scheme}//{name}/")
            groups.add(self._filesystems.group_of(place))
            buckets.setdefault(name, {}).update(rows)
        listing = self._listing(place) if len(groups) == 1 else None
        if listing is None or not listing.kind.is_flat:
            raise NotFollowed("One request cannot list several of the directories.")
        for name, rows in buckets.items():
            prefixes = sorted(rows)
            nested = any(b.startswith(a) for a, b in itertools.pairwise(prefixes))
            if nested or sum(map(len, buckets.values())) < len(locations):
                raise NotFollowed("Some of the directories are nested or repeated.")
            if any("//" in prefix or prefix[0] == "/" for prefix in prefixes):
                raise NotFollowed("A part of a directory's path is empty.")
            # A page may list everything in the common parent directory, so the parent directory
            # must be allowed, too.
            above = os.path.commonpath([prefixes[0], prefixes[-1]])
            try:
                refuse_outside([f"{place.protocol}://{name}/{above}", *locations])
            except LocationNotAllowed as error:
                raise NotFollowed("A page could list locations that are not allowed.") from error
        return listing, buckets

    def _files_of(self, location: str, below: bool) -> tuple[list[StoredFile], int]:
        try:
            if below:
                return self.files_below(location)
            level = self.level(location)
        except MissingPartition:
            if not located(location).is_on_object_store:
                raise
            self._check_bucket(location)
            # The location may be a file, because object stores list nothing below a file. This is
            # checked only if it has a file name extension, because it takes another request.
            if os.path.splitext(location)[1][1:].isalpha():
                fs, path = self.filesystem(location)
                if fs.isfile(path):
                    raise no_directory(location) from NotADirectoryError(location)
            return [], 1
        return level.files, level.requests

    def _check_bucket(self, location: str) -> None:
        """Check that a location's bucket exists. Call this if the location has no files."""
        bucket = _bucket(located(location))
        if bucket in self._buckets:
            return
        # Do not check allowed_locations here, because it may not include the whole bucket.
        fs, path = self._filesystems.of(bucket)
        try:
            # s3fs has already confirmed the end of the listing, which fails without the bucket.
            if not hasattr(fs, "call_s3"):
                fs.ls(path)
        except FileNotFoundError as error:
            raise SourceError(f"There is no bucket {bucket!r}.") from error
        except PermissionError:
            pass  # without permission to list the bucket, assume that it exists
        self._buckets.add(bucket)


def _confirm(filesystems: Filesystems, at: Bucket, after: str) -> None:
    """Check with s3fs that obstore's listing of a directory on S3 is complete."""
    fs, _ = filesystems.of(f"s3://{at.name}/{at.directory}")
    confirm_end(fs, at.name, at.directory, after)


def _bucket(place: Location) -> str:
    return "/".join(place.path.split("/")[:3])
