"""Java methods as Scala functions, so that Scala's collections apply them in one call."""

from __future__ import annotations

from typing import Any


class Functions:
    """Makes functions out of methods and constructors of the JVM behind a gateway."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        self._root = gateway.jvm
        invoke = self._root.java.lang.invoke
        self._lookup = invoke.MethodHandles.publicLookup()
        self._handles = invoke.MethodHandles
        self._proxies = invoke.MethodHandleProxies
        self._for_name = self._root.java.lang.Class.forName

    def method(self, class_: str, name: str, *arguments: str) -> Any:
        """A method handle; its first argument is the object."""
        found = self._for_name(class_).getMethod(name, self._classes(arguments))
        return self._lookup.unreflect(found)

    def constructor(self, class_: str, *arguments: str) -> Any:
        """A method handle that makes an object."""
        found = self._for_name(class_).getConstructor(self._classes(arguments))
        return self._lookup.unreflectConstructor(found)

    def bound(self, handle: Any, position: int, *values: Any) -> Any:
        """A handle with some arguments given."""
        array = self._gateway.new_array(self._root.java.lang.Object, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return self._handles.insertArguments(handle, position, array)

    def then(self, first: Any, second: Any) -> Any:
        """A handle that gives the result of the first to the second."""
        return self._handles.filterReturnValue(first, second)

    def function(self, handle: Any, arity: int = 1) -> Any:
        """A Scala function of a handle."""
        interface = self._for_name(f"scala.Function{arity}")
        return self._proxies.asInterfaceInstance(interface, handle)

    def _classes(self, names: tuple[str, ...]) -> Any:
        array = self._gateway.new_array(self._root.java.lang.Class, len(names))
        for i, name in enumerate(names):
            array[i] = self._for_name(name)
        return array
