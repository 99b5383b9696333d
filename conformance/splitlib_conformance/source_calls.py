"""Count the calls that a connector makes to its source, and make some of them fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

Call = Callable[[], Any]


class SourceCalls:
    """Counts the calls to a source, and replaces some of them.

    :meth:`Harness.watch` routes all calls through this object.

    Attributes:
        made: Number of calls.
        struck: Number of calls that were replaced.

    Args:
        instead: Function that replaces a call. It receives the original call. None: replace none.
        at: Number of the call to replace, counted from 1.
        from_then_on: Whether to replace all later calls too.
    """

    def __init__(
        self,
        instead: Callable[[Call], Any] | None = None,
        at: int = 1,
        *,
        from_then_on: bool = False,
    ) -> None:
        self.made = 0
        self.struck = 0
        self._instead, self._at, self._from_then_on = instead, at, from_then_on
        self._lock = threading.Lock()

    def through(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Make the call and return its result, or the result of its replacement."""
        whole = partial(call, *args, **named)
        with self._lock:
            self.made += 1
            later = self._from_then_on and self.made > self._at
            instead = self._instead if later or self.made == self._at else None
            self.struck += instead is not None
        return whole() if instead is None else instead(whole)

    @contextmanager
    def patched(self, *methods: tuple[Any, str]) -> Iterator[None]:
        """Route functions of the source's client through this object until the block ends.

        Args:
            methods: Pairs of a class or module and the name of a function in it. If one of the
                functions calls another one of them, that call is counted twice.
        """
        with ExitStack() as stack:
            for owner, name in methods:
                passing = self._passing(getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, passing))
            yield

    def _passing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def passing(*args: Any, **named: Any) -> Any:
            return self.through(method, *args, **named)

        return passing
