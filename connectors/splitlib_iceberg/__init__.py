"""Connector for Iceberg tables of any PyIceberg catalog, planned from their manifests.

The modules, in the order in which a query uses them:

1. ``connector``: implements the interface, with the help of the other modules.
2. ``pinning``: loads a table from a catalog and chooses its snapshot.
3. ``schema``, ``partition_specs``, ``bounds``: convert columns, partition values and stored bounds
   to Arrow.
4. ``snapshot``: reads the manifest list and checks that it is complete, and reads the manifests
   that may match. ``manifests`` and ``avro`` decode them, ``manifest_contents`` converts manifests
   to Arrow columns, and ``metadata_cache`` caches the results.
5. ``batches``: makes batches of partitions from manifests, and batches of their data files.
6. ``delete_index``: finds the delete files of a data file.
7. ``physical_names``: finds the names of columns in a data file, for readers that match by name.

``unpacking`` reads and decompresses bytes within limits, rejects files outside of
``allowed_locations``, and reads deletion vectors.

``failures`` converts exceptions of PyIceberg and of the storage to errors of splitlib.
"""

from splitlib_iceberg.connector import IcebergConnector

__all__ = ["IcebergConnector"]
