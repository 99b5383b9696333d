"""Results of long test runs are recorded in the table of ``docs/proof.md``."""

from __future__ import annotations

import re
import sys

from tests.support.proof import ROOT, recorded, run

LONG = (
    *("chaos", "conformance", "differential", "interop", "kerberos", "matrix", "mutants"),
    *("release-check", "simulate", "simulate-bugs", "test-all", "test-scala"),
)

_TABLE = "# Proofs\n\n| proof | date | commit | result |\n|---|---|---|---|\n"


def test_a_row_is_added_and_replaced() -> None:
    once = recorded(_TABLE, "make a", "2026-01-01", "abc", "3 passed")
    assert once == _TABLE + "| `make a` | 2026-01-01 | abc | 3 passed |\n"
    both = recorded(once, "make b", "2026-01-02", "abc", "4 | 5")
    again = recorded(both, "make a", "2026-01-03", "def", "6 passed")
    assert again.splitlines()[-2:] == [
        "| `make a` | 2026-01-03 | def | 6 passed |",
        "| `make b` | 2026-01-02 | abc | 4 / 5 |",
    ]


def test_the_last_line_and_the_exit_code_are_kept() -> None:
    program = "import sys; print('first'); print('== 2 passed =='); print(); sys.exit(3)"
    assert run([sys.executable, "-c", program]) == (3, "2 passed")


def test_long_targets_record_their_results() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    recipes = dict(re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    assert [name for name in LONG if f"$(RECORD) 'make {name}" not in recipes[name]] == []
