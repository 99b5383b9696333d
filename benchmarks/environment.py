"""The machine and the package versions of a benchmark run."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from splitlib import __version__

_PACKAGES = ("pyspark", "pyarrow", "fsspec", "thrift", "hmsclient", "pyiceberg")


def describe_environment() -> dict[str, str | int | float]:
    """Return the package versions and facts about the machine, as plain values."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "splitlib": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "java": java.stderr.partition("\n")[0],
        "platform": platform.platform(),
        "cores": os.cpu_count() or 0,
        "load_average": os.getloadavg()[0],
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
