"""Reset objects in forked processes, which do not have the parent's threads.

A lock that another thread held during the fork is never released in the forked process.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_renewed: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


class _NativeThreads:
    """State of obstore's threads, which obstore starts once and cannot start again after a fork."""

    started = False
    are_lost = False
    """Whether this process is a fork of one that had started them."""


def native_threads_start() -> None:
    """Record that this process uses obstore, and so starts its threads."""
    _NativeThreads.started = True


def native_threads_are_lost() -> bool:
    """Return whether this process was forked after obstore was used; its calls would hang."""
    return _NativeThreads.are_lost


def in_forks_of_this(owner: T, renew: Callable[[T], None]) -> None:
    """Register ``renew(owner)`` to be called in every forked process, before other code runs."""
    _renewed[owner] = renew


def _in_child() -> None:
    _NativeThreads.are_lost |= _NativeThreads.started
    for owner, renew in list(_renewed.items()):
        renew(owner)


os.register_at_fork(after_in_child=_in_child)
