"""Rows of splits without Spark, as Arrow batches."""
