"""Benchmark of S3 listings. A proxy in front of the server counts the requests.

Run it with ``python -m benchmarks.object_store``.
"""
