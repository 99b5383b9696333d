"""Scala's collections, options and functions, for calls that want those."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from splitlib.spark.jvm.functions import Functions
from splitlib.spark.jvm.gateway import Jvm, jvm_of

# Characters of one answer: with what is escaped in it less than the 8,192 bytes of one packet.
_PIECE: Final = 7000
# Characters beyond this one are two code units each.
_LAST_OF_ONE_UNIT: Final = 0xFFFF
# More than so many are faster in one piece.
_LONG: Final = 1_000_000
_ARRAY_SEQ: Final = "scala.collection.immutable.ArraySeq"


class Scala:
    """Makes objects of Scala's library."""

    def __init__(self, jvm: Jvm) -> None:
        self.jvm = jvm

    @cached_property
    def functions(self) -> Functions:
        """Java methods as Scala functions."""
        return Functions(self.jvm)

    @cached_property
    def none(self) -> Any:
        """Scala's ``None``."""
        return self.jvm.object_("scala.None")

    def some(self, value: Any) -> Any:
        """Scala's ``Some``."""
        return self.jvm.class_("scala.Some")(value)

    @cached_property
    def nil(self) -> Any:
        """The empty ``Seq``."""
        return self.jvm.object_("scala.collection.immutable.Nil")

    def seq(self, items: Sequence[Any]) -> Any:
        """An immutable ``Seq`` of some objects."""
        found = self.nil
        for item in reversed(items):
            found = found.prepended(item)
        return found

    def seq_of_array(self, array: Any) -> Any:
        """An immutable ``Seq`` of what is in a Java array, which is not copied."""
        return self.jvm.class_(_ARRAY_SEQ).unsafeWrapArray(array)

    def positions(self, numbers: pa.Array) -> Any:
        """A ``Seq`` of numbers, copied in one piece."""
        packed = numbers.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(">i4").tobytes()
        array = self.jvm.numbers(len(numbers))
        self.jvm.class_("java.nio.ByteBuffer").wrap(packed).asIntBuffer().get(array)
        return self.seq_of_array(array)

    def array(self, class_: str, items: Any) -> Any:
        """A Java array of the items of a Scala collection."""
        tag = self.jvm.object_("scala.reflect.ClassTag").apply(self.jvm.reflected(class_))
        return items.toArray(tag)

    def map(self, items: Mapping[str, str]) -> Any:
        """An immutable ``Map``."""
        found = self.jvm.object_("scala.collection.immutable.Map").empty()
        for name, value in items.items():
            found = found.updated(name, value)
        return found

    def text(self, items: Any, separator: str = "") -> str:
        """The texts of a Scala collection, one after the other.

        An answer that takes more than one packet of the gateway waits 40 ms for the first to be
        acknowledged (Nagle's algorithm, and delayed acknowledgements), which is longer than it
        takes to fetch a hundred short ones.
        """
        found = self.jvm.class_("scala.collection.mutable.StringBuilder")()
        items.addString(found, "", separator, "")
        whole = self.jvm.class_("java.lang.StringBuilder")(found)
        size = whole.length()
        step = _PIECE if size <= _LONG else size
        is_plain = size <= step or whole.codePointCount(0, size) == size
        pieces, start = [], 0
        while start < size:
            end = min(start + step, size)
            if end < size and not is_plain and whole.codePointAt(end - 1) > _LAST_OF_ONE_UNIT:
                end -= 1  # the character would be cut in two
            pieces.append(str(whole.substring(start, end)))
            start = end
        return "".join(pieces)

    @cached_property
    def build_from(self) -> Any:
        """What a strict collection asks for when it is mapped together with another."""
        return self.jvm.object_("scala.collection.BuildFrom").buildFromIterableOps()


def each(collection: Any) -> Iterator[Any]:
    """The items of a Scala ``Seq``."""
    for i in range(collection.size()):
        yield collection.apply(i)


def scala_of(spark: SparkSession) -> Scala:
    """The Scala of a session's JVM; the same object for the same JVM."""
    return _scala(jvm_of(spark))


@lru_cache(maxsize=1)
def _scala(jvm: Jvm) -> Scala:
    return Scala(jvm)
