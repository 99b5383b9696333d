"""Check Python, Java, PySpark and other installed packages, without importing PySpark."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from splitlib._version import __version__
from splitlib.redaction import redact

GOOD: Final = "good"
NOTE: Final = "note"
PROBLEM: Final = "problem"
_REQUIREMENT: Final = re.compile(
    r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;()@]*)\)?\s*(?:;(.*))?"
)
_EXTRA: Final = re.compile(r"extra\s*==\s*[\"']([^\"']+)[\"']")
_BOUND: Final = re.compile(r"\s*(>=|<=|==|!=|<|>)\s*([\w.]+)\s*")
# Purpose of each extra, as it is worded in findings.
PURPOSES: Final = {
    "azure": "tables on Azure that the driver lists",
    "delta": "the connector delta, for deletion vectors",
    "duckdb": "Table.to_duckdb",
    "gcs": "tables on Google Cloud Storage that the driver lists",
    "glue": "the connector glue, for the AWS Glue Data Catalog",
    "hive": "the connector hive, for a Hive metastore",
    "iceberg": "the connector iceberg, for every catalog that PyIceberg loads",
    "kerberos": "a Hive metastore that requires Kerberos",
    "opentelemetry": "spans of OpenTelemetry",
    "polars": "Table.to_polars",
    "s3": "tables on S3 that the driver lists",
    "spark": "everything that runs in Spark",
}
# Extras that are not reported: those for the demo, for benchmarks and for developers, and ``all``.
_OTHER_EXTRAS: Final = frozenset({"all", "bench", "conformance", "demo", "dev", "docs"})
_SECONDS: Final = 20.0
"""Maximum time that another program may take to print its version, in seconds."""
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_PYSPARK_VERSION: Final = re.compile(r"^__version__\b[^=]*=\s*[\"']([^\"']+)", re.MULTILINE)
_SPARK_CORE: Final = re.compile(r"spark-core_[\d.]+-(.+)\.jar")
# Java versions that Spark supports, according to Spark's documentation. Each entry has the first
# Spark version that it applies to, the oldest Java version and the newest Java version.
_JAVA_OF_SPARK: Final = (((4, 2), 17, 25), ((4, 0), 17, 21), ((0, 0), 8, 17))
_ASK_WORKER: Final = (
    "import sys, importlib.util as u; print('%d.%d' % sys.version_info[:2], "
    "*(name for name in ('pyarrow', 'splitlib') if u.find_spec(name)))"
)


class Finding(NamedTuple):
    """The result of one check: a sentence, and advice for the user.

    Attributes:
        check: Name of the check, such as ``java``.
        status: ``good``; ``note`` for something optional that is missing or was not checked; or
            ``problem``.
        text: The result, as one sentence.
        advice: What the user can do, as one sentence; empty if nothing has to be done.
    """

    check: str
    status: str
    text: str
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a dict for JSON, without credentials."""
        return {name: redact(value) for name, value in self._asdict().items()}

    def __str__(self) -> str:
        advice = f" -> {self.advice}" if self.advice else ""
        return redact(f"{self.status:<7}  {self.check:<14}  {self.text}{advice}")


class Requirement(NamedTuple):
    """A package that splitlib or one of its extras requires."""

    name: str
    bounds: str
    """Supported versions, such as ``>=22,<28``."""
    extra: str
    """Name of the extra; empty if splitlib always requires the package."""

    @classmethod
    def of(cls, line: str) -> Requirement | None:
        """Parse a ``Requires-Dist`` metadata line, or return None if it cannot be parsed."""
        found = _REQUIREMENT.fullmatch(line.strip())
        if found is None:
            return None
        extra = _EXTRA.search(found[3] or "")
        return cls(found[1].lower(), found[2].replace(" ", ""), extra[1] if extra else "")

    def fits(self, version: str) -> bool:
        """Return whether a version is within the bounds. Bounds that do not parse are ignored."""
        return all(_is_within(version, bound) for bound in self.bounds.split(","))


def _is_within(version: str, bound: str) -> bool:
    found = _BOUND.fullmatch(bound)
    if found is None or not numbers(version):
        return True
    width = max(len(numbers(version)), len(numbers(found[2])))
    own, other = ((*numbers(v), *[0] * (width - len(numbers(v)))) for v in (version, found[2]))
    match found[1]:
        case ">=":
            return own >= other
        case "<=":
            return own <= other
        case "<":
            return own < other
        case ">":
            return own > other
        case "==":
            return own == other
    return own != other


def installed_version(name: str) -> str | None:
    """Return the version of an installed package, or None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def own_requirements() -> list[Requirement]:
    """Return the requirements in splitlib's package metadata, or an empty list without metadata."""
    try:
        lines = importlib.metadata.requires("splitlib") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found = map(Requirement.of, lines)
    return [one for one in found if one is not None and one.name != "splitlib"]


def package_findings(
    requirements: Iterable[Requirement],
    version_of: Callable[[str], str | None] = installed_version,
) -> Iterator[Finding]:
    """Yield the findings about package versions, then about extras.

    Args:
        requirements: Packages that splitlib and its extras require.
        version_of: Function that returns the version of a package, or None if it is not installed.
    """
    by_extra: dict[str, list[Requirement]] = defaultdict(list)
    for one in requirements:
        if one.extra not in _OTHER_EXTRAS:
            by_extra[one.extra].append(one)
    if not by_extra:
        text = "splitlib is not installed as a package, so the packages that it needs are unknown."
        yield Finding("packages", NOTE, text, "pip install splitlib")
        return
    versions = {o.name: version_of(o.name) for group in by_extra.values() for o in group}
    yield from _versions(by_extra, versions)
    for extra in sorted(filter(None, by_extra)):
        purpose = PURPOSES.get(extra, "features of this name")
        missing = [one.name for one in by_extra[extra] if versions[one.name] is None]
        if not missing:
            yield Finding(f"extra {extra}", GOOD, f"Installed, for {purpose}.")
            continue
        text = f"{', '.join(missing)} is not installed, for {purpose}."
        advice = f"if you need it, run: pip install 'splitlib[{extra}]'"
        yield Finding(f"extra {extra}", NOTE, text, advice)


def _versions(
    by_extra: dict[str, list[Requirement]], versions: dict[str, str | None]
) -> Iterator[Finding]:
    wrong = dict.fromkeys(
        Finding(
            "packages",
            PROBLEM,
            f"{one.name} {version} is installed, but splitlib needs {one.bounds}.",
            f"run: pip install '{one.name}{one.bounds}'",
        )
        for group in by_extra.values()
        for one in group
        if (version := versions[one.name]) is not None and not one.fits(version)
    )
    for one in by_extra[""]:
        if versions[one.name] is None:
            text, advice = f"{one.name} is not installed.", f"run: pip install '{one.name}'"
            wrong[Finding("packages", PROBLEM, text, advice)] = None
    yield from wrong
    if not wrong:
        shown = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        yield Finding("packages", GOOD, f"The installed versions fit: {shown}.")


def output_of(command: Sequence[str]) -> str:
    """Run a program, and return its output, including stderr.

    Raises:
        OSError: if the program cannot be started, ends with an error, or does not end in time.
    """
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"it did not end within {_SECONDS:g} seconds") from error
    except subprocess.CalledProcessError as error:
        last = error.stdout.strip().rpartition("\n")[2][:200]
        raise OSError(f"it ended with code {error.returncode}: {last}") from error
    return done.stdout


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts about this machine that the checks use. Tests pass their own values."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Environment variables."""
    output_of: Callable[[Sequence[str]], str] = output_of
    """Function that runs a program and returns its output."""
    path: Sequence[str] = field(default_factory=lambda: tuple(sys.path))
    """Directories in which Python looks for packages, in order."""
    python: tuple[int, int] = sys.version_info[:2]
    """Version of the Python that runs splitlib."""

    def which(self, program: str) -> str | None:
        """Return the path of a program, or None if no directory in ``PATH`` has it."""
        return shutil.which(program, path=self.environ.get("PATH", os.defpath))

    @property
    def pysparks(self) -> list[Path]:
        """Directories of the installed ``pyspark`` packages. Python imports the first one."""
        places = (Path(place or ".") / "pyspark" for place in self.path)
        found = dict.fromkeys(p.resolve() for p in places if (p / "__init__.py").is_file())
        return list(found)

    @property
    def pyspark_version(self) -> str | None:
        """Version of the PySpark that Python imports; None if PySpark is not installed."""
        return _version_in(self.pysparks[0]) if self.pysparks else None

    @property
    def has_jars(self) -> bool:
        """Whether Spark's jars are installed. Without them, only Spark Connect works."""
        home = self.environ.get("SPARK_HOME")
        homes = [Path(home)] if home else self.pysparks[:1]
        return any((home / "jars").is_dir() for home in homes)


def numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, such as ``(4, 2, 0)`` for ``4.2.0.dev1``."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def machine_findings(machine: Machine, *, is_running: bool = False) -> Iterator[Finding]:
    """Yield the findings about Python, PySpark, Java, and the Python that Spark's workers use.

    With ``is_running``, a Spark session runs already, and Java is not checked.
    """
    version = ".".join(map(str, machine.python))
    where = Path(__file__).parents[1]
    yield Finding("python", GOOD, f"Python {version} runs splitlib {__version__} from {where}.")
    yield from _pyspark(machine)
    if not machine.pysparks:
        return
    if not is_running:
        yield _java(machine)
    yield _workers(machine)


def _pyspark(machine: Machine) -> Iterator[Finding]:
    found, version = machine.pysparks, machine.pyspark_version
    if not found or version is None:
        yield Finding(
            "pyspark",
            NOTE,
            "PySpark is not installed. splitlib works, except for the parts that need Spark.",
            "for Spark, run: pip install 'splitlib[spark]'",
        )
        return
    if len(found) > 1:
        yield Finding(
            "pyspark",
            NOTE,
            f"There are {len(found)} packages of PySpark: Python imports {version} from {found[0]} "
            f"and ignores {', '.join(map(str, found[1:]))}.",
            "remove the one that you do not need, or correct PYTHONPATH.",
        )
    home = machine.environ.get("SPARK_HOME")
    of_home = _version_in_jars(Path(home)) if home else None
    if home and of_home is None:
        yield Finding(
            "pyspark",
            PROBLEM,
            f"SPARK_HOME is {home}, which has no Spark.",
            f"unset SPARK_HOME to use the Spark of PySpark {version}, or correct it.",
        )
    elif of_home is not None and numbers(of_home)[:2] != numbers(version)[:2]:
        yield Finding(
            "pyspark",
            PROBLEM,
            f"SPARK_HOME is Spark {of_home} in {home}, but Python imports PySpark {version} from "
            f"{found[0]}.",
            f"unset SPARK_HOME, or run: pip install 'pyspark=={of_home}'",
        )
    else:
        jars = f", with the Spark of SPARK_HOME in {home}" if home else ""
        yield Finding("pyspark", GOOD, f"PySpark {version} is in {found[0]}{jars}.")


def _java(machine: Machine) -> Finding:
    if not machine.has_jars:
        text = "Java is not needed: this PySpark has no Spark of its own, and connects to a server."
        return Finding("java", GOOD, text)
    version = machine.pyspark_version or ""
    first, last = next((a, z) for since, a, z in _JAVA_OF_SPARK if numbers(version) >= since)
    wanted = f"install Java {first} to {last}, and set JAVA_HOME to its directory."
    home = machine.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else machine.which("java")
    place = f"JAVA_HOME is {home}, but " if home else ""
    if program is None:
        return Finding("java", PROBLEM, "Neither JAVA_HOME nor PATH has Java.", wanted)
    try:
        shown = machine.output_of([program, "-version"])
    except OSError as error:
        text = f"{place}{program} cannot be run: {error}."
        return Finding("java", PROBLEM, text, wanted)
    found = _JAVA_VERSION.search(shown)
    if found is None:
        return Finding("java", PROBLEM, f"{program} does not print its version.", wanted)
    java, by = int(found[1]), "JAVA_HOME" if home else "PATH"
    text = f"Java {java} is {program}, found through {by}."
    if java < first:
        return Finding("java", PROBLEM, f"{text} Spark {version} needs {first} or newer.", wanted)
    if java > last:
        text += f" Spark {version} is made for Java {first} to {last}."
        return Finding("java", NOTE, text, f"if Spark fails, {wanted}")
    return Finding("java", GOOD, text)


def _workers(machine: Machine) -> Finding:
    given = machine.environ.get("PYSPARK_PYTHON")
    by = "PYSPARK_PYTHON" if given else "Spark's default, as PYSPARK_PYTHON is not set"
    advice = f"set PYSPARK_PYTHON to {sys.executable}, or to this version on every executor."
    name = given or "python3"
    program = machine.which(name)
    if program is None:
        text = f"Workers run {name} ({by}), which does not exist here."
        return Finding("worker python", PROBLEM, text, advice)
    try:
        version, *packages = machine.output_of([program, "-c", _ASK_WORKER]).split()[-3:]
    except (OSError, ValueError) as error:
        text = f"Workers run {program} ({by}), which cannot be run: {error}."
        return Finding("worker python", PROBLEM, text, advice)
    text = f"Workers run Python {version}, {program} ({by})."
    if numbers(version) != machine.python:
        own = ".".join(map(str, machine.python))
        text += f" This is Python {own}, and Spark refuses Python functions of another version."
        return Finding("worker python", PROBLEM, text, advice)
    missing = [name for name in ("pyarrow", "splitlib") if name not in packages]
    if missing:
        text += f' It has no {" and no ".join(missing)}, which format("splitlib") needs there.'
        return Finding("worker python", NOTE, text, "for this format, install splitlib there.")
    return Finding("worker python", GOOD, text)


def _version_in(package: Path) -> str:
    try:
        text = (package / "version.py").read_text(encoding="utf-8")
    except OSError:
        text = ""
    found = _PYSPARK_VERSION.search(text)
    return found[1] if found else "unknown"


def _version_in_jars(home: Path) -> str | None:
    try:
        names = sorted(os.listdir(home / "jars"))
    except OSError:
        return None
    found = (_SPARK_CORE.fullmatch(name) for name in names)
    return next((match[1] for match in found if match), None)
