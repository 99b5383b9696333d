"""Columns found by field id and files with deleted rows, as Iceberg has them."""
