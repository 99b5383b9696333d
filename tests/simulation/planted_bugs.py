"""Planted bugs in splitlib. The checks of the simulation must find each of them.

``planted_bugs.txt`` lists the replacements in the source of each method. A replaced text must
occur exactly once. Otherwise the bug is outdated, and planting it fails.
"""

from __future__ import annotations
import __future__

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from splitlib.coordination.coordinator import DynamicFileSplitEnumerator
from splitlib.coordination.prefetch import SplitPrefetcher
from splitlib.enumeration.enumerator import DynamicFileEnumerator, ReceivedFilters
from splitlib.enumeration.pipeline import MatchedPartitions, ScanPipeline
from splitlib.remote import retry
from splitlib.remote.calls import BoundedCalls, Call, Task, Workers
from splitlib.remote.pace import Pace
from splitlib.table import Table
from splitlib_hive import client
from splitlib_hive.client import MetastoreClient
from splitlib_hive.connection import DeadlineSocket

_OWNERS = {
    owner.__name__.rpartition(".")[2]: owner
    for owner in (
        *(BoundedCalls, Call, Pace, Task, Workers, retry, Table),
        *(DynamicFileEnumerator, MatchedPartitions, ReceivedFilters, ScanPipeline),
        *(DynamicFileSplitEnumerator, SplitPrefetcher),
        *(MetastoreClient, client, DeadlineSocket),
    )
}
_Bugs = dict[str, Callable[[], AbstractContextManager[None]]]


def _read(text: str) -> _Bugs:
    bugs: _Bugs = {}
    for title, lines in re.findall(r"^([^#+\n-].*)\n((?:[+-].*\n)+)", text, re.MULTILINE):
        what, _, place = title.rpartition(": ")
        owner, _, name = place.partition(".")
        changes = [
            [re.sub(r"^[+-] ?", "", part, flags=re.MULTILINE).removesuffix("\n") for part in pair]
            for pair in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", lines, re.MULTILINE)
        ]
        bugs[what] = partial(_planted, _OWNERS[owner], name, changes)
    return bugs


@contextmanager
def _planted(owner: Any, name: str, changes: list[list[str]]) -> Iterator[None]:
    """Replace texts in the source of ``owner.name`` within the ``with`` block.

    Args:
        owner: Class or module of the function.
        name: Name of the function.
        changes: Pairs of old and new text.
    """
    function = inspect.unwrap(getattr(owner, name))
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {name}"
        source = source.replace(old, new)
    flags = __future__.annotations.compiler_flag
    # The scheduler selects code to interrupt by file name, so the new code keeps the file name.
    code = compile(source, inspect.getfile(function), "exec", flags, dont_inherit=True)
    made: dict[str, Any] = {}
    exec(code, vars(sys.modules[function.__module__]), made)
    with mock.patch.object(owner, name, made[name]):
        yield


BUGS = _read(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))
