"""Convert between Python values and Scala collections, options and functions.

In Scala 2.12, some collection methods have different names and arguments than in Scala 2.13. Spark
3.5 is published for Scala 2.12 and 2.13, and Spark 4 for 2.13 only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, Never, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from splitlib.remote.calls import cached_property
from splitlib.spark.jvm.gateway import Functions, Jvm, jvm_of
from splitlib.spark.jvm.java_handles import (
    ForeignObject,
    Function,
    Items,
    JavaArray,
    JavaObject,
    MethodHandle,
    Option,
    ScalaMap,
    Seq,
)
from splitlib.spark.jvm.spark_handles import LogicalPlan

T = TypeVar("T")

# Maximum number of characters in one response. Even with escapes, the response fits into one packet
# of 8,192 bytes.
_PIECE: Final = 7000
# The last character that has a single UTF-16 code unit. Characters after it have two.
_LAST_OF_ONE_UNIT: Final = 0xFFFF
# Texts with more characters are fetched in one response, which is faster for long texts.
_LONG: Final = 1_000_000
_ARRAY_SEQ: Final = "scala.collection.immutable.ArraySeq"
_WRAPPED: Final = "scala.collection.mutable.WrappedArray"
_BETWEEN: Final = "\0"
_OBJECTS: Final = "java.lang.Object"


class Scala:
    """Creates objects of Scala's library, with the methods of Scala 2.13 and later."""

    seq_class = "scala.collection.immutable.Seq"
    """Full name of the class ``Seq`` in the signatures of Spark's methods."""
    operations = "scala.collection.SeqOps"
    """Interface that declares the methods ``head`` and ``length`` of a ``Seq``."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        self.class_tag = cache(self._new_class_tag)
        """Return the ``ClassTag`` of a class, given its name."""

    @cached_property
    def functions(self) -> Functions:
        """Converts Java methods to Scala functions."""
        return Functions(self.jvm)

    @cached_property
    def none(self) -> Option[Never]:
        """Scala's ``None``."""
        found: Option[Never] = self.jvm.object_("scala.None")
        return found

    def some(self, value: T) -> Option[T]:
        """Wrap a value in Scala's ``Some``."""
        found: Option[T] = self.jvm.class_("scala.Some")(value)
        return found

    @cached_property
    def nil(self) -> Seq[Never]:
        """The empty ``Seq``."""
        found: Seq[Never] = self.jvm.object_("scala.collection.immutable.Nil")
        return found

    def seq(self, items: Sequence[T]) -> Seq[T]:
        """Return an immutable ``Seq`` of the items."""
        found: Seq[T] = self.nil
        for item in reversed(items):
            found = self.prepended(found, item)
        return found

    def seq_of_array(self, array: JavaArray[T]) -> Seq[T]:
        """Return a ``Seq`` over a Java array, without copying it."""
        found: Seq[T] = self.jvm.class_(_ARRAY_SEQ).unsafeWrapArray(array)
        return found

    def array_to_seq(self) -> MethodHandle:
        """Return a method handle that converts an ``Object[]`` like :meth:`seq_of_array`."""
        handle = self.functions.method(_ARRAY_SEQ, "unsafeWrapArray", _OBJECTS)
        return self.functions.as_type(handle, _ARRAY_SEQ, f"[L{_OBJECTS};")

    def prepended(self, items: Seq[T], item: T) -> Seq[T]:
        """Return a ``List`` of ``item`` followed by ``items``."""
        return items.prepended(item)

    def appended(self, items: Seq[T], item: object) -> Seq[T]:
        """Return a ``Seq`` of ``items`` followed by ``item``."""
        found: Seq[Any] = items.appended(item)
        return found

    def updated(self, items: Seq[T], position: int, item: T) -> Seq[T]:
        """Return a copy of a ``Seq`` with ``item`` at ``position``."""
        found: Seq[T] = items.updated(position, item)
        return found

    def joined(self, items: Seq[T], others: Items[Any]) -> Seq[T]:
        """Return the items of two collections in one ``Seq``."""
        found: Seq[T] = items.appendedAll(others)
        return found

    def mapped(self, items: Seq[Any], *functions: Function[T]) -> Seq[T]:
        """Apply the functions to each item, in this order, and return a ``Seq`` of the results."""
        for function in functions:
            items = self._mapped(items, function)
        return items

    def _mapped(self, items: Seq[Any], function: Function[T]) -> Seq[T]:
        return items.map(function)

    def flat_mapped(self, items: Seq[Any], function: Function[Items[T]]) -> Seq[T]:
        """Concatenate the collections that a function returns for each item into one ``Seq``."""
        return items.flatMap(function)

    def zipped(self, function: Function[T], *columns: Seq[Any]) -> Seq[T]:
        """Call a function with the items at the same position of two or three ``Seq`` objects.

        Return a ``Seq`` of the results.
        """
        first, second, *more = columns
        together = first.lazyZip(second)
        for column in more:
            together = together.lazyZip(column)
        return together.map(function, self._strict)

    @cached_property
    def _strict(self) -> JavaObject:
        """Second argument for ``map`` on zipped collections, which computes all results at once."""
        found: JavaObject = self.jvm.object_("scala.collection.BuildFrom").buildFromIterableOps()
        return found

    def grouped(self, array: JavaArray[Any], function: Function[Any]) -> JavaObject:
        """Return a ``Map`` from each result of a function to the items with this result."""
        operations = self.jvm.object_("scala.collection.ArrayOps")
        found: JavaObject = getattr(operations, "groupBy$extension")(array, function)
        return found

    def strict(self, items: Items[T]) -> Items[T]:
        """Return a collection whose text contains all items.

        In Scala 2.12, the text of a lazy ``Stream`` contains only the items that have been
        computed. So a ``Stream`` is copied there. Any other collection is returned unchanged.
        """
        return items

    def argument_names(self, node: LogicalPlan) -> list[str]:
        """Return the names of the constructor arguments of a case class."""
        return node.productElementNames().mkString(" ").split()

    def positions(self, numbers: pa.Array) -> Seq[int]:
        """Send integers to the JVM in one call, and return them as a ``Seq``."""
        packed = numbers.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(">i4").tobytes()
        array = self.jvm.numbers(len(numbers))
        self.jvm.class_("java.nio.ByteBuffer").wrap(packed).asIntBuffer().get(array)
        return self.seq_of_array(array)

    def array(self, class_: str, items: Items[object]) -> JavaArray[Any]:
        """Copy the items of a Scala collection to a Java array."""
        return items.toArray(self.class_tag(class_))

    def _new_class_tag(self, class_: str) -> JavaObject:
        tags = self.jvm.object_("scala.reflect.ClassTag")
        tag: JavaObject = tags.apply(self.jvm.reflected(class_))
        return tag

    def map(self, items: Mapping[str, str]) -> ScalaMap:
        """Return an immutable ``Map`` of the items."""
        found: ScalaMap = self.jvm.object_("scala.collection.immutable.Map").empty()
        for name, value in items.items():
            found = found.updated(name, value)
        return found

    def texts(self, items: Items[object]) -> list[str]:
        """Return a Scala collection's items as strings. No item may contain a null character."""
        return [] if items.isEmpty() else self.text(items, _BETWEEN).split(_BETWEEN)

    def text(self, items: Items[object], separator: str = "") -> str:
        """Return the items of a Scala collection as strings, joined by a separator.

        The text is fetched in pieces that fit into one packet. A larger response is delayed by 40
        ms, until its first packet is acknowledged (Nagle's algorithm with delayed
        acknowledgements). About a hundred short responses arrive in this time.
        """
        found = self.jvm.class_("scala.collection.mutable.StringBuilder")()
        self.strict(items).addString(found, "", separator, "")
        whole = self.jvm.class_("java.lang.StringBuilder")(found)
        size = whole.length()
        step = _PIECE if size <= _LONG else size
        is_plain = size <= step or whole.codePointCount(0, size) == size
        pieces, start = [], 0
        while start < size:
            end = min(start + step, size)
            if end < size and not is_plain and whole.codePointAt(end - 1) > _LAST_OF_ONE_UNIT:
                end -= 1  # do not split a character of two code units
            pieces.append(str(whole.substring(start, end)))
            start = end
        return "".join(pieces)


def each(collection: Seq[T]) -> list[T]:
    """Return the items of a Scala ``Seq``, with one JVM call for each item."""
    return [collection.apply(i) for i in range(collection.size())]


def scala_of(spark: SparkSession) -> Scala:
    """Return the :class:`Scala` of a session's JVM. Sessions in the same JVM share one instance."""
    return _scala(jvm_of(spark))


@lru_cache(maxsize=1)
def _scala(jvm: Jvm) -> Scala:
    try:
        jvm.reflected(_ARRAY_SEQ)
    except Py4JJavaError:
        return _Scala212(jvm)
    return Scala(jvm)


class _Scala212(Scala):
    """Variant of :class:`Scala` for Scala 2.12.

    There, the last argument of most collection methods is a builder, which makes the result.
    """

    seq_class = "scala.collection.Seq"
    operations = "scala.collection.SeqLike"

    @cached_property
    def _builder(self) -> JavaObject:
        """Builder argument that makes the result a ``Vector`` for collections of any class.

        Without this argument, mapping a lazy ``Stream`` returns another ``Stream``, whose text does
        not contain all items.
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

    def array_to_seq(self) -> MethodHandle:
        handle = self.functions.method(_WRAPPED, "make", _OBJECTS)
        return self.functions.as_type(handle, _WRAPPED, f"[L{_OBJECTS};")

    def prepended(self, items: Seq[T], item: T) -> Seq[T]:
        found: Seq[T] = getattr(items, "$colon$colon")(item)
        return found

    def appended(self, items: Seq[T], item: object) -> Seq[T]:
        return self._called(items, "$colon$plus", item)

    def updated(self, items: Seq[T], position: int, item: T) -> Seq[T]:
        return self._called(items, "updated", position, item)

    def joined(self, items: Seq[T], others: Items[Any]) -> Seq[T]:
        return self._called(items, "$plus$plus", others)

    def _mapped(self, items: Seq[Any], function: Function[T]) -> Seq[T]:
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
        # Call the constructor by reflection, since py4j does not pass an array of another class to
        # a parameter of type Object[].
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
