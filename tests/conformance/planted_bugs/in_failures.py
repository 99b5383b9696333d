"""Connectors with mistakes that appear only with a failing source or with concurrent use."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, ClassVar

from splitlib.errors import MissingPartition, TableNotFound
from splitlib.remote.calls import current_call
from tests.conformance.memory_connectors import AbleConnector, PinnedConnector, PlainConnector
from tests.conformance.memory_harness import PlainHarness
from tests.conformance.planted_bugs.plant import caught_by


@caught_by(
    "unavailable_source_is_tried_again", "source_that_stays_unavailable", "refusal_is_access_denied"
)
class TakesFailuresOfTheCatalogForTheEnd(PlainConnector):
    def names(self, after):
        try:
            return super().names(after)
        except Exception:
            return []


@caught_by(
    "unavailable_source_is_tried_again",
    "source_that_stays_unavailable",
    "refusal_is_access_denied",
    "garbage_is_an_error",
)
class TakesFailuresOfTheStorageForEmpty(PlainConnector):
    def list_files(self, partitions, predicate):
        try:
            yield from super().list_files(partitions, predicate)
        except MissingPartition:
            raise
        except Exception:
            return


@caught_by(
    "unavailable_source_is_tried_again", "source_that_stays_unavailable", "refusal_is_access_denied"
)
class TakesUnavailableForMissing(PlainConnector):
    def list_files(self, partitions, predicate):
        try:
            yield from super().list_files(partitions, predicate)
        except OSError as error:
            raise MissingPartition("There is no such directory.") from error


@caught_by("unavailable_source_is_tried_again", "source_that_stays_unavailable")
class TakesUnavailableForNoTable(PlainConnector):
    @classmethod
    def open(cls, name, options):
        try:
            return super().open(name, options)
        except ConnectionError as error:
            raise TableNotFound(f"There is no table {name!r}.") from error


@caught_by("unavailable_source_is_tried_again")
class StaysBroken(PlainConnector):
    """Fails in all later calls after its connection was closed."""

    broken = False

    def list_files(self, partitions, predicate):
        if self.broken:
            raise RuntimeError("the connection was closed")
        try:
            yield from super().list_files(partitions, predicate)
        except OSError:
            self.broken = True
            raise


@caught_by("refusal_is_access_denied")
class TakesRefusalForEmpty(PlainConnector):
    def list_files(self, partitions, predicate):
        try:
            yield from super().list_files(partitions, predicate)
        except PermissionError:
            return


@caught_by("refusal_is_access_denied")
class TakesRefusalForUnavailable(PlainConnector):
    def names(self, after):
        try:
            return super().names(after)
        except PermissionError as error:
            raise TimeoutError("the catalog does not answer") from error


@caught_by("garbage_is_an_error")
class TakesGarbageForEmpty(PlainConnector):
    def files_of(self, row, found):
        return super().files_of(row, found or [])

    def list_files(self, partitions, predicate):
        for row, ref in enumerate(partitions.refs.to_pylist()):
            try:
                found = self.client.files(self.location_of(ref)) or []
            except KeyError as error:
                raise MissingPartition("There is no such partition.") from error
            yield self.files_of(row, [file for file in found if self.is_data(file["name"])])


@caught_by("garbage_is_an_error")
class TakesGarbageForTheEnd(PlainConnector):
    def names(self, after):
        return super().names(after) or []


@caught_by("hanging_call_ends_at_its_deadline")
class TakesSlowForEmpty(PlainConnector):
    """Treats a slow response as an empty page."""

    def names(self, after):
        pool = ThreadPoolExecutor(1)
        answer = pool.submit(super().names, after)
        pool.shutdown(wait=False)
        try:
            return answer.result(0.05)
        except TimeoutError:
            return []


@caught_by("hanging_open_ends_at_its_deadline")
class TakesASlowSnapshotForEmpty(PinnedConnector):
    """Treats a slow response in ``open`` as an empty page."""

    def names(self, after):
        pool = ThreadPoolExecutor(1)
        answer = pool.submit(super().names, after)
        pool.shutdown(wait=False)
        try:
            return answer.result(0.05)
        except TimeoutError:
            return []


@caught_by("cancel_in_the_middle", "hanging_call_ends_at_its_deadline")
class GivesUpForGood(PlainConnector):
    """Closes its connection when a call is abandoned."""

    def names(self, after):
        found = super().names(after)
        call = current_call()
        if call is not None and call.abandoned.is_set():
            self.client.close()
        return found


@caught_by(
    "several_threads_at_once",
    "several_filters_at_once",
    "half_read_listing_can_be_left",
    "unavailable_source_is_tried_again",
    "hanging_call_ends_at_its_deadline",
    "cancel_in_the_middle",
)
class ServesOneAtATime(PlainConnector):
    busy = False

    def list_partitions(self, predicate):
        if self.busy:
            raise RuntimeError("the connection is in use")
        self.busy = True
        time.sleep(0.05)
        yield from super().list_partitions(predicate)
        self.busy = False


@caught_by(
    "half_read_listing_can_be_left", "cancel_in_the_middle", "hanging_call_ends_at_its_deadline"
)
class ClosesWithAListingThatIsLeft(PlainConnector):
    def list_partitions(self, predicate):
        try:
            yield from super().list_partitions(predicate)
        except GeneratorExit:
            self.client.close()
            raise


@caught_by("connections_are_given_back")
class NeverCloses(PlainConnector):
    def close(self):
        pass


@caught_by("connections_are_given_back", harness=PlainHarness)
class KeepsAFileOpen(PlainConnector):
    """Leaves a file open, which the harness does not know."""

    kept: ClassVar[list[IO[bytes]]] = []

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.kept.append(Path(os.devnull).open("rb"))  # noqa: SIM115 - the bug


@caught_by("connections_are_given_back")
class OpensAConnectionForEachListing(AbleConnector):
    def list_files(self, partitions, predicate):
        self.client = self.client.source.connect()
        yield from super().list_files(partitions, predicate)


@caught_by("failed_opening_gives_connections_back", "broken_opening_gives_connections_back")
class KeepsTheConnectionWithoutATable(PlainConnector):
    @classmethod
    def open(cls, name, options):
        client = cls.sources[options["source"]].connect()
        opened = super().open(name, options)
        client.close()
        return opened


@caught_by("broken_opening_gives_connections_back")
class KeepsABrokenConnection(PlainConnector):
    @classmethod
    def open(cls, name, options):
        client = cls.sources[options["source"]].connect()
        try:
            opened = super().open(name, options)
        except TableNotFound:
            client.close()
            raise
        client.close()
        return opened
