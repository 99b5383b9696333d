"""The rows of splits as Arrow batches, without Spark and equal to what Spark reads.

``reader`` opens a file and hands it to ``parquet`` or ``orc``; ``row_groups`` skips parts of
Parquet files that hold no key, and ``columns`` fits what is stored to the types of the table.
"""
