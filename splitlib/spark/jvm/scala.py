"""Convert between Python values and Scala collections, options and functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Final, Never, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from splitlib.spark.jvm.collections import Collections, collections_of
from splitlib.spark.jvm.gateway import Functions, Jvm, jvm_of
from splitlib.spark.jvm.java_handles import (
    Function,
    Items,
    JavaArray,
    JavaObject,
    Option,
    ScalaMap,
    Seq,
)

T = TypeVar("T")

# Maximum number of characters in one response. Even with escapes, the response fits into one packet
# of 8,192 bytes.
_PIECE: Final = 7000
# The last character that has a single UTF-16 code unit. Characters after it have two.
_LAST_OF_ONE_UNIT: Final = 0xFFFF
# Texts with more characters than this are fetched in one response, which is faster for them.
_LONG: Final = 1_000_000


class Scala:
    """Creates objects of Scala's library.

    Args:
        jvm: The session's JVM.
    """

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm
        self._class_tag = cache(self._new_class_tag)

    @cached_property
    def functions(self) -> Functions:
        """Converter of Java methods to Scala functions."""
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
        """Empty ``Seq``."""
        found: Seq[Never] = self.jvm.object_("scala.collection.immutable.Nil")
        return found

    def seq(self, items: Sequence[T]) -> Seq[T]:
        """Return an immutable ``Seq`` of the items."""
        found: Seq[T] = self.nil
        for item in reversed(items):
            found = self.prepended(found, item)
        return found

    @cached_property
    def collections(self) -> Collections:
        """Operations on collections, which differ between Scala 2.12 and later versions."""
        return collections_of(self.jvm)

    def seq_of_array(self, array: JavaArray[T]) -> Seq[T]:
        """Return a ``Seq`` over a Java array, without copying it."""
        return self.collections.seq_of_array(array)

    def prepended(self, items: Seq[T], item: T) -> Seq[T]:
        """Return a ``List`` with another item in front of the others."""
        return self.collections.prepended(items, item)

    def appended(self, items: Seq[T], item: object) -> Seq[T]:
        """Return a ``Seq`` with another item after the others."""
        return self.collections.appended(items, item)

    def updated(self, items: Seq[T], position: int, item: T) -> Seq[T]:
        """Return a ``Seq`` with another item at a position."""
        return self.collections.updated(items, position, item)

    def joined(self, items: Seq[T], others: Items[Any]) -> Seq[T]:
        """Return the items of two collections."""
        return self.collections.joined(items, others)

    def mapped(self, items: Seq[Any], *functions: Function[T]) -> Seq[T]:
        """Return the items, passed through some functions, one after the other."""
        for function in functions:
            items = self.collections.mapped(items, function)
        return items

    def flat_mapped(self, items: Seq[Any], function: Function[Items[T]]) -> Seq[T]:
        """Return the items of the collections that a function returns for the items."""
        return self.collections.flat_mapped(items, function)

    def zipped(self, function: Function[T], *columns: Seq[Any]) -> Seq[T]:
        """Return the results of a function of two or three arguments, one from each column."""
        return self.collections.zipped(function, *columns)

    def positions(self, numbers: pa.Array) -> Seq[int]:
        """Send integers to the JVM in one call, and return them as a ``Seq``."""
        packed = numbers.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(">i4").tobytes()
        array = self.jvm.numbers(len(numbers))
        self.jvm.class_("java.nio.ByteBuffer").wrap(packed).asIntBuffer().get(array)
        return self.seq_of_array(array)

    def array(self, class_: str, items: Items[object]) -> JavaArray[Any]:
        """Copy the items of a Scala collection to a Java array."""
        return items.toArray(self._class_tag(class_))

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

    def text(self, items: Items[object], separator: str = "") -> str:
        """Return the items of a Scala collection as strings, joined by a separator.

        The text is fetched in pieces that fit into one packet. A larger response is delayed by 40
        ms, until its first packet is acknowledged (Nagle's algorithm with delayed
        acknowledgements). About a hundred short responses arrive in this time.
        """
        found = self.jvm.class_("scala.collection.mutable.StringBuilder")()
        self.collections.strict(items).addString(found, "", separator, "")
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


def each(collection: Seq[T]) -> Iterator[T]:
    """Yield the items of a Scala ``Seq``, with one JVM call for each item."""
    for i in range(collection.size()):
        yield collection.apply(i)


def scala_of(spark: SparkSession) -> Scala:
    """Return the Scala objects of a session's JVM. Sessions of one JVM share one instance."""
    return _scala(jvm_of(spark))


@lru_cache(maxsize=1)
def _scala(jvm: Jvm) -> Scala:
    return Scala(jvm)
