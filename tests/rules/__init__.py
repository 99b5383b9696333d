"""Rules of this repository that neither ruff nor mypy checks.

Each module has a function ``problems`` that reads the sources and yields one text per violation.
"""
