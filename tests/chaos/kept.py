"""Store results on disk, so that a long measurement can be stopped and continued."""

from __future__ import annotations

import pickle
from collections.abc import Hashable
from hashlib import blake2b
from pathlib import Path

from splitlib.errors import SplitlibError
from tests.chaos.measure import Row

_ROOT = Path(__file__).parents[2]
_CODE = ("splitlib", "connectors", "tests/chaos")


class KeptRows:
    """Stored results without violations, for the same code and settings.

    Args:
        settings: Settings that change the results, such as the number of runs.
    """

    def __init__(self, *settings: Hashable) -> None:
        digest = blake2b(repr(settings).encode(), digest_size=16)
        for path in sorted(path for root in _CODE for path in (_ROOT / root).rglob("*.py")):
            digest.update(path.read_bytes())
        self._folder = _ROOT / ".chaos" / digest.hexdigest()
        self._folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str) -> Row | None:
        """Return the stored row of a cell. None if there is no stored row."""
        kept = self._path(name)
        return pickle.loads(kept.read_bytes()) if kept.exists() else None

    def add(self, row: Row) -> None:
        """Store a row, unless it has violations."""
        if row.violations:
            return
        for outcome in row.outcomes:
            if outcome.error is not None:  # pickle may not support the error's cause
                outcome.error = SplitlibError(str(outcome.error))
        self._path(row.name).write_bytes(pickle.dumps(row))

    def _path(self, name: str) -> Path:
        return self._folder / name.replace(" / ", "~").replace("/", "-")
