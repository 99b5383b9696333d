"""Findings about Python, Java and PySpark, on machines that the tests make up."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from splitlib.diagnosis.machine import Finding, Machine, machine_findings, numbers, output_of
from splitlib.diagnosis.session import path_findings

JAVA_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment'


class Made:
    """Makes a machine with packages and programs in a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.outputs: dict[str, str | OSError] = {}
        self.environ: dict[str, str] = {"PATH": str(root / "bin")}

    def program(self, name: str, output: str | OSError) -> str:
        path = self.root / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
        self.outputs[str(path)] = output
        return str(path)

    def pyspark(self, version: str, place: str = "site", *, jars: bool = True) -> None:
        package = self.root / place / "pyspark"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "version.py").write_text(f'__version__: str = "{version}"\n')
        if jars:
            self.spark(package, version)

    def spark(self, home: Path, version: str) -> None:
        (home / "jars").mkdir(parents=True)
        (home / "jars" / f"spark-core_2.13-{version}.jar").touch()

    def findings(
        self, places: Sequence[str] = ("site",), environ: Mapping[str, str] | None = None
    ) -> list[Finding]:
        machine = Machine(
            {**self.environ, **(environ or {})},
            self._output,
            [str(self.root / place) for place in places],
            (3, 11),
        )
        return [*machine_findings(machine), *path_findings(machine)]

    def _output(self, command: Sequence[str]) -> str:
        found = self.outputs[command[0]]
        if isinstance(found, OSError):
            raise found
        return found


@pytest.fixture
def made(tmp_path: Path) -> Made:
    machine = Made(tmp_path)
    machine.program("java", JAVA_17)
    machine.program("python3", "3.11 pyarrow splitlib")
    return machine


def of(findings: Sequence[Finding], check: str) -> Finding:
    found = [finding for finding in findings if finding.check == check]
    assert len(found) == 1, findings
    return found[0]


def test_a_good_machine(made: Made) -> None:
    made.pyspark("4.3.0")
    findings = made.findings()
    assert [f.status for f in findings] == ["good", "good", "good", "good", "note"]
    assert "PySpark 4.3.0" in of(findings, "pyspark").text
    assert "Java 17" in of(findings, "java").text
    assert of(findings, "path").advice == "run: splitlib doctor --spark"


def test_without_pyspark(made: Made) -> None:
    findings = made.findings()
    assert [f.check for f in findings] == ["python", "pyspark"]
    assert "pip install 'splitlib[spark]'" in of(findings, "pyspark").advice


@pytest.mark.parametrize(
    ("pyspark", "output", "status", "text"),
    [
        ("4.3.0", 'java version "1.8.0_372"', "problem", "needs 17 or newer"),
        ("4.3.0", 'openjdk version "11.0.2"', "problem", "needs 17 or newer"),
        ("4.0.1", 'openjdk version "24" 2025-03-18', "note", "made for Java 17 to 21"),
        ("3.5.8", 'java version "1.8.0_372"', "good", "Java 8 is"),
        ("3.5.8", 'openjdk version "21.0.1"', "note", "made for Java 8 to 17"),
        ("4.3.0", OSError("it ended with code 1: no"), "problem", "cannot be run: it ended"),
        ("4.3.0", "Segmentation fault", "problem", "does not print its version"),
    ],
)
def test_java(made: Made, pyspark: str, output: str, status: str, text: str) -> None:
    made.pyspark(pyspark)
    made.program("java", output)
    java = of(made.findings(), "java")
    assert java.status == status
    assert text in java.text
    assert ("JAVA_HOME" in java.advice) == (status != "good")


def test_java_home_comes_before_the_path(made: Made) -> None:
    made.pyspark("4.3.0")
    home = made.root / "jdk"
    (home / "bin").mkdir(parents=True)
    made.outputs[f"{home}/bin/java"] = OSError("No such file or directory")
    java = of(made.findings(environ={"JAVA_HOME": str(home)}), "java")
    assert java.status == "problem"
    assert f"JAVA_HOME is {home}" in java.text


def test_without_java(made: Made) -> None:
    made.pyspark("4.3.0")
    java = of(made.findings(environ={"PATH": str(made.root)}), "java")
    assert (java.status, java.text) == ("problem", "Neither JAVA_HOME nor PATH has Java.")


@pytest.mark.parametrize(
    ("output", "status", "text"),
    [
        ("3.9 pyarrow splitlib", "problem", "This is Python 3.11"),
        ("3.11 pyarrow", "note", "no splitlib"),
        ("3.11", "note", "no pyarrow and no splitlib"),
        ("warning: something\n3.11 pyarrow splitlib", "good", "Workers run Python 3.11"),
        ("", "problem", "cannot be run"),
        (OSError("it did not end within 20 seconds"), "problem", "did not end"),
    ],
)
def test_python_of_the_workers(made: Made, output: str, status: str, text: str) -> None:
    made.pyspark("4.3.0")
    program = made.program("python-of-workers", output)
    worker = of(made.findings(environ={"PYSPARK_PYTHON": program}), "worker python")
    assert worker.status == status
    assert text in worker.text
    assert "(PYSPARK_PYTHON)" in worker.text


def test_a_python_of_the_workers_that_does_not_exist(made: Made) -> None:
    made.pyspark("4.3.0")
    worker = of(made.findings(environ={"PYSPARK_PYTHON": "/no/python"}), "worker python")
    assert worker.status == "problem"
    assert sys.executable in worker.advice


def test_two_pysparks(made: Made) -> None:
    made.pyspark("4.3.0")
    made.pyspark("4.0.0", "other")
    first, second, *_ = (f for f in made.findings(["other", "site"]) if f.check == "pyspark")
    assert first.status == "note"
    assert "imports 4.0.0" in first.text
    assert "4.0.0" in second.text


@pytest.mark.parametrize(
    ("version", "status", "text"),
    [
        ("4.3.1", "good", "SPARK_HOME"),
        ("3.5.1", "problem", "SPARK_HOME is Spark 3.5.1"),
        (None, "problem", "which has no Spark"),
    ],
)
def test_another_spark_in_spark_home(
    made: Made, version: str | None, status: str, text: str
) -> None:
    made.pyspark("4.3.0")
    home = made.root / "spark"
    if version is not None:
        made.spark(home, version)
    pyspark = of(made.findings(environ={"SPARK_HOME": str(home)}), "pyspark")
    assert pyspark.status == status
    assert text in pyspark.text


@pytest.mark.parametrize(
    ("environ", "jars", "text"),
    [
        ({"SPARK_REMOTE": "sc://host"}, True, "Spark Connect"),
        ({}, False, "Spark Connect"),
        ({"PYSPARK_PIN_THREAD": "False"}, True, "PYSPARK_PIN_THREAD"),
        ({"SPLITLIB_SPARK_SCAN": "paths"}, True, "SPLITLIB_SPARK_SCAN"),
    ],
)
def test_what_the_environment_decides_about_the_path(
    made: Made, environ: Mapping[str, str], jars: bool, text: str
) -> None:
    made.pyspark("4.3.0", jars=jars)
    findings = made.findings(environ=environ)
    path = of(findings, "path")
    assert text in path.text
    assert "leave queries to Spark" in path.text
    assert ("connects to a server" in of(findings, "java").text) == (not jars)


def test_versions_as_numbers() -> None:
    assert numbers("4.2.0.dev1") == (4, 2, 0)
    assert numbers("unknown") == ()


def test_programs_are_run() -> None:
    assert output_of([sys.executable, "-c", "print(1)"]) == "1\n"
    with pytest.raises(OSError, match="ended with code 3: why"):
        output_of([sys.executable, "-c", "import sys; print('why'); sys.exit(3)"])
    with pytest.raises(OSError, match="No such file"):
        output_of(["/no/such/program"])
