"""Hive's text formats, parsed by Spark expressions instead of Hive's classes."""
