"""Mutation tests (``make mutants``) change the code in one place and expect a failing test."""
