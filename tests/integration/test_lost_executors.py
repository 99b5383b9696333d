"""Rows that splitlib computes once and keeps are still there after executors are lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]


@pytest.mark.skipif(sys.platform != "linux", reason="finds executors in /proc")
def test_executors_are_killed_between_and_during_steps(tmp_path: Path) -> None:
    """The steps need a SparkContext of their own, and a process can have only one."""
    program = [sys.executable, "-m", "tests.integration.lost_executors", str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(program, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "between": True,
        "pruned": True,
        "while planning": True,
        "once": True,
        "one of two": True,
        "checkpoint directory": True,
    }
