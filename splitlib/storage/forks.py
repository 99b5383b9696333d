"""Forked processes: a client's threads are not there, and a lock they held is never given back."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_renewed: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


class _NativeThreads:
    """Whether obstore has started its threads, which no process can start a second time."""

    started = False
    are_lost = False


def native_threads_start() -> None:
    """Take note that obstore is used in this process."""
    _NativeThreads.started = True


def native_threads_are_lost() -> bool:
    """Whether this process was forked from one that had used obstore: here, its calls hang."""
    return _NativeThreads.are_lost


def in_forks_of_this(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew`` with ``owner`` in every forked process, before anything else runs there."""
    _renewed[owner] = renew


def _in_child() -> None:
    _NativeThreads.are_lost |= _NativeThreads.started
    for owner, renew in list(_renewed.items()):
        renew(owner)


os.register_at_fork(after_in_child=_in_child)
