"""Read tables whose columns are found by field id, and which may have delete files (Iceberg).

``scan`` builds one DataFrame from the selected files. ``reader`` reads a batch of files.
``columns`` converts columns of files to the table's types. ``deletes`` removes deleted rows.
"""
