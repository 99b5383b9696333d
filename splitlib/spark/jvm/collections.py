"""Operations on Scala's collections, which have other names and arguments in Scala 2.12.

Spark 3.5 is published for Scala 2.12 and 2.13, and Spark 4 for 2.13 only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JJavaError

from splitlib.spark.jvm.gateway import Functions, Jvm
from splitlib.spark.jvm.java_handles import (
    ForeignObject,
    Function,
    Items,
    JavaArray,
    JavaObject,
    MethodHandle,
    Seq,
)
from splitlib.spark.jvm.spark_handles import LogicalPlan

T = TypeVar("T")

_ARRAY_SEQ: Final = "scala.collection.immutable.ArraySeq"
_WRAPPED: Final = "scala.collection.mutable.WrappedArray"
_OBJECTS: Final = "java.lang.Object"


class Collections(ABC):
    """Operations on Scala's collections.

    Args:
        jvm: The session's JVM.
    """

    seq: str
    """Class of ``Seq`` in the signatures of Spark's methods."""
    operations: str
    """Interface with the methods ``head`` and ``length`` of a ``Seq``."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm

    @abstractmethod
    def seq_of_array(self, array: JavaArray[T]) -> Seq[T]:
        """Return a ``Seq`` over a Java array, without copying it."""

    @abstractmethod
    def array_to_seq(self, functions: Functions) -> MethodHandle:
        """Return a handle of the method behind :meth:`seq_of_array`, for an ``Object[]``."""

    @abstractmethod
    def prepended(self, items: Seq[T], item: T) -> Seq[T]:
        """Return a ``List`` with another item in front."""

    @abstractmethod
    def appended(self, items: Seq[T], item: object) -> Seq[T]:
        """Return a ``Seq`` with another item at the end."""

    @abstractmethod
    def updated(self, items: Seq[T], position: int, item: T) -> Seq[T]:
        """Return a ``Seq`` with another item at a position."""

    @abstractmethod
    def joined(self, items: Seq[T], others: Items[Any]) -> Seq[T]:
        """Return the items of two collections."""

    @abstractmethod
    def mapped(self, items: Seq[Any], function: Function[T]) -> Seq[T]:
        """Return the results of a function for each item."""

    @abstractmethod
    def flat_mapped(self, items: Seq[Any], function: Function[Items[T]]) -> Seq[T]:
        """Return the items of the collections that a function returns for each item."""

    @abstractmethod
    def zipped(self, function: Function[T], *columns: Seq[Any]) -> Seq[T]:
        """Return the results of a function of two or three arguments, one from each column."""

    @abstractmethod
    def grouped(self, array: JavaArray[Any], function: Function[Any]) -> JavaObject:
        """Return a ``Map`` from each result of a function to the array of its items."""

    @abstractmethod
    def strict(self, items: Items[T]) -> Items[T]:
        """Return the items as a collection that is not lazy, if its text would lack items."""

    @abstractmethod
    def argument_names(self, node: LogicalPlan) -> list[str]:
        """Return the names of the constructor arguments of a case class."""


class _Current(Collections):
    """Scala 2.13 and later."""

    seq = "scala.collection.immutable.Seq"
    operations = "scala.collection.SeqOps"

    def seq_of_array(self, array: JavaArray[T]) -> Seq[T]:
        found: Seq[T] = self.jvm.class_(_ARRAY_SEQ).unsafeWrapArray(array)
        return found

    def array_to_seq(self, functions: Functions) -> MethodHandle:
        handle = functions.method(_ARRAY_SEQ, "unsafeWrapArray", _OBJECTS)
        return functions.as_type(handle, _ARRAY_SEQ, f"[L{_OBJECTS};")

    def prepended(self, items: Seq[T], item: T) -> Seq[T]:
        return items.prepended(item)

    def appended(self, items: Seq[T], item: object) -> Seq[T]:
        found: Seq[Any] = items.appended(item)
        return found

    def updated(self, items: Seq[T], position: int, item: T) -> Seq[T]:
        found: Seq[T] = items.updated(position, item)
        return found

    def joined(self, items: Seq[T], others: Items[Any]) -> Seq[T]:
        found: Seq[T] = items.appendedAll(others)
        return found

    def mapped(self, items: Seq[Any], function: Function[T]) -> Seq[T]:
        return items.map(function)

    def flat_mapped(self, items: Seq[Any], function: Function[Items[T]]) -> Seq[T]:
        return items.flatMap(function)

    def zipped(self, function: Function[T], *columns: Seq[Any]) -> Seq[T]:
        first, second, *more = columns
        together = first.lazyZip(second)
        for column in more:
            together = together.lazyZip(column)
        return together.map(function, self._strict)

    @cached_property
    def _strict(self) -> JavaObject:
        """Second argument for ``map`` on zipped collections, which makes the result strict."""
        found: JavaObject = self.jvm.object_("scala.collection.BuildFrom").buildFromIterableOps()
        return found

    def grouped(self, array: JavaArray[Any], function: Function[Any]) -> JavaObject:
        operations = self.jvm.object_("scala.collection.ArrayOps")
        found: JavaObject = getattr(operations, "groupBy$extension")(array, function)
        return found

    def strict(self, items: Items[T]) -> Items[T]:
        return items

    def argument_names(self, node: LogicalPlan) -> list[str]:
        return node.productElementNames().mkString(" ").split()


class _Scala212(Collections):
    """Scala 2.12, where a builder is the last argument of most methods."""

    seq = "scala.collection.Seq"
    operations = "scala.collection.SeqLike"

    @cached_property
    def _builder(self) -> JavaObject:
        """Argument that makes the result a ``Vector``, whatever the class of the collection.

        Otherwise, a lazy ``Stream`` gives another one, whose text shows only the first items.
        """
        vectors = self.jvm.object_("scala.collection.immutable.IndexedSeq").canBuildFrom()
        found: JavaObject = self.jvm.object_("scala.collection.package").breakOut(vectors)
        return found

    def _called(self, items: Items[Any], operator: str, *arguments: object) -> Seq[Any]:
        found: Seq[Any] = getattr(items, operator)(*arguments, self._builder)
        return found

    def seq_of_array(self, array: JavaArray[T]) -> Seq[T]:
        found: Seq[T] = self.jvm.class_(_WRAPPED).make(array)
        return found

    def array_to_seq(self, functions: Functions) -> MethodHandle:
        handle = functions.method(_WRAPPED, "make", _OBJECTS)
        return functions.as_type(handle, _WRAPPED, f"[L{_OBJECTS};")

    def prepended(self, items: Seq[T], item: T) -> Seq[T]:
        found: Seq[T] = getattr(items, "$colon$colon")(item)
        return found

    def appended(self, items: Seq[T], item: object) -> Seq[T]:
        return self._called(items, "$colon$plus", item)

    def updated(self, items: Seq[T], position: int, item: T) -> Seq[T]:
        return self._called(items, "updated", position, item)

    def joined(self, items: Seq[T], others: Items[Any]) -> Seq[T]:
        return self._called(items, "$plus$plus", others)

    def mapped(self, items: Seq[Any], function: Function[T]) -> Seq[T]:
        return self._called(items, "map", function)

    def flat_mapped(self, items: Seq[Any], function: Function[Items[T]]) -> Seq[T]:
        return self._called(items, "flatMap", function)

    def zipped(self, function: Function[T], *columns: Seq[Any]) -> Seq[T]:
        number = len(columns)
        together = self.jvm.class_(f"scala.Tuple{number}")(*columns)
        operations = self.jvm.object_(f"scala.runtime.Tuple{number}Zipped")
        found: Seq[T] = getattr(operations, "map$extension")(together, function, self._builder)
        return found

    def grouped(self, array: JavaArray[Any], function: Function[Any]) -> JavaObject:
        class_ = self.jvm.reflected("scala.collection.mutable.ArrayOps$ofRef")
        # Called by reflection, since py4j does not pass an array as one of a superclass.
        constructor, arguments = class_.getConstructors()[0], self.jvm.array_of(_OBJECTS, [array])
        found: JavaObject = constructor.newInstance(arguments).groupBy(function)
        return found

    def strict(self, items: Items[T]) -> Items[T]:
        is_lazy = self.jvm.is_a(items, "scala.collection.immutable.Stream")
        return items.toIndexedSeq() if is_lazy else items

    def argument_names(self, node: LogicalPlan) -> list[str]:
        reflection: ForeignObject = self.jvm.object_(
            "org.apache.spark.sql.catalyst.ScalaReflection"
        )
        names: str = reflection.getConstructorParameterNames(node.getClass()).mkString(",")
        return names.split(",") if names else []


def collections_of(jvm: Jvm) -> Collections:
    """Return the operations for the Scala library of a JVM."""
    try:
        jvm.reflected(_ARRAY_SEQ)
    except Py4JJavaError:
        return _Scala212(jvm)
    return _Current(jvm)
