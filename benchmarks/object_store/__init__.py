"""Benchmark of S3 listings, with requests counted in front of the server.

Run it with ``python -m benchmarks.object_store``.
"""
