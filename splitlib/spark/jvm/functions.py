"""Java methods as Scala functions, so that Scala's collections apply them in one call."""

from __future__ import annotations

from functools import cache
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
        self.calling = cache(self._calling)

    def _method(self, class_: str, name: str, *arguments: str) -> Any:
        """A method handle; its first argument is the object."""
        found = self._jvm.reflected(class_).getMethod(name, self._classes(arguments))
        return self.handle(found)

    def _constructor(self, class_: str, *arguments: str) -> Any:
        """A method handle that makes an object."""
        found = self._jvm.reflected(class_).getConstructor(self._classes(arguments))
        return self._lookup.unreflectConstructor(found)

    def _calling(self, class_: str, name: str) -> Any:
        """A Scala function that calls a method without arguments."""
        return self.function(self.method(class_, name))

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
        if not position and len(values) == 1:
            return handle.bindTo(values[0])
        array = self._jvm.array_of("java.lang.Object", values)
        return self._handles.insertArguments(handle, position, array)

    def then(self, first: Any, second: Any) -> Any:
        """A handle that gives the result of the first to the second."""
        return self._handles.filterReturnValue(first, second)

    def as_type(self, handle: Any, result: str, *arguments: str) -> Any:
        """A handle of other types, between which values are cast."""
        method_type = self._jvm.class_("java.lang.invoke.MethodType")
        type_ = method_type.methodType(self._jvm.reflected(result), self._classes(arguments))
        return handle.asType(type_)

    def function(self, handle: Any, arity: int = 1) -> Any:
        """A Scala function of a handle."""
        return self.implementing(f"scala.Function{arity}", handle)

    def implementing(self, interface: str, handle: Any) -> Any:
        """An object of an interface of one method, which a handle implements."""
        return self._proxies.asInterfaceInstance(self._jvm.reflected(interface), handle)

    def _classes(self, classes: tuple[Any, ...]) -> Any:
        found = [self._jvm.reflected(c) if isinstance(c, str) else c for c in classes]
        return self._jvm.array_of("java.lang.Class", found)
