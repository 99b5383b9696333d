"""Request registered partitions from Glue, with several concurrent requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from functools import partial
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.errors import CorruptMetadata, SourceError, SourceUnavailable
from splitlib.filtering.partition_names import bound_values, has_one_spelling, plain_texts
from splitlib.hive import entries
from splitlib.hive.entries import REF, PartitionFiles, files_each, readable_metadata
from splitlib.hive.partition_values import NULL_PARTITION, partition_name
from splitlib.model import PartitionBatch, Requests
from splitlib.remote.calls import Workers, current_call
from splitlib.remote.retry import retrying
from splitlib.spi import Predicate
from splitlib_glue.client import SEGMENTS, GlueClient, InvalidRequest
from splitlib_glue.table import CATALOG, GlueTable, storage_entry

T = TypeVar("T")

PER_REQUEST: Final = 1000
"""Glue's limit for the number of partitions per request."""
_MOST_REQUESTS_BY_VALUES: Final = 10
_MOST_CHARACTERS: Final = 2048
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
# Column names that Glue's SQL parser may read as a value or keyword instead of a column.
_NO_COLUMNS: Final = re.compile(
    r"current.*|local.*|sys.*|session.*|true|false|null|user|rownum|unknown|date|time|timestamp|"
    r"interval|default|value|any|all|some|not|exists|case|cast"
)
_POLL_SECONDS: Final = 0.1
_REFS: Final = tuple(field.name for field in REF)


class Partitions:
    """The registered partitions of one table. Thread-safe.

    Args:
        client: Client for Glue.
        table: The table.
        files: Assigns a number to each read format, for the partitions' handles.
        per_request: Maximum number of partitions per request.
    """

    def __init__(
        self, client: GlueClient, table: GlueTable, files: PartitionFiles, per_request: int
    ) -> None:
        self._client = client
        self._table = table
        self._files = files
        self._per_request = per_request
        self._keys = table.metadata.partition_keys

    @property
    def most_by_values(self) -> int:
        """Maximum number of partitions to request by their values, instead of listing the table."""
        return self._per_request * _MOST_REQUESTS_BY_VALUES

    def by_values(self, values: pa.Table) -> PartitionBatch:
        """Return the partitions with the given values. Values without a partition are ignored.

        Args:
            values: One row per requested partition, and one column per partition key.
        """
        rows = [list(row) for row in zip(*values.to_pydict().values(), strict=True)]
        parts = [rows[at : at + self._per_request] for at in range(0, len(rows), self._per_request)]
        if len(parts) == 1:
            pages = list(self._with_values(rows))
        else:
            work = [partial(self._all_with_values, part) for part in parts]
            pages = [page for pages in _in_parallel(work) for page in pages]
        return self._batch(pages, len(pages), "names")

    def listed(self, predicate: Predicate) -> PartitionBatch:
        """Return all partitions, or only those that satisfy the conditions that Glue can evaluate.

        The result may contain partitions that the predicate does not match.
        """
        keys = self._table.metadata.partition_schema
        if condition := expression(predicate, keys):
            try:
                return self._batch(*self._pages(condition), "prefix")
            except InvalidRequest:  # Glue reads the name of a partition key as a reserved word
                pages, requests = self._pages(None)
                return self._batch(pages, requests + 1, "all")
        return self._batch(*self._pages(None), "all")

    def _pages(self, condition: str | None) -> tuple[list[_Page], int]:
        """Request the first page and, if there are more pages, all segments of the table at once.

        A small table takes one request. For a large table, the first page is discarded, because the
        segments contain its partitions, too.

        If a partition is returned twice, the server does not support segments or mixes up
        responses, or the table is being changed. Then the table is listed page by page.

        Returns:
            The pages, and the number of requests.

        Raises:
            SourceUnavailable: if listing page by page also returns a partition twice.
        """
        first = self._page(condition, None, None)
        if first.token is None:
            return [first], 1
        work = [partial(self._segment, condition, number) for number in range(SEGMENTS)]
        pages = [page for pages in _in_parallel(work) for page in pages]
        if not self._has_repeated(pages):
            return pages, 1 + len(pages)
        following = self._segment(condition, None, first.token)
        if self._has_repeated([first, *following]):
            raise SourceUnavailable("Glue lists a partition twice.")
        return [first, *following], 1 + len(pages) + len(following)

    def _has_repeated(self, pages: Sequence[_Page]) -> bool:
        whole = pa.Table.from_batches([page.rows for page in pages])
        keys = whole.column_names[: len(self._keys)]
        return len(whole.group_by(keys, use_threads=False).aggregate([])) < len(whole)

    def _segment(
        self, condition: str | None, number: int | None, token: str | None = None
    ) -> list[_Page]:
        """Return the pages of a segment, starting with the page that the token refers to.

        Args:
            condition: Filter expression for Glue, or None.
            number: Number of the segment, or None for the whole table.
            token: Token of the first page to request, or None to start at the beginning.
        """
        pages, seen = list[_Page](), {token}
        while True:
            page = _retried(partial(self._page, condition, number, token))
            pages.append(page)
            if page.token is None:  # an empty page with a token is not the last one
                return pages
            if page.token in seen:
                raise SourceError("Glue returns the same page of partitions again and again.")
            seen.add(token := page.token)

    def _page(self, condition: str | None, segment: int | None, token: str | None) -> _Page:
        of_segment = None
        if segment is not None:
            of_segment = {"SegmentNumber": segment, "TotalSegments": SEGMENTS}
        answer = self._client.call(
            "get_partitions",
            **self._table.address,
            TableName=self._table.name,
            Expression=condition,
            Segment=of_segment,
            NextToken=token,
            MaxResults=self._per_request,
            ExcludeColumnSchema=True,
        )
        return self._parsed(answer)

    def _all_with_values(self, rows: list[list[str]]) -> list[_Page]:
        return _retried(lambda: list(self._with_values(rows)))

    def _with_values(self, rows: list[list[str]]) -> Iterator[_Page]:
        while rows:
            answer = self._client.call(
                "batch_get_partition",
                **self._table.address,
                TableName=self._table.name,
                PartitionsToGet=[{"Values": row} for row in rows],
            )
            yield self._parsed(answer)
            with readable_metadata("partitions", catalog=CATALOG):
                found = [tuple(each["Values"]) for each in answer["Partitions"]]
                if found and not set(found).intersection(map(tuple, rows)):
                    raise SourceUnavailable("Glue returns the answer to another request.")
                left = [list(key["Values"]) for key in answer.get("UnprocessedKeys") or ()]
                if {*map(tuple, left)}.difference(map(tuple, rows)):
                    raise CorruptMetadata("Glue returns keys that were not requested.")
            if len(left) >= len(rows):
                error = SourceUnavailable("Glue processes none of the requested partitions.")
                error.is_throttled = True
                raise error
            rows = left

    def _parsed(self, answer: Any) -> _Page:
        """Convert a response to a page of Arrow columns.

        Raises:
            CorruptMetadata: if required metadata is missing or malformed.
        """
        with readable_metadata("partitions", catalog=CATALOG):
            found = answer["Partitions"]
            rows = [self._row(each) for each in found]
            columns = zip(*rows, strict=True) if rows else [()] * (len(self._keys) + 2)
            types = [*[pa.string()] * len(self._keys), pa.string(), pa.int32()]
            arrays = [pa.array(c, kind) for c, kind in zip(columns, types, strict=True)]
            names = [*map(str, range(len(self._keys))), *_REFS]
            each = files_each(one.get("Parameters") or {} for one in found)
            batch = pa.RecordBatch.from_arrays(arrays, names=names)
            return _Page(batch, answer.get("NextToken") or None, each)

    def _row(self, partition: Mapping[str, Any]) -> tuple[Any, ...]:
        values, name = partition["Values"], partition.get("TableName")
        if name not in (None, self._table.name):
            raise SourceUnavailable(f"Glue returns a partition of the table {name!r}.")
        if not isinstance(values, list) or len(values) != len(self._keys):
            raise CorruptMetadata(
                f"A partition has the values {values!r}, and the table has the keys "
                f"{', '.join(self._keys)}."
            )
        stored = storage_entry(partition)
        if not stored.location:
            name = partition_name(self._keys, values)
            raise CorruptMetadata("A partition has no location.", partition=name)
        form = entries.read_format(self._table.entry, stored)
        texts = [None if value in ("", NULL_PARTITION) else value for value in values]
        return *texts, stored.location.rstrip("/"), self._files.number(form)

    def _batch(
        self,
        pages: Sequence[_Page],
        requests: int,
        asked_for: Literal["all", "names", "prefix"],
    ) -> PartitionBatch:
        """Return the partitions of all pages without duplicates, sorted by location.

        In this order, one request to an object store can list several neighbouring directories.
        Glue returns partitions in no particular order.
        """
        whole = pa.Table.from_batches([page.rows for page in pages])
        keys = whole.column_names[: len(self._keys)]
        found = whole.group_by(keys, use_threads=False).aggregate(
            [(name, "first") for name in _REFS]
        )
        location = found["location_first"]
        found = found.append_column("at", pc.binary_join_element_wise(location, "", "/"))
        order = [("at", "ascending"), *((key, "ascending") for key in keys)]
        found = found.take(pc.sort_indices(found, sort_keys=order)).combine_chunks()
        arrays = [_array(found[name]) for name in [*keys, *(f"{n}_first" for n in _REFS)]]
        values = pa.RecordBatch.from_arrays(arrays[: len(keys)], names=list(self._keys))
        refs = pa.StructArray.from_arrays(arrays[len(keys) :], fields=list(REF))
        each = next((page.files_each for page in pages if page.files_each), 0.0)
        took = Requests(catalog=requests)
        return PartitionBatch(values, refs, took, files_each=each, asked_for=asked_for)


class _Page:
    """The partitions in one response.

    Args:
        rows: One row per partition.
        token: Token of the next page, or None for the last page.
        files_each: Average number of files per partition, from the partitions' parameters, or 0 if
            unknown.
    """

    def __init__(self, rows: pa.RecordBatch, token: str | None, files_each: float) -> None:
        self.rows, self.token, self.files_each = rows, token, files_each


def expression(predicate: Predicate, keys: pa.Schema) -> str | None:
    """Return a filter expression for Glue, such as ``country IN ('de', 'fr')``, or None.

    The expression contains only string keys, which Glue compares byte by byte, and only values
    without characters that need an escape. Glue converts values of other types by its own rules. If
    no key can be used, the result is None.
    """
    conditions = list[str]()
    for key in keys:
        name = key.name.lower()
        if not has_one_spelling(key) or not _NAME.fullmatch(name) or _NO_COLUMNS.fullmatch(name):
            continue
        texts = plain_texts(bound_values(predicate, key.name))
        if texts is not None and len(texts):
            values = ", ".join(f"'{text}'" for text in sorted(texts.to_pylist()))
            conditions.append(f"{name} IN ({values})")
    while conditions and len(" AND ".join(conditions)) > _MOST_CHARACTERS:
        conditions.remove(max(conditions, key=len))
    return " AND ".join(conditions) or None


def _in_parallel(work: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions in threads within the current call's deadline, and return their results.

    Raises:
        SourceUnavailable: if the deadline has passed, or the call was abandoned.
    """
    outer = current_call()
    with Workers(SEGMENTS, "splitlib-glue") as workers:
        seconds = 0.0 if outer is None else outer.remaining_seconds()
        tasks = [workers.submit(each, seconds) for each in work]
        pending = {task.outcome for task in tasks}
        while pending:
            done, pending = wait(pending, _POLL_SECONDS, FIRST_EXCEPTION)
            for outcome in done:
                outcome.result()
            if outer and (outer.abandoned.is_set() or not outer.remaining_seconds()):
                raise SourceUnavailable("The partitions were not listed in time.")
        return [task.outcome.result() for task in tasks]


def _retried(call: Callable[[], T]) -> T:
    """Call a function with retries. The engine itself could only repeat the whole listing."""
    return retrying(call, SplitConfig())


def _array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
