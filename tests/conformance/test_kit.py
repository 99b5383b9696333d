"""Tests of the kit: a correct connector passes, and every check has its own failure message."""

from __future__ import annotations

import ast
from pathlib import Path

import splitlib
import splitlib_conformance
from tests.conformance.memory_connectors import (
    AbleConnector,
    InlineConnector,
    PinnedConnector,
    PlainConnector,
)
from tests.conformance.memory_harness import PlainHarness
from tests.conformance.planted_bugs.plant import ABILITIES, FEW_TYPES, kit_on

splitlib.register("plain", PlainConnector)
splitlib.register("able", AbleConnector)
splitlib.register("pinned", PinnedConnector)
splitlib.register("inline", InlineConnector)
TestPlain = kit_on("plain", harness=PlainHarness)
TestAble = kit_on("able", ABILITIES)
TestPinned = kit_on("pinned", types=FEW_TYPES)
TestInline = kit_on("inline", ABILITIES, FEW_TYPES)


def test_a_failure_is_told_in_words() -> None:
    """The kit uses ``expect``, because the message of a bare assertion does not help authors."""
    modules = list(Path(str(splitlib_conformance.__file__)).parent.glob("*.py"))
    assert len(modules) > 10
    for path in modules:
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        assert not [node.lineno for node in nodes if isinstance(node, ast.Assert)], path
