"""The notebook in ``docs/`` runs from top to bottom, and has the outputs of this code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.documents.notebook import NOTEBOOK, run

pytestmark = [pytest.mark.spark, pytest.mark.newest_spark]


def shown(notebook: Any) -> list[list[str]]:
    """Return the outputs of each cell, without durations, ids of queries, and sizes of files."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    texts = [[_text(one) for one in cell["outputs"]] for cell in cells]
    changing = r"requests [\d,]+|\d+\.\d\d s|[\d.]+ (?:B|[KM]iB)|0x[0-9a-f]+"
    return [[re.sub(changing, "…", text) for text in of_cell] for of_cell in texts]


def _text(output: Any) -> str:
    """Return an output as text. A notebook in a file has lists of lines."""
    data = output.get("data", {"text": output.get("text")})
    return "\n".join("".join(lines) for _, lines in sorted(data.items()))


def test_it_runs_from_top_to_bottom(tmp_path: Path) -> None:
    kept = json.loads(NOTEBOOK.read_text("utf-8"))
    assert shown(run(tmp_path)) == shown(kept), "run python -m tests.documents.notebook"
