"""Readers for files that Spark's own file scans would not read correctly.

``hive_text`` parses lines in Hive's text formats with Spark expressions, and ``hive_text_values``
parses single values. For tables whose columns are found by field id, and which may have delete
files (Iceberg), ``field_id_columns`` reads a batch of files and converts its columns, and
``field_id_scan`` builds one DataFrame from all selected files and removes deleted rows.
"""
