"""Tests of Delta and Iceberg tables.

Their own Spark sources read the tables, and splitlib adds filters with join keys.
"""
