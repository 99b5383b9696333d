"""Look up JVM classes and objects by name, with a cache, and convert DataFrames to plans and back.

A call to the JVM takes about 0.3 ms, so callers should make few of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

from py4j import java_gateway
from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from splitlib.remote.calls import cached_property
from splitlib.spark.compat import of_jvm
from splitlib.spark.jvm.java_handles import (
    ForeignObject,
    Function,
    JavaArray,
    JavaClass,
    JavaMethod,
    JavaObject,
    Lookup,
    MethodHandle,
    MethodHandleProxies,
    MethodHandles,
)
from splitlib.spark.jvm.spark_handles import (
    BaseRelation,
    InternalRow,
    JvmSession,
    LogicalPlan,
    QueryExecution,
)

T = TypeVar("T")

JVM_ERRORS: Final = (Py4JError, PySparkException)
"""Errors that calls to the JVM raise. PySpark converts some of py4j's errors to its own classes."""


class Jvm:
    """The JVM behind a py4j gateway."""

    def __init__(self, gateway: java_gateway.JavaGateway) -> None:
        self._gateway = gateway
        self.class_ = cache(self._class)
        self.object_ = cache(self._object)
        self.reflected = cache(self._reflected)

    def _class(self, name: str) -> Any:
        """Return a Py4J class, on which constructors and static methods can be called."""
        return _JavaClass(name, self._gateway._gateway_client)

    def _object(self, name: str) -> Any:
        """Return a Scala singleton object."""
        return getattr(self._class(f"{name}$"), "MODULE$")

    def _reflected(self, name: str) -> JavaClass:
        """Return the ``java.lang.Class`` of this name; ``int`` is the primitive type."""
        if name == "int":
            primitive: JavaClass = self.class_("java.lang.Integer").TYPE
            return primitive
        found: JavaClass = self.class_("java.lang.Class").forName(name)
        return found

    @cached_property
    def sql(self) -> str:
        """Package of the Scala classes ``SparkSession`` and ``Dataset`` that PySpark wraps."""
        classic = "org.apache.spark.sql.classic"
        try:
            self.reflected(f"{classic}.SparkSession")
        except Py4JError:
            return classic.rpartition(".")[0]
        return classic

    def is_a(self, value: object, class_: str) -> bool:
        """Return whether an object is an instance of a class."""
        return self.reflected(class_).isInstance(value)

    def array(self, class_: str, size: int) -> JavaArray[Any]:
        """Create a Java array of this class with ``size`` elements."""
        array: JavaArray[Any] = self._gateway.new_array(self.class_(class_), size)
        return array

    def array_of(self, class_: str, items: Sequence[T]) -> JavaArray[T]:
        """Create a Java array of this class with the given items."""
        array = self.array(class_, len(items))
        # In Py4J, each ``array[i] = item`` would make another call, for the array's length.
        arrays = self.class_("java.lang.reflect.Array")
        for i, item in enumerate(items):
            arrays.set(array, i, item)
        return array

    def numbers(self, size: int) -> JavaArray[int]:
        """Create an ``int[]`` with ``size`` elements."""
        array: JavaArray[int] = self._gateway.new_array(self._gateway.jvm.int, size)
        return array


class _JavaClass(java_gateway.JavaClass):  # type: ignore[misc]  # py4j has no types
    """A class that looks up each of its static members once. Py4J looks them up on every call."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        setattr(self, name, found)
        return found


def jvm_of(spark: SparkSession) -> Jvm:
    """Return the JVM of a session. Sessions in the same JVM share one :class:`Jvm`."""
    return _jvm(spark.sparkContext._gateway)


def session_of(spark: SparkSession) -> JvmSession:
    """Return the JVM session that a PySpark session wraps."""
    session: JvmSession = spark._jsparkSession
    return session


def has_threads_of_its_own(spark: SparkSession) -> bool:
    """Return whether each Python thread has its own JVM thread, with its own active session."""
    return isinstance(spark.sparkContext._gateway, ClientServer)


@lru_cache(maxsize=1)
def _jvm(gateway: java_gateway.JavaGateway) -> Jvm:
    return Jvm(gateway)


class Functions:
    """Converts Java methods and constructors to method handles and Scala functions.

    Results are cached.
    """

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._handles: MethodHandles = jvm.class_("java.lang.invoke.MethodHandles")
        self._proxies: MethodHandleProxies = jvm.class_("java.lang.invoke.MethodHandleProxies")
        self._lookup: Lookup = self._handles.publicLookup()
        self.method = cache(self._method)
        self.constructor = cache(self._constructor)
        self.calling = cache(self._calling)
        self.instance_of = cache(self._instance_of)

    def _method(self, class_: str, name: str, *arguments: str) -> MethodHandle:
        """Return the handle of a public method. The first argument is the object to call it on."""
        found = self._jvm.reflected(class_).getMethod(name, self._classes(arguments))
        return self.handle(found)

    def _constructor(self, class_: str, *arguments: str) -> MethodHandle:
        """Return the handle of a public constructor."""
        found = self._jvm.reflected(class_).getConstructor(self._classes(arguments))
        return self._lookup.unreflectConstructor(found)

    def _calling(self, class_: str, name: str) -> Function[Any]:
        """Return a Scala function that calls a no-argument method on the function's argument."""
        return self.function(self.method(class_, name))

    def _instance_of(self, class_: str) -> Function[bool]:
        """Return a Scala function that returns whether its argument is an instance of a class."""
        handle = self.method("java.lang.Class", "isInstance", "java.lang.Object")
        return self.function(self.bound(handle, 0, self._jvm.reflected(class_)))

    def declared(self, class_: JavaClass, name: str, *arguments: JavaClass | str) -> JavaMethod:
        """Return a ``java.lang.reflect.Method`` that may be private, and make it accessible.

        Args:
            class_: The ``Class`` that declares the method.
            name: The name of the method.
            arguments: Types of the arguments, as ``Class`` objects or names.
        """
        found = class_.getDeclaredMethod(name, self._classes(arguments))
        found.setAccessible(True)
        return found

    def handle(self, method: JavaMethod) -> MethodHandle:
        """Return the handle of a ``java.lang.reflect.Method``.

        Unless the method is static, the first argument of the handle is the object to call it on.
        """
        return self._lookup.unreflect(method)

    def bound(self, handle: MethodHandle, position: int, *values: object) -> MethodHandle:
        """Return a handle in which ``values`` replace the arguments that start at ``position``."""
        if not position and len(values) == 1:
            return handle.bindTo(values[0])
        array = self._jvm.array_of("java.lang.Object", values)
        return self._handles.insertArguments(handle, position, array)

    def then(self, first: MethodHandle, second: MethodHandle) -> MethodHandle:
        """Return a handle that calls ``second`` with the result of ``first``."""
        return self._handles.filterReturnValue(first, second)

    def as_type(self, handle: MethodHandle, result: str, *arguments: str) -> MethodHandle:
        """Return a handle that casts the arguments and the result of ``handle`` to these types."""
        method_type = self._jvm.class_("java.lang.invoke.MethodType")
        type_ = method_type.methodType(self._jvm.reflected(result), self._classes(arguments))
        return handle.asType(type_)

    def function(self, handle: MethodHandle, arity: int = 1) -> Function[Any]:
        """Return a Scala function with ``arity`` arguments that calls a handle."""
        interface = self._jvm.reflected(f"scala.Function{arity}")
        made: Function[Any] = self._proxies.asInterfaceInstance(interface, handle)
        return made

    def implementing(self, interface: str, handle: MethodHandle) -> JavaObject:
        """Return an object that implements a one-method interface by calling a handle."""
        made: JavaObject = self._proxies.asInterfaceInstance(self._jvm.reflected(interface), handle)
        return made

    def _classes(self, classes: Sequence[JavaClass | str]) -> JavaArray[JavaClass]:
        found = [self._jvm.reflected(c) if isinstance(c, str) else c for c in classes]
        return self._jvm.array_of("java.lang.Class", found)


def execution_of(df: DataFrame) -> QueryExecution:
    """Return Spark's ``QueryExecution`` of ``df``: its plans, from the analyzed to the executed."""
    execution: QueryExecution = df._jdf.queryExecution()
    return execution


def analyzed_plan(df: DataFrame) -> LogicalPlan:
    """Return the plan of ``df`` with all names resolved, before optimization."""
    return execution_of(df).analyzed()


def internal_rows(df: DataFrame) -> JavaArray[InternalRow]:
    """Execute ``df`` and return its rows as an ``Array[InternalRow]`` in the JVM."""
    return execution_of(df).executedPlan().executeCollect()


def have_same_schema(one: DataFrame, other: DataFrame, *, nullability: bool = True) -> bool:
    """Return whether two DataFrames have equal column names, types and field metadata.

    Args:
        one: First DataFrame.
        other: Second DataFrame.
        nullability: Whether nullability must be equal too.
    """
    schemas = one._jdf.schema(), other._jdf.schema()
    mine, others = schemas if nullability else (schema.asNullable() for schema in schemas)
    return bool(mine.equals(others))


def ran_a_command(df: DataFrame) -> bool:
    """Return whether Spark executed a command when ``df`` was created."""
    execution = execution_of(df)
    # Spark replaces a command that it has executed. The command may be below the root of the plan,
    # as in WITH … INSERT, so compare the whole plans before and after.
    return not execution.commandExecuted().fastEquals(execution.analyzed())


def bloom_filter(hashes: DataFrame, count: int, false_positives: float) -> bytes:
    """Build a Bloom filter of integers and return it as Spark serializes it.

    Args:
        hashes: A DataFrame with one integer column.
        count: Expected number of distinct values.
        false_positives: Probability of a false positive, between 0 and 1.
    """
    made: ForeignObject = hashes._jdf.stat().bloomFilter(hashes.columns[0], count, false_positives)
    stream = jvm_of(hashes.sparkSession).class_("java.io.ByteArrayOutputStream")()
    made.writeTo(stream)
    return bytes(stream.toByteArray())


def dataframe_of_plan(
    spark: SparkSession, plan: LogicalPlan, clone: JvmSession | None = None
) -> DataFrame:
    """Return a DataFrame that runs a resolved plan.

    Args:
        spark: The session of the DataFrame.
        plan: The plan, with all names resolved.
        clone: Clone of the JVM session that runs the plan; None to use the session itself.
    """
    jvm = jvm_of(spark)
    datasets = jvm.class_(f"{jvm.sql}.Dataset")
    return of_jvm(datasets.ofRows(clone or session_of(spark), plan), spark)


def dataframe_of_relation(spark: SparkSession, relation: BaseRelation) -> DataFrame:
    """Return a DataFrame that reads a ``BaseRelation``."""
    return of_jvm(session_of(spark).baseRelationToDataFrame(relation), spark)


def zone_rules(jvm: Jvm, zone: str) -> Callable[[int], tuple[int, int | None]]:
    """Return a function that looks up the UTC offset of a time zone.

    The function receives an instant in seconds since 1970. It returns the offset from UTC at this
    instant, in seconds, and the instant at which the offset next changes (None if it never does).

    Raises:
        Py4JJavaError: if Java does not have the time zone.
    """
    # Spark also accepts the offsets +h:mm and +hh:m, which Java rejects.
    zone = re.sub(r"([+-])(\d):", r"\g<1>0\2:", zone)
    zone = re.sub(r"([+-]\d\d):(\d)$", r"\1:0\2", zone)
    zones, instants = jvm.class_("java.time.ZoneId"), jvm.class_("java.time.Instant")
    rules = zones.of(zone, zones.SHORT_IDS).getRules()

    def at(second: int) -> tuple[int, int | None]:
        instant = instants.ofEpochSecond(second)
        change = rules.nextTransition(instant)
        offset = int(rules.getOffset(instant).getTotalSeconds())
        return offset, None if change is None else int(change.toEpochSecond())

    return at
