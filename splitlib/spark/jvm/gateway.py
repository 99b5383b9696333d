"""Names of the JVM, each looked up once: every question costs a third of a millisecond."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Final

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

JVM_ERRORS: Final = (Py4JError, PySparkException)
"""What a call of the JVM raises; the second is what PySpark makes of errors that it knows."""


class Jvm:
    """The JVM behind a gateway."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.class_ = cache(self._class)
        self.object_ = cache(self._object)
        self.reflected = cache(self._reflected)

    def _class(self, name: str) -> Any:
        """A class, for its constructors and static methods."""
        return JavaClass(name, self.gateway._gateway_client)

    def _object(self, name: str) -> Any:
        """A Scala object."""
        return getattr(self._class(f"{name}$"), "MODULE$")

    def _reflected(self, name: str) -> Any:
        """A ``java.lang.Class``."""
        return self.class_("java.lang.Class").forName(name)

    def array(self, name: str, size: int) -> Any:
        """A new array of a class."""
        return self.gateway.new_array(self.class_(name), size)


@lru_cache(maxsize=1)
def jvm_of(gateway: Any) -> Jvm:
    """The same for the same gateway."""
    return Jvm(gateway)
