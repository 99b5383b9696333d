"""Request registered partitions from Glue, with several concurrent requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.config import SplitConfig
from splitlib.errors import CorruptMetadata, SourceUnavailable
from splitlib.filtering.partition_names import bound_values, has_one_spelling, plain_texts
from splitlib.hive import entries
from splitlib.hive.entries import files_each, readable_metadata
from splitlib.hive.partition_files import REF, PartitionFiles
from splitlib.hive.partition_values import NULL_PARTITION, partition_name
from splitlib.model import PartitionBatch, Requests
from splitlib.remote.calls import in_parallel
from splitlib.remote.retry import retrying
from splitlib.spi import Predicate
from splitlib_glue.client import CATALOG, SEGMENTS, GlueClient, InvalidRequest
from splitlib_glue.table import GlueTable, storage_entry

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


class Page(NamedTuple):
    """The partitions in one response."""

    rows: pa.RecordBatch
    """One row per partition: the values of its keys, and the fields of its handle."""
    files_each: float
    """Average number of files per partition, or 0 if unknown."""


class Partitions:
    """The registered partitions of one table. Thread-safe.

    Args:
        client: Client for Glue.
        table: The table.
        files: Assigns a number to each read format. Handles of partitions contain this number.
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
        # Columns of keys are named by the key's position, because a key may have the same name as a
        # field of the partition's handle.
        self._key_columns = [str(position) for position in range(len(self._keys))]
        fields = [(column, pa.string()) for column in self._key_columns]
        self._schema = pa.schema([*fields, *REF])

    @property
    def most_by_values(self) -> int:
        """Maximum number of partitions to request by their values, instead of listing the table."""
        return self._per_request * _MOST_REQUESTS_BY_VALUES

    def by_values(self, values: pa.Table) -> PartitionBatch:
        """Return the partitions that have the given values. Missing partitions are ignored.

        Args:
            values: One row per requested partition, and one column per partition key.
        """
        rows = list(zip(*values.to_pydict().values(), strict=True))
        parts = [rows[at : at + self._per_request] for at in range(0, len(rows), self._per_request)]
        if len(parts) == 1:
            return self._batch(self._with_values(rows), "names")

        def retried(part: Sequence[tuple[str, ...]]) -> list[Page]:
            return retrying(partial(self._with_values, part), SplitConfig())

        return self._batch([*chain(*in_parallel(retried, parts, SEGMENTS))], "names")

    def listed(self, predicate: Predicate) -> PartitionBatch:
        """Return all partitions, or only those that satisfy the conditions that Glue can evaluate.

        The result may contain partitions that the predicate does not match.
        """
        if condition := expression(predicate, self._table.metadata.partition_schema):
            try:
                return self._list(condition)
            except InvalidRequest:
                # Glue may read the name of a partition key as a reserved word. So list all
                # partitions.
                return self._list(None, 1)
        return self._list(None)

    def _list(self, condition: str | None, requests: int = 0) -> PartitionBatch:
        """Request the first page and, if there are more pages, all segments of the table at once.

        A small table takes one request. For a large table, the segments contain the partitions of
        the first page, too. If they do not, or contain a partition twice, then the server does not
        support segments or mixes up responses, or the table is being changed. In this case, the
        table is listed page by page.

        Args:
            condition: Filter expression for Glue, or None.
            requests: Number of requests that were already sent, for the report.

        Raises:
            SourceUnavailable: if listing page by page also returns a partition twice.
        """
        answer = self._client.call("GetPartitions", **self._arguments(condition))
        first, token = self._page(answer), answer.get("NextToken") or None
        asked_for: Literal["all", "prefix"] = "prefix" if condition else "all"
        if token is None:
            return self._batch([first], asked_for, requests)
        segments = partial(self._segment, condition)
        pages = [*chain(*in_parallel(segments, range(SEGMENTS), SEGMENTS))]
        count = self._distinct(pages)
        requests += 1
        if count == _total(pages) == self._distinct([first, *pages]):
            return self._batch(pages, asked_for, requests)
        requests += len(pages) - 1
        pages = [first, *self._segment(condition, None, token)]
        if self._distinct(pages) < _total(pages):
            raise SourceUnavailable("Glue lists a partition twice.")
        return self._batch(pages, asked_for, requests)

    def _distinct(self, pages: Sequence[Page]) -> int:
        """Return the number of partitions with different values."""
        whole = pa.Table.from_batches([page.rows for page in pages])
        return len(whole.group_by(self._key_columns, use_threads=False).aggregate([]))

    def _arguments(self, condition: str | None) -> dict[str, Any]:
        return {
            **self._table.address,
            "TableName": self._table.name,
            "Expression": condition,
            "MaxResults": self._per_request,
            "ExcludeColumnSchema": True,
        }

    def _segment(self, condition: str | None, number: int | None, token: Any = None) -> list[Page]:
        """Return the pages of a segment, or of the whole table, from the page with ``token`` on."""
        segment = {"SegmentNumber": number, "TotalSegments": SEGMENTS}
        arguments = self._arguments(condition)
        if number is not None:
            arguments["Segment"] = segment
        answers = self._client.pages("GetPartitions", "Partitions", token, **arguments)
        return [self._page(answer) for answer in answers]

    def _with_values(self, rows: Sequence[tuple[str, ...]]) -> list[Page]:
        pages = list[Page]()
        while rows:
            answer = self._client.call(
                "BatchGetPartition",
                **self._table.address,
                TableName=self._table.name,
                PartitionsToGet=[{"Values": list(row)} for row in rows],
            )
            pages.append(self._page(answer))
            with readable_metadata("partitions", catalog=CATALOG):
                found = [tuple(each["Values"]) for each in answer["Partitions"]]
                if found and set(found).isdisjoint(rows):
                    raise SourceUnavailable("Glue returns partitions that were not requested.")
                left = [tuple(key["Values"]) for key in answer.get("UnprocessedKeys") or ()]
                if not set(left).issubset(rows):
                    raise CorruptMetadata("Glue returns keys that were not requested.")
            if len(left) >= len(rows):
                error = SourceUnavailable("Glue processes none of the requested partitions.")
                error.is_throttled = True
                raise error
            rows = left
        return pages

    def _page(self, answer: Mapping[str, Any]) -> Page:
        """Convert a response to Arrow columns.

        Raises:
            CorruptMetadata: if required metadata is missing or malformed.
        """
        with readable_metadata("partitions", catalog=CATALOG):
            found = answer["Partitions"]
            columns = list(zip(*map(self._row, found), strict=True)) or [()] * len(self._schema)
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(columns, self._schema, strict=True)
            ]
            each = files_each(one.get("Parameters") or {} for one in found)
            return Page(pa.RecordBatch.from_arrays(arrays, schema=self._schema), each)

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
        pages: Sequence[Page],
        asked_for: Literal["all", "names", "prefix"],
        requests: int = 0,
    ) -> PartitionBatch:
        """Return the partitions of all pages without duplicates, sorted by location.

        In this order, one request to an object store can list several neighbouring directories.
        Glue returns partitions in no particular order.

        Args:
            pages: The pages. Each took one request.
            asked_for: See :class:`PartitionBatch`.
            requests: Number of further requests.

        Raises:
            SourceUnavailable: if a partition has two locations or formats.
        """
        whole = pa.Table.from_batches([page.rows for page in pages])
        found = whole.group_by(whole.column_names, use_threads=False).aggregate([])
        if len(found) > self._distinct(pages):
            raise SourceUnavailable("Glue lists a partition twice, with different locations.")
        found = found.append_column("at", pc.binary_join_element_wise(found["location"], "", "/"))
        order = [("at", "ascending"), *((key, "ascending") for key in self._key_columns)]
        found = found.take(pc.sort_indices(found, sort_keys=order))
        arrays = [found[name].combine_chunks() for name in self._schema.names]
        keys = len(self._keys)
        values = pa.RecordBatch.from_arrays(arrays[:keys], names=list(self._keys))
        refs = pa.StructArray.from_arrays(arrays[keys:], fields=list(REF))
        each = next((page.files_each for page in pages if page.files_each), 0.0)
        took = Requests(catalog=requests + len(pages))
        return PartitionBatch(values, refs, took, files_each=each, asked_for=asked_for)


def _total(pages: Sequence[Page]) -> int:
    return sum(page.rows.num_rows for page in pages)


def expression(predicate: Predicate, keys: pa.Schema) -> str | None:
    """Return a filter expression for Glue, such as ``country IN ('de', 'fr')``, or None.

    The expression contains only string keys, which Glue compares byte by byte. Keys of other types
    are left out, because Glue converts their values by its own rules. Keys with a value that needs
    an escape are left out, too. If no key is left, the result is None.
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
