"""Hive's rules for partition names, partition values, column types and file formats."""
