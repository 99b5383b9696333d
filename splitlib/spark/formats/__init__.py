"""Files that Spark's own scans do not read as the table needs.

``hive_text`` parses Hive's text formats by Spark expressions, and ``hive_text_values`` their single
values. For tables whose columns are found by field id, and which may have delete files (Iceberg),
``field_id_columns`` reads a batch of files and converts its columns, and ``field_id_scan`` builds
one DataFrame from all selected files and removes deleted rows.
"""
