"""The TPC-DS benchmark. It measures how much pruning saves in queries that can be pruned.

Run it with ``python -m benchmarks.tpcds``. A test runs all 99 queries. Data, queries and expected
results come from DuckDB.
"""
