"""Reset objects in forked processes, which lack the parent's threads but inherit held locks."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_renewed: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


class _NativeThreads:
    """Whether obstore has started its threads. A process cannot start them twice."""

    started = False
    are_lost = False


def native_threads_start() -> None:
    """Record that this process uses obstore."""
    _NativeThreads.started = True


def native_threads_are_lost() -> bool:
    """Whether this process was forked after obstore was used. Its calls would hang here."""
    return _NativeThreads.are_lost


def in_forks_of_this(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew(owner)`` in every forked process, before other code runs there."""
    _renewed[owner] = renew


def _in_child() -> None:
    _NativeThreads.are_lost |= _NativeThreads.started
    for owner, renew in list(_renewed.items()):
        renew(owner)


os.register_at_fork(after_in_child=_in_child)
