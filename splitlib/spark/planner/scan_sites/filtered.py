"""Scans that splitlib does not list: whoever reads them is handed the keys as a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from splitlib.config import SplitConfig
from splitlib.spark.join_condition import ConditionWriter, Operand
from splitlib.spark.jvm.catalyst import Catalyst
from splitlib.spark.jvm.dataframes import analyzed_plan
from splitlib.spark.jvm.relations import Source
from splitlib.spark.logical_plan import Path
from splitlib.spark.plan_report import FilterUse
from splitlib.spark.planner.join_graph import Comparison
from splitlib.spark.planner.keys import Collected, Keys, Unusable
from splitlib.spark.planner.scan_sites.scan_site import Ids, ScanSite
from splitlib.spark.schema import char_length, is_char_or_varchar
from splitlib.spark.sql_text import column_text, has_variable, sql_type

_COMPUTED: Final = "keys are compared with a computed value."
TOO_MANY_KEYS: Final = "too many keys."


@dataclass(eq=False)
class FilteredScan:
    """One leaf of the analyzed plan, which may stand there several times."""

    catalyst: Catalyst
    leaf: Any
    ids: Ids
    source: Source
    config: SplitConfig
    paths: list[Path] = field(default_factory=list)
    """Where it stands in the plan."""
    qualifier: tuple[str, ...] = ()
    """By what the columns of conditions are qualified; empty but of the target of a command."""

    @cached_property
    def name(self) -> str:
        """Of the table."""
        return self.catalyst.name_of(self.leaf)

    @property
    def is_database(self) -> bool:
        """Whether a database reads it."""
        return self.source == "database"

    @cached_property
    def has_plain_strings(self) -> bool:
        """Whether what reads it is known to compare strings as Spark does."""
        if self.source == "table":
            return self.catalyst.has_plain_strings(self.leaf)
        return self.source == "files"

    @property
    def most_literals(self) -> int:
        """In one condition; in all of them for a database."""
        config = self.config
        return config.condition_literals_jdbc if self.is_database else config.condition_literals

    @cached_property
    def schema(self) -> StructType:
        """Its columns."""
        return self.catalyst.dataframe(self.leaf).schema

    @cached_property
    def names(self) -> Mapping[int | None, str]:
        """The names of the leaf's columns by their ids."""
        return {i: name for name, i in self.ids.items()}

    def operand(self, column: str, kind: pa.DataType) -> Operand | None:
        """What keys of a type are compared with; None if this source might take it otherwise."""
        if pa.types.is_floating(kind):
            return None  # which are sorted in other ways, as to NaN and to -0.0
        of_table, parts = self.schema[column], (*self.qualifier, column)
        if any(has_variable(part) for part in parts):
            return None  # the condition would be about another column
        if char_length(of_table) is not None:
            return None  # is compared with padding, or without, by settings
        if self.is_database and not _is_compared_alike(of_table, kind):
            return None
        name = column_text(self.catalyst.spark, *parts)
        of_keys = from_arrow_type(kind, prefer_timestamp_ntz=True)
        if of_table.dataType == of_keys:
            return Operand(name, of_keys)
        # the cast is the join's own; of whole numbers Spark takes it off again
        return Operand(f"CAST({name} AS {sql_type(of_keys)})", of_keys)

    def reading_nothing(self) -> Any:
        """None: a source's optimizer may see that a scan of it is empty."""
        return None

    def where(self, condition: str) -> Any:
        """The leaf's rows that meet a condition whose columns have no qualifier."""
        return analyzed_plan(self.catalyst.dataframe(self.leaf).where(condition))


def _is_compared_alike(column: StructField, kind: pa.DataType) -> bool:
    """Whether any database compares a column with keys of a type, and as Spark does.

    Of times it does not tell the zone, and CLOB, UUID, JSON and BLOB, some of which no database
    compares with a literal, are strings and bytes to Spark as well.
    """
    if pa.types.is_string(kind):
        return is_char_or_varchar(column)
    comparable = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date)
    return any(is_one(kind) for is_one in comparable)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FilteredSite:
    """A place where such a scan stands, with what the keys say of it, so far as they are known."""

    scan: FilteredScan
    """What stands there."""
    site: ScanSite
    conditions: tuple[str, ...] = ()
    """All of these hold of the rows that are needed here."""
    literals: int = 0
    """How many there are in these."""
    used: tuple[FilterUse, ...] = ()
    """The keys, for the report."""

    @property
    def has_keys(self) -> bool:
        """Whether some keys reach it."""
        return bool(self.conditions)

    def with_conditions(self, plan: Any) -> Self:
        """The same site: what the query itself says of it needs nobody to hand it over."""
        return self

    def pruned_by(self, plan: Any, collected: Sequence[Collected]) -> Self:
        """The same site, of which only what meets the keys is left.

        Args:
            plan: The optimized plan, in which the comparisons stand.
            collected: What is known by now; more may come.
        """
        conditions, used, reasons = list(self.conditions), list(self.used), []
        literals = self.literals
        for one in collected:
            written = self._written(one, literals)
            if written is None:
                reasons.append(_COMPUTED if one.keys.data.domains else TOO_MANY_KEYS)
                continue
            condition, columns, number = written
            literals += number
            keys = one.keys
            described = keys.data.describe()
            conditions.append(condition)
            used.append(FilterUse(columns, described, keys.data.nbytes, keys.seconds))
        return replace(
            self,
            site=self.site.because(*reasons),
            conditions=tuple(conditions),
            literals=literals,
            used=tuple(used),
        )

    def without_keys(self, reason: Unusable) -> Self:
        """The same site, which some keys cannot prune."""
        wants_same_rows = reason.not_deterministic
        site = self.site.without_keys(f"{reason}.", wants_same_rows=wants_same_rows)
        return replace(self, site=site)

    def keys_of(self, plan: Any, comparisons: Sequence[Comparison]) -> Keys | None:
        """None: which of its values are left is not known before it is read."""
        return None

    def _written(self, one: Collected, before: int) -> tuple[str, tuple[str, ...], int] | None:
        """Keys as a condition, the columns in it, and the number of literals.

        None if it would say nothing. A database has to read it together with those ``before``.
        """
        operands: dict[str, Operand] = {}
        columns = []
        for name, comparison in one.by_field.items():
            column = self.scan.names.get(comparison.lineage.column)
            if column is None:
                continue
            operand = self.scan.operand(column, one.keys.data.schema.field(name).type)
            if operand is not None:
                operands[name] = operand
                columns.append(column)
        if not operands:
            return None
        most = self.scan.most_literals - (before if self.scan.is_database else 0)
        writer = ConditionWriter(
            operands,
            most,
            for_database=self.scan.is_database,
            plain_strings=self.scan.has_plain_strings,
            for_command=bool(self.scan.qualifier),
        )
        condition = writer.of(one.keys.data.only(operands)).sql
        return None if condition == "true" else (condition, tuple(columns), writer.literals)
