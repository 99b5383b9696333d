"""A faulty fsspec filesystem on the local disk, with paths such as ``lying:///path``.

Its operations return changed listings or bytes, are late, hang or fail. An option describes the
fault as text, so that it can also be passed to other processes.
"""

from __future__ import annotations

import asyncio
import errno
import io
import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem
from pyiceberg.io.fsspec import FsspecFileIO

from tests.chaos.strikes import Strikes

PROTOCOL = "lying"
_PREFIX = f"{PROTOCOL}://"

ERRORS: list[Callable[[], BaseException]] = [
    lambda: OSError(errno.EIO, "Input/output error"),
    lambda: OSError(errno.ESTALE, "Stale file handle"),
    lambda: OSError(errno.ETIMEDOUT, "Timed out"),
    lambda: PermissionError(errno.EACCES, "Permission denied"),
    lambda: ConnectionResetError(errno.ECONNRESET, "Reset by peer"),
    TimeoutError,
    lambda: RuntimeError("Event loop is closed"),
    lambda: KeyError("size"),
    asyncio.CancelledError,
]
"""Functions that create the different errors that filesystems raise."""


@dataclass(frozen=True)
class Spec:
    """A fault, and the operations that it affects.

    ``pattern`` is a regular expression for operations such as ``ls PATH``, ``info PATH`` or
    ``open PATH``. ``first`` matching operations succeed. The next ``times`` are affected.
    """

    lie: str
    pattern: str
    seed: int
    deadline_seconds: float
    first: int = 0
    times: int = 1
    number: int = field(default_factory=itertools.count().__next__)
    """Unique number. Equal faults need different texts, because :func:`lies_of` caches by text."""

    def text(self) -> str:
        """Return the fault as a text for the filesystem's option ``lies``."""
        return json.dumps(asdict(self))


class Lies:
    """The fault of one table's filesystem. It affects operations that match its pattern."""

    def __init__(self, spec: Spec) -> None:
        self.strikes = Strikes(spec.pattern, spec.first, spec.times)
        self.let_go = threading.Event()
        """Event that ends hanging operations when it is set."""
        self._spec = spec
        self._rng = random.Random(spec.seed)

    def tell(self, operation: str, path: str) -> str | None:
        """Apply the fault to an operation, which is then late, hangs or fails.

        Other faults change the result of the operation. The caller applies them.

        Returns:
            The name of the fault, or None if the operation is not affected.
        """
        if not self.strikes.hit(f"{operation} {path}"):
            return None
        match self._spec.lie:
            case "late":
                time.sleep(self._rng.uniform(0, 1.5 * self._spec.deadline_seconds))
            case "hang":
                self.let_go.wait()
                raise ConnectionAbortedError("it hung until now")
            case "error":
                raise self._rng.choice(ERRORS)()
            case "gone":
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._spec.lie

    def directory(self, lie: str | None, path: str) -> str:
        """Return the directory to list. With the fault ``swap``, return a random sibling."""
        if lie != "swap":
            return path
        beside = [each.path for each in os.scandir(os.path.dirname(path)) if each.is_dir()]
        return self._rng.choice(beside)

    def listing(self, lie: str | None, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return a listing. With the fault ``left out``, drop one entry."""
        match lie:
            case "left out":
                entries = list(entries)
                del entries[self._rng.randrange(len(entries))]
        return entries

    def content(self, lie: str | None, data: bytes) -> bytes:
        """Return the bytes of a file. Some faults change or shorten them."""
        at = self._rng.randrange(len(data))
        match lie:
            case "short":
                return data[:at]
            case "flip":
                return data[:at] + bytes([data[at] ^ 1 << self._rng.randrange(8)]) + data[at + 1 :]
            case "zeros":  # a disk may return zeros for a block that was never written
                size = self._rng.randint(1, 512)
                return data[:at] + bytes(len(data[at : at + size])) + data[at + size :]
        return data


@cache
def lies_of(text: str) -> Lies:
    """Return the fault that a text describes. Equal texts give the same object."""
    return Lies(Spec(**json.loads(text)))


class LyingFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec is not typed
    """A filesystem on the local disk with a fault.

    Args:
        lies: Description of the fault from :meth:`Spec.text`. Empty for no fault.
        options: Options of the base class of fsspec.
    """

    protocol = PROTOCOL
    root_marker = "/"
    cachable = False

    def __init__(self, lies: str = "", **options: Any) -> None:
        super().__init__(**options)
        self._lies = lies_of(lies) if lies else None
        self._local = LocalFileSystem()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix(_PREFIX).rstrip("/") or "/"

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        """List a directory."""
        path = self._strip_protocol(path)
        lie = self._tell("ls", path)
        if self._lies is not None:
            path = self._lies.directory(lie, path)
        entries = self._local.ls(path, detail=True)
        if self._lies is not None and entries:
            entries = self._lies.listing(lie, entries)
        return entries if detail else [entry["name"] for entry in entries]

    def info(self, path: str, **_: Any) -> Any:
        """Return the properties of a file."""
        path = self._strip_protocol(path)
        self._tell("info", path)
        return self._local.info(path)

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """Open a file. Reads may return changed bytes."""
        path = self._strip_protocol(path)
        if mode != "rb":
            self._local.makedirs(path.rpartition("/")[0], exist_ok=True)
            return open(path, mode)
        lie = self._tell("open", path)
        with open(path, "rb") as file:
            data = file.read()
        if self._lies is not None and data:
            data = self._lies.content(lie, data)
        return io.BytesIO(data)

    def _tell(self, operation: str, path: str) -> str | None:
        return None if self._lies is None else self._lies.tell(operation, path)


fsspec.register_implementation(PROTOCOL, LyingFileSystem, clobber=True)


class LyingFileIO(FsspecFileIO):
    """A PyIceberg FileIO on this filesystem, selected by the property ``py-io-impl``."""

    def get_fs(self, scheme: str, hostname: str | None = None) -> AbstractFileSystem:
        """Return a filesystem for any scheme, with the fault given in the properties."""
        return LyingFileSystem(self.properties.get("lies", ""))


FILE_IO = f"{LyingFileIO.__module__}.{LyingFileIO.__name__}"
"""Value of PyIceberg's property ``py-io-impl``."""
