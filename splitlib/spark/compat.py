"""Replacements for public functions that PySpark 3.5 lacks.

Each function calls PySpark's own function if it exists, without comparing version numbers. The code
for older versions requires a classic session.
"""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, types
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

VARIANT: Final[tuple[type[DataType], ...]] = tuple(
    getattr(types, name) for name in ("VariantType",) if hasattr(types, name)
)
"""The type VARIANT, as a tuple of one class; empty if this PySpark does not have it."""


CONVERTS_ARROW: Final = hasattr(DataFrame, "toArrow")
"""Whether PySpark converts to and from Arrow tables. Both functions came in the same release, so
one of them shows whether both exist."""
NULL_STRUCTS: Final = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
"""Setting since Spark 4.1: whether a struct is null if the file has none of its fields."""


def setting_of(spark: SparkSession, name: str) -> str | None:
    """Return the value or default of a session setting, or None if Spark has no such setting."""
    try:
        return spark.conf.get(name)
    except (Py4JError, PySparkException):
        return None


def of_jvm(dataset: Any, spark: SparkSession) -> DataFrame:
    """Wrap a JVM ``Dataset`` in a PySpark DataFrame, in a classic session."""
    # Import the module only here, because the Connect-only client of PySpark does not have it.
    try:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    except ModuleNotFoundError:  # PySpark 3.5 has one DataFrame class
        return DataFrame(dataset, spark)
    return ClassicDataFrame(dataset, spark)


def to_arrow(df: DataFrame) -> pa.Table:
    """Return the rows of ``df`` as an Arrow table, like ``DataFrame.toArrow``."""
    if CONVERTS_ARROW:
        return df.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(df.schema)
    own: Any = df
    batches = own._collect_as_arrow()
    if not batches:
        return schema.empty_table()
    columns = pa.Table.from_batches(batches).columns
    typed = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(typed, schema=schema)


def dataframe_of_arrow(spark: SparkSession, table: pa.Table, schema: StructType) -> DataFrame:
    """Return a DataFrame with the rows of ``table``, like ``createDataFrame``.

    Args:
        spark: The session.
        table: The rows, as one batch. A timestamp column must have a time zone if its type in
            ``schema`` has one.
        schema: Names and types of the columns.
    """
    if CONVERTS_ARROW:
        return spark.createDataFrame(table, schema)
    if not table.num_rows:
        return spark.createDataFrame([], schema)
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import to_arrow_schema

    jvm: Any = spark._jvm
    typed = table.cast(to_arrow_schema(schema))
    rows = spark.sparkContext._serialize_to_jvm(
        typed.to_batches(),
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    frame = jvm.PythonSQLUtils.toDataFrame(rows, schema.json(), spark._jsparkSession)
    return of_jvm(frame, spark)


def local_checkpoint(df: DataFrame, level: StorageLevel) -> DataFrame:
    """Compute ``df`` now and keep its rows on the executors, like ``DataFrame.localCheckpoint``."""
    if "storageLevel" in signature(DataFrame.localCheckpoint).parameters:
        return df.localCheckpoint(eager=True, storageLevel=level)
    stored = df.localCheckpoint(eager=False)
    rows = stored._jdf.queryExecution().analyzed().rdd()
    rows.persist(df.sparkSession.sparkContext._getJavaStorageLevel(level))
    rows.count()
    return stored


def try_cast(column: Column, kind: DataType | str) -> Column:
    """Cast ``column``, and return null for invalid values, like ``Column.try_cast``."""
    if hasattr(Column, "try_cast"):
        return column.try_cast(kind)
    session: Any = SparkSession.active()
    package: Any = session._jvm.org.apache.spark.sql
    name = kind if isinstance(kind, str) else kind.json()
    types_ = package.types.DataType
    wanted = types_.fromDDL(name) if isinstance(kind, str) else types_.fromJson(name)
    mode = package.catalyst.expressions.EvalMode.TRY()
    none = session._jvm.scala.Option.empty()
    own: Any = column
    cast = package.catalyst.expressions.Cast(own._jc.expr(), wanted, none, mode)
    return Column(package.Column(cast))


def type_of(ddl: str) -> DataType:
    """Parse a type such as ``int``, or columns such as ``a int, b string``, like ``fromDDL``."""
    if hasattr(types.DataType, "fromDDL"):
        return types.DataType.fromDDL(ddl)
    from pyspark.sql.types import _parse_datatype_string

    return _parse_datatype_string(ddl)


def metadata_column(df: DataFrame, name: str) -> Column:
    """Return a metadata column of ``df``, like ``DataFrame.metadataColumn``."""
    if hasattr(DataFrame, "metadataColumn"):
        return df.metadataColumn(name)
    own: Any = df
    return Column(own._jdf.metadataColumn(name))


def all_settings(spark: SparkSession) -> dict[str, str]:
    """Return all session settings, like ``spark.conf.getAll``."""
    if hasattr(spark.conf, "getAll"):
        return dict(spark.conf.getAll)
    # SET redacts values, so take only the names from its result.
    names = [row["key"] for row in spark.sql("SET").collect()]
    found = {name: spark.conf.get(name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def condition_of(error: object) -> str:
    """Return an error's condition, such as ``TABLE_OR_VIEW_NOT_FOUND``, or "" if it has none.

    PySpark 3.5 calls the condition the error class.
    """
    get = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return "" if get is None else str(get() or "")


def if_empty(rows: DataFrame, other: DataFrame) -> DataFrame:
    """Return ``rows`` if ``other`` is empty, else no rows. One query evaluates both DataFrames."""
    number = F.count(F.lit(1)).alias("number")
    if hasattr(DataFrame, "scalar"):
        return rows.where(other.agg(number).scalar() == 0)
    return rows.crossJoin(other.agg(number).where("number = 0").select())
