"""Decoders of untrusted input are run with random changes of valid inputs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.fuzzing.__main__ import TARGETS

RUNS = 400


def in_a_process(target, tmp_path, *arguments):
    """Fuzz a target in a new process, so that a crash does not end all tests."""
    command = [sys.executable, "-m", "tests.fuzzing", target, "--findings", str(tmp_path)]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_but_errors_that_are_documented(target, tmp_path):
    ran = in_a_process(target, tmp_path, "--runs", str(RUNS))
    tried = (tmp_path / f"{target}.now").read_bytes()
    assert ran.returncode == 0, f"{tried!r}\n{ran.stderr[-2000:]}"
    found = re.search(r": ([1-9]\d*) used, ([1-9]\d*) refused", ran.stdout)
    assert found, ran.stdout
    assert int(found[1]) + int(found[2]) > RUNS
