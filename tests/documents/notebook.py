"""Run the notebook in ``docs/``. ``python -m tests.documents.notebook`` keeps its outputs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.documents.examples import DOCS

NOTEBOOK: Final = DOCS / "tour.ipynb"


def run(directory: Path) -> Any:
    """Run all cells in a kernel of their own, and return the notebook with their outputs.

    Args:
        directory: Directory in which the cells run.

    Raises:
        CellExecutionError: if a cell fails.
    """
    import nbformat  # imported here because only this function needs both
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(directory)}}
    NotebookClient(notebook, timeout=500, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata.clear()  # times of each run
            cell.outputs = [
                one for one in cell.outputs if one.get("name") != "stderr" and _has_text(one)
            ]
            for data in (one.data for one in cell.outputs if "data" in one):
                if "text/html" in data:
                    data.pop("text/plain", None)  # no viewer shows both
    return notebook


def _has_text(output: Any) -> bool:
    """Return whether an output is shown. Progress, which only slow steps have, ends as no text."""
    return any(output.get("data", {"text": output.get("text", "")}).values())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        NOTEBOOK.write_text(json.dumps(run(Path(scratch)), indent=1, ensure_ascii=False) + "\n")
