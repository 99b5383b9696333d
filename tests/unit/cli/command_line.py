"""A helper that runs the command line in a separate process."""

import os
import subprocess
import sys
from typing import Any

NULL = "__HIVE_DEFAULT_PARTITION__"
SOURCES = os.pathsep.join(path for path in sys.path if path)


def start(*arguments: object, **options: Any) -> Any:
    return subprocess.Popen(
        [sys.executable, "-m", "splitlib", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        **options,
    )


MANY_SPLITS = ("-c", "files", "--set", "target_split_bytes=1")
