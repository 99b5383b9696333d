"""Connectors with planted bugs, each with the names of the kit's tests that must fail.

``test_planted_bugs.py`` runs these tests. Their failures are expected. So these modules have names
that pytest does not collect.
"""
