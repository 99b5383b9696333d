"""The steps that CONTRIBUTING gives for writing a connector work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import splitlib_conformance

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_a_copy_of_the_reference_passes_the_kit(tmp_path):
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    text = contributing.partition("## A connector in ten minutes")[2].partition("\n## ")[0]
    commands = re.findall(r"^ *\$ (.*)", text, re.MULTILINE)
    assert len(commands) == 2
    (tmp_path / "connectors").symlink_to(ROOT / "connectors")
    run("bash", "-ec", "\n".join(commands), cwd=tmp_path)

    (registered,) = re.findall(r'`(splitlib\.register\("mine", \w+\))`', text)
    # the first indented block of the docstring
    example = re.findall(r"::\n\n((?:    .*\n|\n)+)", str(splitlib_conformance.__doc__))[0]
    example = textwrap.dedent(example)
    named = example.replace('connector = "files"', 'connector = "mine"')
    assert named != example
    imports = "import splitlib\nfrom my_connector import MyConnector\n"
    (tmp_path / "test_mine.py").write_text(f"{imports}{named}\n{registered}\n")
    pytest_there = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert " passed" in run(*pytest_there, "test_mine.py", cwd=tmp_path)


def run(*command, cwd):
    # needed if the package is not installed
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(cwd), *sys.path])}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout
