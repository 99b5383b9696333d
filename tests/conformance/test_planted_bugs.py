"""Each planted bug makes exactly the tests fail that are listed for it.

The kit runs in another process, so its failures do not fail this module.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

import pytest

import splitlib_conformance
from splitlib_conformance import ConnectorConformance
from tests.conformance import planted_bugs
from tests.conformance.planted_bugs.plant import CAUGHT_BY

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_MODULES = [
    importlib.import_module(f"{planted_bugs.__name__}.{module.name}")
    for module in pkgutil.iter_modules(planted_bugs.__path__)
]
_DRAWN = {"test_no_match_is_lost"}
# Two files with the same path have no fixed order.
_BY_CHANCE = {"TestListsTheFirstFileAgain": {"test_same_splits_in_the_same_order"}}
TESTS = frozenset(name for name in dir(ConnectorConformance) if name.startswith("test_"))

Outcomes = dict[str, dict[str, set[str]]]
"""Names of tests, without parameters, by test class and outcome."""


def _run(*arguments: str, report: Path) -> tuple[Outcomes, str]:
    roots = os.pathsep.join(str(_ROOT / root) for root in ("", "connectors", "conformance"))
    run = subprocess.run(
        [*_PYTEST, f"--junitxml={report}", *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": roots},
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes: Outcomes = defaultdict(lambda: defaultdict(set))
    for case in ET.parse(report).iter("testcase"):
        found = {child.tag for child in case} & {"failure", "error", "skipped"}
        outcome = "failed" if found & {"failure", "error"} else "".join(found) or "passed"
        name = str(case.get("name")).partition("[")[0]
        outcomes[str(case.get("classname")).rpartition(".")[2]][outcome].add(name)
    return outcomes, run.stdout


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    report = tmp_path_factory.mktemp("kit") / "report.xml"
    files = [str(module.__file__) for module in _MODULES]
    # in parallel, because many bugs make tests wait for a timeout
    found, _ = _run("-n", "4", *files, report=report)
    return found


@pytest.mark.parametrize("connector", CAUGHT_BY)
def test_planted_bug_is_caught(outcomes: Outcomes, connector: str) -> None:
    failed, expected = outcomes[connector]["failed"], CAUGHT_BY[connector]
    # The examples of a drawn test depend on its source text. Other tests decide if there are any.
    drawn = _DRAWN if expected - _DRAWN else set()
    ignored = drawn | _BY_CHANCE.get(connector, set())
    assert failed - ignored == expected - ignored
    assert outcomes[connector]["passed"]


def test_every_test_of_the_kit_catches_something() -> None:
    assert {test for tests in CAUGHT_BY.values() for test in tests} == TESTS


_LOOPS = """
import splitlib
from tests.conformance.memory_connectors import PlainConnector
from tests.conformance.planted_bugs.plant import FEW_TYPES, kit_on

class RepeatsItsFirstPage(PlainConnector):
    def list_partitions(self, predicate):
        while True:
            yield self.batch_of(self.names(0))

class WaitsForAPage(PlainConnector):
    def list_partitions(self, predicate):
        yield from ()
        while True:
            self.names(0)

splitlib.register("repeats", RepeatsItsFirstPage)
splitlib.register("waits", WaitsForAPage)
TestRepeats, TestWaits = kit_on("repeats", types=FEW_TYPES), kit_on("waits", types=FEW_TYPES)
TestRepeats.time_limit_seconds = TestWaits.time_limit_seconds = 1
"""


def test_a_connector_that_loops_fails_by_name(tmp_path: Path) -> None:
    """Whether kit, engine or Hypothesis calls it, in the main thread or in another one."""
    module = tmp_path / "test_loops.py"
    module.write_text(_LOOPS)
    listing = {"test_every_file_is_read_once", "test_no_partition_is_listed_twice"}
    listing |= {"test_no_match_is_lost", "test_missing_table"}
    chosen = " or ".join(name.removeprefix("test_") for name in listing)
    found, output = _run(str(module), "-k", chosen, report=tmp_path / "report.xml")
    for outcomes in found["TestRepeats"], found["TestWaits"]:
        assert outcomes == {
            "passed": {"test_missing_table"},
            "failed": listing - {"test_missing_table"},
        }, output
    assert "The connector did not finish test_no_match_is_lost[several] within 1 seconds" in output
    assert "in list_partitions" in output


def test_a_loop_without_signals_ends_the_process() -> None:
    """Signals reach the main thread only."""
    code = """
import threading, time
from splitlib_conformance.time_limit import time_limit
def loop_of_the_connector():
    with time_limit(0.1, "test_loop"):
        time.sleep(60)
threading.Thread(target=loop_of_the_connector).start()
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "in loop_of_the_connector" in run.stderr


def test_example_of_the_documentation_works(tmp_path: Path) -> None:
    """The docstring's code runs unchanged. Tests that its harness does not support are skipped."""
    documentation = inspect.getdoc(splitlib_conformance)
    assert documentation is not None
    _, _, rest = documentation.partition("::\n")
    example = tmp_path / "test_example.py"
    example.write_text(textwrap.dedent(rest.partition("\nA connector that")[0]))
    # skip slow property tests, which test_files.py runs on the same connector
    found, output = _run(str(example), "-k", "not no_match_is_lost", report=tmp_path / "report.xml")
    assert set(found["TestFiles"]) == {"passed", "skipped"}, output
