"""Listing S3, counted at the server: ``python -m benchmarks.object_store``."""
