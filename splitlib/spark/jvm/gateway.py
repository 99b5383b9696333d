"""Names of the JVM, each looked up once: every question costs a third of a millisecond."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

JVM_ERRORS: Final = (Py4JError, PySparkException)
"""What a call of the JVM raises; the second is what PySpark makes of errors that it knows."""


class Jvm:
    """The JVM behind a gateway."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self.class_ = cache(self._class)
        self.object_ = cache(self._object)
        self.reflected = cache(self._reflected)

    def _class(self, name: str) -> Any:
        """A class, for its constructors and static methods."""
        return JavaClass(name, self._gateway._gateway_client)

    def _object(self, name: str) -> Any:
        """A Scala object."""
        return getattr(self._class(f"{name}$"), "MODULE$")

    def _reflected(self, name: str) -> Any:
        """A ``java.lang.Class``."""
        return self.class_("java.lang.Class").forName(name)

    def is_a(self, value: Any, class_: str) -> bool:
        """Whether an object is one of a class."""
        return bool(self.reflected(class_).isInstance(value))

    def array(self, class_: str, size: int) -> Any:
        """A new array of a class."""
        return self._gateway.new_array(self.class_(class_), size)

    def array_of(self, class_: str, items: Sequence[Any]) -> Any:
        """A new array of some objects."""
        array = self.array(class_, len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def numbers(self, size: int) -> Any:
        """A new ``int[]``."""
        return self._gateway.new_array(self._gateway.jvm.int, size)


def jvm_of(spark: SparkSession) -> Jvm:
    """The JVM of a session; the same object for the same JVM."""
    return _jvm(spark.sparkContext._gateway)


def has_threads_of_its_own(spark: SparkSession) -> bool:
    """Whether each thread of Python has one of the JVM, which knows what is set for it alone."""
    return isinstance(spark.sparkContext._gateway, ClientServer)


@lru_cache(maxsize=1)
def _jvm(gateway: Any) -> Jvm:
    return Jvm(gateway)
