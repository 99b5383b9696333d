"""Hive's text formats, read by Spark expressions instead of Hive's own classes."""
