"""TPC-DS: all 99 queries as a test, and what pruning saves on those that can be pruned.

``python -m benchmarks.tpcds``. Data, queries and right answers are those of DuckDB's generator.
"""
