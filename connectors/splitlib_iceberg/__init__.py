"""Connector for Iceberg tables in any PyIceberg catalog. Files are found by reading manifests.

The modules, in the order in which a query uses them:

1. ``connector``: implements the connector interface, with the help of the other modules.
2. ``pinning``: loads a table from a catalog and chooses its snapshot.
3. ``schema``, ``partition_specs``, ``bounds``: convert columns, partition values and stored bounds
   to Arrow.
4. ``snapshot``: reads the manifest list, checks that it is complete, and reads the manifests that
   may have matching files. ``manifests`` and ``avro`` decode them, ``manifest_contents`` converts
   them to Arrow columns, and ``metadata_cache`` caches the results.
5. ``batches``: makes batches of partitions from manifests, and batches of their data files.
6. ``delete_index``: finds the delete files that apply to a data file.
7. ``physical_names``: finds the column names in a data file, for readers that match by name.

``unpacking`` reads and decompresses bytes within limits, rejects files outside of
``allowed_locations``, and reads deletion vectors.

``failures`` converts exceptions of PyIceberg and storage clients to splitlib's errors.
"""

from splitlib_iceberg.connector import IcebergConnector

__all__ = ["IcebergConnector"]
