"""The calls that a connector makes of its source: counted, and made to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest import mock

Call = Callable[[], Any]


class SourceCalls:
    """Every call of a source passes through here while :meth:`Harness.watch` lasts.

    Attributes:
        made: How many calls there were.
        struck: To how many of them something else happened.

    Args:
        instead: What happens instead of a call, which it is given.
        at: To which call it happens, counted from 1.
        from_then_on: Whether it happens to every call after that one, too.
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
        """What ``call`` returns, unless something else happens to it."""
        whole = partial(call, *args, **named)
        with self._lock:
            self.made += 1
            later = self._from_then_on and self.made > self._at
            instead = self._instead if later or self.made == self._at else None
            self.struck += instead is not None
        return whole() if instead is None else instead(whole)

    @contextmanager
    def patched(self, *methods: tuple[Any, str]) -> Iterator[None]:
        """Have calls of the source's client pass through here: all that :meth:`Harness.watch` is.

        Args:
            methods: Classes, or modules, and the names of what is called in them. None of it may
                call another of it, which would be counted twice.
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
