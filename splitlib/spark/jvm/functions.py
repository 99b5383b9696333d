"""Java methods as Scala functions, so that Scala's collections apply them in one call."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from splitlib.spark.jvm.gateway import Jvm


class Functions:
    """Makes functions out of methods and constructors; each is looked up once."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        self._handles = jvm.class_("java.lang.invoke.MethodHandles")
        self._proxies = jvm.class_("java.lang.invoke.MethodHandleProxies")
        self._lookup = self._handles.publicLookup()
        self.method = cache(self._method)
        self.constructor = cache(self._constructor)

    def _method(self, class_: str, name: str, *arguments: str) -> Any:
        """A method handle; its first argument is the object."""
        found = self._jvm.reflected(class_).getMethod(name, self._classes(arguments))
        return self.handle(found)

    def _constructor(self, class_: str, *arguments: str) -> Any:
        """A method handle that makes an object."""
        found = self._jvm.reflected(class_).getConstructor(self._classes(arguments))
        return self._lookup.unreflectConstructor(found)

    def declared(self, class_: Any, name: str, *arguments: Any) -> Any:
        """A ``java.lang.reflect.Method``, whoever it is meant for; classes as such or by name."""
        found = class_.getDeclaredMethod(name, self._classes(arguments))
        found.setAccessible(True)
        return found

    def handle(self, method: Any) -> Any:
        """A method handle; its first argument is the object, if there is one."""
        return self._lookup.unreflect(method)

    def bound(self, handle: Any, position: int, *values: Any) -> Any:
        """A handle with some arguments given."""
        array = self._jvm.array("java.lang.Object", len(values))
        for i, value in enumerate(values):
            array[i] = value
        return self._handles.insertArguments(handle, position, array)

    def then(self, first: Any, second: Any) -> Any:
        """A handle that gives the result of the first to the second."""
        return self._handles.filterReturnValue(first, second)

    def function(self, handle: Any, arity: int = 1) -> Any:
        """A Scala function of a handle."""
        interface = self._jvm.reflected(f"scala.Function{arity}")
        return self._proxies.asInterfaceInstance(interface, handle)

    def _classes(self, classes: tuple[Any, ...]) -> Any:
        array = self._jvm.array("java.lang.Class", len(classes))
        for i, class_ in enumerate(classes):
            array[i] = self._jvm.reflected(class_) if isinstance(class_, str) else class_
        return array


@lru_cache(maxsize=1)
def functions_of(jvm: Jvm) -> Functions:
    """The same for the same JVM."""
    return Functions(jvm)
