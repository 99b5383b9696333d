"""Connectors with planted bugs, each with the names of the kit's tests that must fail.

``test_planted_bugs.py`` runs these tests. Pytest does not collect these modules by their names,
since failures are expected.
"""
