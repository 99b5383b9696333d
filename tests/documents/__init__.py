"""Generated pages of the documentation, and the Python examples of all pages.

``python -m tests.documents`` writes the generated files into ``docs/``.
"""
