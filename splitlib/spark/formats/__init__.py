"""Hive's text formats as Spark expressions."""
