"""Run a long test program and record its result in docs/proof.md.

Run it with ``python -m tests.support.proof NAME COMMAND…``. The record is a table row with the
date, the commit, and the last line that the command printed.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "proof.md"


def recorded(document: str, name: str, date: str, commit: str, result: str) -> str:
    """Return the document with the row ``name`` replaced, or added at the end."""
    row = f"| `{name}` | {date} | {commit} | {result.replace('|', '/')} |"
    pattern = re.compile(rf"^\| `{re.escape(name)}` \|.*$", re.MULTILINE)
    if pattern.search(document):
        return pattern.sub(lambda _: row, document, count=1)
    return f"{document.rstrip()}\n{row}\n"


def run(command: list[str]) -> tuple[int, str]:
    """Run a command and print its output. Return its exit code and its last line of output."""
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip(" =\n") or last
    return process.returncode, last


def _commit() -> str:
    """Return the short hash of the current commit, and a note if files were changed since."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.check_output([*git, "rev-parse", "--short", "HEAD"], text=True).strip()
    # A target may run several commands. The row of the first one is not a change of the code.
    others = ("--", ".", f":!{RECORDS.relative_to(ROOT)}")
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", *others], check=False).returncode
    return f"{name} with changes" if changed else name


def main(name: str, *command: str) -> int:
    """Run a command, record its result, and return its exit code."""
    commit = _commit()
    code, last = run(list(command))
    result = last if code == 0 else f"**failed** (exit code {code}): {last}"
    today = datetime.date.today().isoformat()
    RECORDS.write_text(recorded(RECORDS.read_text(), name, today, commit, result))
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
