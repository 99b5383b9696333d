"""Count the calls that a connector makes to its source, and make some of them fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal
from unittest import mock

from splitlib.spi import Requests

Call = Callable[[], Any]
Kind = Literal["catalog", "storage"]


class SourceCalls:
    """Counts the calls to a source, and replaces some of them.

    :meth:`Harness.watch` routes all calls through this object.

    Attributes:
        struck: Number of calls that were replaced.

    Args:
        instead: Function that replaces a call. It receives the original call as its argument. None
            means that no call is replaced.
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
        self.struck = 0
        self._made = Counter[Kind]()
        self._instead, self._at, self._from_then_on = instead, at, from_then_on
        self._lock = threading.Lock()

    @property
    def requests(self) -> Requests:
        """Number of calls to the catalog and to the storage."""
        with self._lock:
            return Requests(self._made["catalog"], self._made["storage"])

    @property
    def made(self) -> int:
        """Total number of calls."""
        return sum(self.requests)

    def catalog(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Make a call to the catalog, or its replacement, and return the result."""
        return self._through("catalog", partial(call, *args, **named))

    def storage(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Make a call to the storage, or its replacement, and return the result."""
        return self._through("storage", partial(call, *args, **named))

    @contextmanager
    def patched(
        self,
        *,
        catalog: Sequence[tuple[Any, str]] = (),
        storage: Sequence[tuple[Any, str]] = (),
    ) -> Iterator[None]:
        """Route functions of the source's clients through this object until the block ends.

        A function is given as a pair: its class or module, and its name. If one of these functions
        calls another one of them, that call is counted twice.

        Args:
            catalog: Functions that call the catalog.
            storage: Functions that list directories, or read files for planning.
        """
        with ExitStack() as stack:
            for passing, methods in ((self.catalog, catalog), (self.storage, storage)):
                for owner, name in methods:
                    method = _passing(passing, getattr(owner, name))
                    stack.enter_context(mock.patch.object(owner, name, method))
            yield

    def _through(self, kind: Kind, whole: Call) -> Any:
        with self._lock:
            self._made[kind] += 1
            made = self._made.total()
            later = self._from_then_on and made > self._at
            instead = self._instead if later or made == self._at else None
            self.struck += instead is not None
        return whole() if instead is None else instead(whole)


def _passing(through: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    # This is a plain function, so that it becomes a method when it is set in a class.
    def passing(*args: Any, **named: Any) -> Any:
        return through(method, *args, **named)

    return passing
