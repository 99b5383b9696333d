"""Partitions of a table of the session's own catalog: names first, then the few that match.

Whatever Spark is configured with is asked, through the session's catalog: a metastore with its
security, a vendor's client, the in-memory catalog of a plain local session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from splitlib.hive.partition_values import NULL_PARTITION, parse, split_names
from splitlib.hive.types import from_spark_json
from splitlib.spark.jvm.session_catalog import CatalogPartitions
from splitlib.spark.sql_text import bare_literals, quoted

# The values in one filter: some metastores refuse more (one on Derby refuses 200).
_VALUES_PER_FILTER = 50
# So many are asked for one by one before a filter is tried, which a metastore may refuse.
_FEW = 4


@dataclass(slots=True, eq=False)
class _Fetched:
    """The answer of one request."""

    partitions: Any
    """Spark's ``Seq[CatalogTablePartition]``."""
    size: int
    positions: Mapping[str, int] | None = None
    """By name; None = not looked at, as it takes as long as the request."""


class SessionTable:
    """A partitioned table as one query sees it; each answer of the catalog is kept."""

    def __init__(self, catalog: CatalogPartitions) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        """Whoever comes second waits for the same answer."""
        self._names: tuple[pa.Array, pa.RecordBatch] | None = None
        self._fetched: dict[str, _Fetched] = {}
        self._listing = threading.Lock()
        self._indexes: dict[bytes, Any] = {}
        self.schema = from_spark_json(catalog.schema())
        """The partition columns."""
        self.name = catalog.name
        self.requests = 0
        """To the catalog."""

    def prefetch(self) -> None:
        """Ask for the names, and for the way to partitions, in whatever thread."""
        self.names()
        with self._lock:
            self._catalog.prepare()

    def names(self) -> tuple[pa.Array, pa.RecordBatch]:
        """All partition names, and the text of their values, a column per key."""
        with self._lock:
            if self._names is None:
                names = pa.array(self._catalog.names(), pa.string())
                self.requests += 1
                self._names = names, split_names(names, self.schema.names)
            return self._names

    def partitions(self, names: pa.Array) -> Any:
        """Spark's ``Seq[CatalogTablePartition]`` of some partitions, in any order.

        Raises:
            Py4JError: whatever the catalog raises.
            PySparkException: the same, where PySpark has a class for it.
        """
        wanted = names.to_pylist()
        with self._lock:
            missing = [name for name in wanted if name not in self._fetched]
            if missing:
                self._fetch(missing)
        chosen: dict[_Fetched, list[str]] = {}
        for name in wanted:
            chosen.setdefault(self._fetched[name], []).append(name)
        return self._catalog.together(
            (fetched.partitions, self._positions(fetched, some)) for fetched, some in chosen.items()
        )

    def _positions(self, fetched: _Fetched, names: Sequence[str]) -> list[int] | None:
        """Where some partitions stand in an answer; None if they are all of it."""
        if len(names) == fetched.size:
            return None
        if fetched.positions is None:
            fetched.positions = self._by_position(fetched.partitions)
        return [fetched.positions[name] for name in names]

    def listed(self, mask: pa.BooleanArray, index: Callable[[], Any]) -> Any:
        """The file index of some partitions, which all scans that need just these have in common.

        Args:
            mask: A flag per name.
            index: Lists them.
        """
        key = pc.indices_nonzero(mask).to_numpy().tobytes()
        with self._listing:
            if key not in self._indexes:
                self._indexes[key] = index()
            return self._indexes[key]

    def _fetch(self, names: Sequence[str]) -> None:
        partitions = self._catalog.by_name(names)
        self.requests += partitions is not None
        if partitions is not None and self._catalog.count(partitions) == len(names):
            self._fetched |= dict.fromkeys(names, _Fetched(partitions, len(names)))
            return
        self._keep(partitions, names)
        missing = [name for name in names if name not in self._fetched]
        if len(missing) > _FEW:
            for offset in range(0, len(missing), _VALUES_PER_FILTER):
                some = missing[offset : offset + _VALUES_PER_FILTER]
                condition = self._condition(some)
                if condition is not None:
                    self.requests += 1
                    self._keep(self._catalog.by_condition(condition), some)
        for name in missing:
            if name not in self._fetched:
                self._fetched[name] = _Fetched(self._catalog.by_values(self._values(name)), 1)
                self.requests += 1

    def _keep(self, partitions: Any | None, names: Sequence[str]) -> None:
        """What a request has given of the partitions that it asked for, and maybe others."""
        positions = {} if partitions is None else self._by_position(partitions)
        fetched = _Fetched(partitions, len(positions), positions)
        self._fetched |= {name: fetched for name in names if name in positions}

    def _by_position(self, partitions: Any) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._catalog.names_of(partitions))}

    def _condition(self, names: Sequence[str]) -> str | None:
        """SQL that holds for these partitions; None if it cannot be said in plain literals."""
        columns = split_names(pa.array(names, pa.string()), self.schema.names)
        best: str | None = None
        most = 0
        for key, column in zip(self.schema, columns.columns, strict=True):
            texts = pc.unique(column)
            literals = bare_literals(parse(texts, key).values, key.type)
            if literals and (best is None or len(literals) > most):
                # the key with most values tells most
                most = len(literals)
                best = f"{quoted(key.name)} IN ({', '.join(literals)})"
        return best

    def _values(self, name: str) -> dict[str, str]:
        """The text of a partition's values, by key."""
        texts = split_names(pa.array([name]), self.schema.names).to_pylist()[0]
        return {key: NULL_PARTITION if text is None else text for key, text in texts.items()}
