"""Look up JVM classes and objects by name, with a cache. Each call to the JVM takes 0.3 ms."""

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
"""Errors that calls to the JVM raise. PySpark converts some of py4j's errors to its own classes."""


class Jvm:
    """The JVM behind a py4j gateway.

    Args:
        gateway: The gateway of a Spark context.
    """

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self.class_ = cache(self._class)
        self.object_ = cache(self._object)
        self.reflected = cache(self._reflected)

    def _class(self, name: str) -> Any:
        """Return a class, to call its constructors and static methods."""
        return JavaClass(name, self._gateway._gateway_client)

    def _object(self, name: str) -> Any:
        """Return a Scala singleton object."""
        return getattr(self._class(f"{name}$"), "MODULE$")

    def _reflected(self, name: str) -> Any:
        """Return the ``java.lang.Class`` of this name."""
        return self.class_("java.lang.Class").forName(name)

    def is_a(self, value: Any, class_: str) -> bool:
        """Return whether an object is an instance of a class."""
        return bool(self.reflected(class_).isInstance(value))

    def array(self, class_: str, size: int) -> Any:
        """Create an array with elements of a class."""
        return self._gateway.new_array(self.class_(class_), size)

    def array_of(self, class_: str, items: Sequence[Any]) -> Any:
        """Create an array that holds the given items."""
        array = self.array(class_, len(items))
        for i, item in enumerate(items):
            array[i] = item
        return array

    def numbers(self, size: int) -> Any:
        """Create an ``int[]``."""
        return self._gateway.new_array(self._gateway.jvm.int, size)


def jvm_of(spark: SparkSession) -> Jvm:
    """Return the JVM of a session. Sessions of one JVM share one object."""
    return _jvm(spark.sparkContext._gateway)


def has_threads_of_its_own(spark: SparkSession) -> bool:
    """Return whether each Python thread has its own JVM thread, and so its own local settings."""
    return isinstance(spark.sparkContext._gateway, ClientServer)


@lru_cache(maxsize=1)
def _jvm(gateway: Any) -> Jvm:
    return Jvm(gateway)
