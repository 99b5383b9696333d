"""Write the generated files of the documentation: ``python -m tests.documents``."""

from __future__ import annotations

from tests.documents.command_line import command_line_page
from tests.documents.examples import DOCS
from tests.documents.modules import modules_page
from tests.documents.picture import flow_picture, scan_picture
from tests.documents.reference import api_page, errors_page, options_page, settings_page

GENERATED = {
    "flow.svg": flow_picture,
    "scan.svg": scan_picture,
    "reference/api.md": api_page,
    "reference/command-line.md": command_line_page,
    "reference/errors.md": errors_page,
    "reference/modules.md": modules_page,
    "reference/options.md": options_page,
    "reference/settings.md": settings_page,
}
"""Functions that return the contents of a file, by its path in ``docs/``."""

if __name__ == "__main__":
    for name, contents in GENERATED.items():
        (DOCS / name).write_text(contents(), encoding="utf-8")
