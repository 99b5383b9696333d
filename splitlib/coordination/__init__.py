"""Splits handed out to readers while filters are on their way."""
