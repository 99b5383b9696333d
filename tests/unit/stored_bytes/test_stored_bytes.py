"""This version can read filters and checkpoints that any earlier version wrote."""

from __future__ import annotations

import pytest

from splitlib import DynamicFilteringData, __version__
from splitlib.coordination.checkpoint import decode
from tests.unit.stored_bytes.samples import (
    DIRECTORY,
    FILTERS,
    KNOWN_FILES,
    METADATA,
    PRODUCERS,
    SCAN,
    SPLITS,
    files,
)

FILES = {
    f"{path.parent.name}/{path.name}": path
    for path in sorted(DIRECTORY.glob("*/*"))
    if path.suffix in (".filter", ".checkpoint")
}


def of_kind(suffix):
    return pytest.mark.parametrize("name", [name for name in FILES if name.endswith(suffix)])


def test_those_of_this_version_are_here():
    assert {name for name in FILES if name.startswith(f"{__version__}/")} == {
        f"{__version__}/{name}" for name in files()
    }


@of_kind(".filter")
def test_filters(name):
    found = DynamicFilteringData.from_bytes(FILES[name].read_bytes())
    wanted = FILTERS[FILES[name].stem]
    assert found == wanted
    assert found.schema == wanted.schema
    assert found.exceeds_threshold == wanted.exceeds_threshold


@of_kind(".checkpoint")
def test_checkpoints(name):
    found = decode(FILES[name].read_bytes(), SCAN, METADATA)
    assert [tracked.split for tracked in found.splits] == SPLITS
    assert [tracked.split.hosts for tracked in found.splits] == [split.hosts for split in SPLITS]
    assert [event.producer for event in found.filters] == PRODUCERS
    assert [event.data for event in found.filters] == [
        FILTERS[kind] for kind in ("values", "range", "exceeded")
    ]
    assert (found.complete, found.known_files) == (True, KNOWN_FILES)
