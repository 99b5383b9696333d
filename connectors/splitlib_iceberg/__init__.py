"""Iceberg tables of any catalog that PyIceberg knows, planned from their manifests."""

from splitlib_iceberg.connector import IcebergConnector

__all__ = ["IcebergConnector"]
