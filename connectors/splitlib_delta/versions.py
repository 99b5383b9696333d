"""List the files of a transaction log, and choose those that describe one version.

Each commit is a file of JSON lines, named by its version. A checkpoint replaces all commits up to
its version. It is one Parquet file, several Parquet files, or a file with a UUID in its name that
may refer to further files (sidecars).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from splitlib.errors import CorruptMetadata, SnapshotNotFound, TableNotFound
from splitlib.storage import Storage, modified

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(
    r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})\.parquet|\.parquet|\.[0-9a-fA-F-]{36}\.(?:json|parquet))"
)


class LogFile(NamedTuple):
    """A log file, as listed by the storage."""

    name: str
    """Name of the file in the log directory."""
    size: int
    modified: int
    """Modification time in milliseconds since the epoch, or 0 if unknown."""


class Version(NamedTuple):
    """A version of the table, and the log files that describe it."""

    number: int
    commits: tuple[LogFile, ...]
    """Commits after the checkpoint, newest first."""
    checkpoint: tuple[LogFile, ...]
    """All files of the checkpoint except sidecars. Empty if there is no checkpoint."""


class Log:
    """The commits and complete checkpoints in a table's log directory.

    Args:
        entries: The files in the log directory.
    """

    def __init__(self, entries: Iterable[LogFile]) -> None:
        self.commits: dict[int, LogFile] = {}
        checkpoints: dict[int, dict[tuple[int, str], dict[int, LogFile]]] = defaultdict(dict)
        for entry in sorted(entries):
            if commit := _COMMIT.fullmatch(entry.name):
                self.commits[int(commit[1])] = entry
            elif (found := _CHECKPOINT.fullmatch(entry.name)) and entry.size:
                part, parts = int(found[2] or 1), int(found[3] or 1)
                same = (parts, "" if found[2] else entry.name)
                checkpoints[int(found[1])].setdefault(same, {})[part] = entry
        self._checkpoints = {
            number: tuple(file for _, file in sorted(parts.items()))
            for number, alternatives in checkpoints.items()
            for (total, _), parts in alternatives.items()
            if len(parts) == total == max(parts) and min(parts) == 1
        }

    @classmethod
    def listed(cls, storage: Storage, directory: str) -> Log:
        """List a log directory.

        Raises:
            TableNotFound: if there is no log, or it is empty.
        """
        fs, path = storage.filesystem(directory)
        try:
            listed = fs.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_table(directory) from error
        log = cls(_entry(info) for info in listed if info["type"] != "directory")
        if not log.commits and not log._checkpoints:
            raise _no_table(directory)
        return log

    @property
    def latest(self) -> int:
        """Number of the newest version."""
        return max((*self.commits, *self._checkpoints))

    def version(self, number: int | None = None) -> Version:
        """Return the version ``number`` of the table, or the newest one if it is None.

        Raises:
            SnapshotNotFound: if there is no such version, or its commits were cleaned up.
            CorruptMetadata: if a commit of the newest version is missing.
        """
        wanted = self.latest if number is None else number
        base = max((known for known in self._checkpoints if known <= wanted), default=-1)
        numbers = range(wanted, base, -1)
        is_known = 0 <= wanted <= self.latest
        # Stop at the first gap: a stray file may have a very large number.
        missing = next((n for n in reversed(numbers) if n not in self.commits), None)
        if not is_known or (missing is not None and number is not None):
            raise SnapshotNotFound(
                f"The table has no version {wanted} that can be read.",
                hint=f"the newest version is {self.latest}; old ones are cleaned up.",
            )
        if missing is not None:
            raise CorruptMetadata(f"The log of the table has no commit {missing}.")
        return Version(
            wanted,
            tuple(self.commits[each] for each in numbers),
            self._checkpoints.get(base, ()),
        )


def _entry(info: Mapping[str, Any]) -> LogFile:
    name = str(info["name"]).rstrip("/").rpartition("/")[2]
    return LogFile(name, int(info["size"] or 0), modified(info))


def _no_table(directory: str) -> TableNotFound:
    root = directory.rpartition("/")[0]
    return TableNotFound(
        f"There is no Delta table at {root!r}.",
        hint="check the path: there is no _delta_log in it, or it is empty.",
    )
