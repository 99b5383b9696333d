"""Run the tests with other versions of the dependencies: ``python -m tests.matrix``.

uv creates each environment below ``.venv-matrix``. The environment keeps the report of its last
run. When every environment has a report, the results are written to ``docs/versions.md``.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parents[1]
_VENVS = _HERE / ".venv-matrix"
_TABLE = _HERE / "docs" / "versions.md"
_SHOWN = (
    "pyspark",
    "pyarrow",
    "numpy",
    "pandas",
    "fsspec",
    "s3fs",
    "obstore",
    "pyiceberg",
    "thrift",
)
_TESTS = (
    "tests/unit",
    "tests/conformance/test_files.py",
    "tests/conformance/test_hive.py",
    "tests/conformance/test_iceberg.py",
    "tests/integration/iceberg",
    "tests/integration/scan",
    "tests/integration/storage",
)


@dataclass(frozen=True, slots=True)
class Environment:
    """The packages installed next to splitlib for one run."""

    name: str
    requirements: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """Options of ``uv pip install``."""

    @property
    def python(self) -> Path:
        """Path of the environment's Python interpreter."""
        return _VENVS / self.name.replace(" ", "-") / "bin" / "python"

    @property
    def report(self) -> Path:
        """Path of the JUnit report of the last pytest run in this environment."""
        return self.python.parents[1] / "report.xml"


ENVIRONMENTS = (
    Environment("lower bounds", options=("--resolution", "lowest-direct")),
    # The libraries of AWS Glue 5.0.
    Environment(
        "pyspark 3.5",
        ("pyspark[connect]~=3.5.0", "pyarrow==18.0.0", "numpy==1.26.4", "pandas==2.2.2"),
    ),
    Environment("pyspark 4.0", ("pyspark[connect]~=4.0.0",)),
    Environment("pyspark 4.1", ("pyspark[connect]~=4.1.0",)),
    Environment("pyspark 4.2", ("pyspark[connect]~=4.2.0",)),
    Environment("newest"),
    # Previews and nightly builds have pre-release version numbers.
    Environment("previews", options=("--prerelease", "allow")),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The test results of one environment."""

    environment: Environment
    versions: dict[str, str]
    counts: dict[str, int]
    """Number of passed, failed and skipped tests."""
    failed: tuple[str, ...]
    error: str = ""
    """Reason why no test ran; empty if the tests ran."""

    @property
    def row(self) -> str:
        """This outcome as a row of the Markdown table."""
        versions = (self.versions.get(name, "") for name in _SHOWN)
        counts = self.error or ", ".join(f"{n:,} {what}" for what, n in self.counts.items())
        return f"| {self.environment.name} | {' | '.join(versions)} | {counts} |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("names", nargs="*", help="environments (all): " + ", ".join(_names()))
    options = parser.parse_args(arguments)
    if unknown := set(options.names).difference(_names()):
        parser.error(f"there is no environment {', '.join(sorted(unknown))}")
    chosen = [e for e in ENVIRONMENTS if not options.names or e.name in options.names]
    outcomes = {}
    for environment in chosen:
        print(f"{environment.name} ...", file=sys.stderr, flush=True)
        outcomes[environment] = outcome = _tried(environment)
        print(outcome.row, *outcome.failed, sep="\n  ", flush=True)
    known = [outcomes.get(e) or _outcome(e) for e in ENVIRONMENTS if e.report.exists()]
    if len(known) == len(ENVIRONMENTS):
        _TABLE.write_text(_document(known))
    wrong = [e.name for e, outcome in outcomes.items() if outcome.failed or outcome.error]
    print(f"{len(outcomes)} environments, with failures: {', '.join(wrong) or 'none'}")
    sys.exit(bool(wrong))


def _names() -> list[str]:
    return [environment.name for environment in ENVIRONMENTS]


def _tried(environment: Environment) -> Outcome:
    if error := _install(environment):
        return Outcome(environment, {}, {}, (), f"cannot be installed: {error}")
    environment.report.unlink(missing_ok=True)
    command = [str(environment.python), "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    subprocess.run(
        [*command, f"--junitxml={environment.report}", *_TESTS],
        cwd=_HERE,
        env={**os.environ, "PYSPARK_PYTHON": str(environment.python)},
        check=False,
    )
    return _outcome(environment)


def _outcome(environment: Environment) -> Outcome:
    """Read the result of the last run from its report."""
    versions = _versions(environment)
    if not environment.report.exists():
        return Outcome(environment, versions, {}, (), "the tests did not start")
    cases = list(ET.parse(environment.report).iter("testcase"))
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    counts = {
        "passed": len(cases) - len(failed) - skipped,
        "failed": len(failed),
        "skipped": skipped,
    }
    names = tuple(f"{case.get('classname')}::{case.get('name')}" for case in failed)
    return Outcome(environment, versions, counts, names)


def _install(environment: Environment) -> str:
    """Create the environment and install its packages.

    Returns:
        The error message of the command that failed; empty on success.
    """
    root = environment.python.parents[1]
    uv = [sys.executable, "-m", "uv"]
    commands = (
        [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(root)],
        [
            *(*uv, "pip", "install", "--quiet", "--python", str(environment.python)),
            *environment.options,
            *("-e", ".[dev,s3]", *environment.requirements),
        ],
    )
    for command in commands:
        done = subprocess.run(command, cwd=_HERE, capture_output=True, text=True, check=False)
        if done.returncode:
            return " ".join(done.stderr.split())[-300:]
    return ""


def _versions(environment: Environment) -> dict[str, str]:
    command = [sys.executable, "-m", "uv", "pip", "list", "--python", str(environment.python)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^(\S+)\s+(\S+)", listed, re.MULTILINE))


def _document(outcomes: Sequence[Outcome]) -> str:
    lines = [
        "# Versions",
        "",
        "Written by `make matrix`: the tests that touch other packages most, with other versions",
        "of them. `newest` is what pip installs; `previews` takes what is not released yet, of",
        "every package.",
        "",
        f"| environment | {' | '.join(_SHOWN)} | tests |",
        "|" + "---|" * (len(_SHOWN) + 2),
        *(outcome.row for outcome in outcomes),
    ]
    lines += [
        f"\n- {outcome.environment.name}: {f}" for outcome in outcomes for f in outcome.failed
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
