"""Mutation tests: change the code in one place and check that a test fails (``make mutants``)."""
