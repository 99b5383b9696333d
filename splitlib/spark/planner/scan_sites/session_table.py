"""Partitions of a table of the session's own catalog: names first, then the few that match.

Whatever Spark is configured with is asked, through the session's catalog: a metastore with its
security, a vendor's client, the in-memory catalog of a plain local session.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from splitlib.hive.partition_values import NULL_PARTITION, parse, split_names
from splitlib.hive.types import from_spark_json
from splitlib.redaction import get_logger
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.hive_client import HivePartitions
from splitlib.spark.sql_text import bare_literals, quoted

_log = get_logger(__name__)

# The values in one filter: some metastores refuse more (one on Derby refuses 200).
_VALUES_PER_FILTER = 50
# So many are asked for one by one before a filter is tried, which a metastore may refuse.
_FEW = 4

_PARTITION = "org.apache.spark.sql.catalyst.catalog.CatalogTablePartition"
_MAP = "scala.collection.immutable.Map"
_STRUCT = "org.apache.spark.sql.types.StructType"


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

    def __init__(self, catalyst: Catalyst, table: Any) -> None:
        self._catalyst = catalyst
        self._identifier = table.identifier()
        self._partition_schema = table.partitionSchema()
        self._catalog = catalyst.session.sessionState().catalog()
        self._lock = threading.Lock()
        """Whoever comes second waits for the same answer."""
        self._names: tuple[pa.Array, pa.RecordBatch] | None = None
        self._fetched: dict[str, _Fetched] = {}
        self._hive_partitions = cache(lambda: HivePartitions.of(catalyst, table))
        self._listing = threading.Lock()
        self._indexes: dict[bytes, Any] = {}
        self.schema = from_spark_json(json.loads(self._partition_schema.json()))
        """The partition columns."""
        self.name = str(self._identifier.unquotedString())
        self.requests = 0
        """To the catalog."""

    def prefetch(self) -> None:
        """Ask for the names, and for the way to partitions, in whatever thread."""
        self.names()
        with self._lock:
            self._hive_partitions()

    def names(self) -> tuple[pa.Array, pa.RecordBatch]:
        """All partition names, and the text of their values, a column per key."""
        with self._lock:
            if self._names is None:
                found = self._catalog.listPartitionNames(self._identifier, self._catalyst.none)
                self.requests += 1
                # control characters are escaped in a name: a line each
                text = found.mkString("\n")
                names = pa.array(text.split("\n") if text else [], pa.string())
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
        found = self._catalyst.seq([])
        for fetched, some in chosen.items():
            part = fetched.partitions
            if len(some) < fetched.size:
                fetched.positions = fetched.positions or self._positions(part)
                numbers = pa.array([fetched.positions[name] for name in some])
                part = self._catalyst.positions(numbers).map(part)
            found = found.appendedAll(part)
        return found

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
        partitions = self._by_name(names)
        if partitions is not None and partitions.size() == len(names):
            self._fetched |= dict.fromkeys(names, _Fetched(partitions, len(names)))
            return
        self._keep(partitions, names)
        missing = [name for name in names if name not in self._fetched]
        if len(missing) > _FEW:
            for offset in range(0, len(missing), _VALUES_PER_FILTER):
                some = missing[offset : offset + _VALUES_PER_FILTER]
                self._keep(self._by_filter(some), some)
        for name in missing:
            if name not in self._fetched:
                partition = self._catalog.getPartition(self._identifier, self._spec(name))
                self.requests += 1
                self._fetched[name] = _Fetched(self._catalyst.seq([partition]), 1)

    def _keep(self, partitions: Any | None, names: Sequence[str]) -> None:
        """What a request has given of the partitions that it asked for, and maybe others."""
        positions = {} if partitions is None else self._positions(partitions)
        fetched = _Fetched(partitions, len(positions), positions)
        self._fetched |= {name: fetched for name in names if name in positions}

    def _by_name(self, names: Sequence[str]) -> Any | None:
        """Partitions by name; None if the catalog does not give them that way."""
        hive = self._hive_partitions()
        if hive is None:
            return None
        try:
            found = hive.by_name(names)
        except (Py4JError, PySparkException):
            _log.debug("The catalog gives no partitions by name.", exc_info=True)
            return None
        self.requests += 1
        return found

    def _by_filter(self, names: Sequence[str]) -> Any | None:
        """Partitions that meet a condition; None where there is none that the catalog takes."""
        condition = self._condition(names)
        if condition is None:
            return None
        relation = self._catalyst.session.table(self._identifier.quotedString())
        plan = relation.where(condition).queryExecution().analyzed()
        self.requests += 1
        try:
            return self._catalog.listPartitionsByFilter(
                self._identifier, self._catalyst.seq([plan.condition()])
            )
        except (Py4JError, PySparkException):
            _log.debug("The catalog refuses %s.", condition, exc_info=True)
            return None

    def _positions(self, partitions: Any) -> dict[str, int]:
        functions = self._catalyst.functions
        spec = functions.method(_PARTITION, "spec")
        utils = "org.apache.spark.sql.execution.datasources.PartitioningUtils"
        name = functions.method(utils, "getPathFragment", _MAP, _STRUCT)
        name = functions.bound(name, 1, self._partition_schema)
        text = partitions.map(functions.function(functions.then(spec, name))).mkString("\n")
        return {name: i for i, name in enumerate(text.split("\n"))} if text else {}

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

    def _spec(self, name: str) -> Any:
        batch = split_names(pa.array([name]), self.schema.names)
        spec = self._catalyst.empty_map
        for key, column in zip(self.schema.names, batch.columns, strict=True):
            value = column[0].as_py()
            spec = spec.updated(key, NULL_PARTITION if value is None else value)
        return spec
