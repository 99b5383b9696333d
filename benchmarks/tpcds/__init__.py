"""The TPC-DS benchmark: measures what pruning saves on queries that can be pruned.

Run it with ``python -m benchmarks.tpcds``. A test runs all 99 queries. Data, queries and expected
results come from DuckDB.
"""
