"""Read tables whose columns are found by field id, and which may have delete files (Iceberg).

``scan`` builds one DataFrame from the selected files. ``columns`` converts columns of files to the
table's types. ``deletes`` reads a batch of files and removes deleted rows.
"""
