"""Connector for the AWS Glue Data Catalog.

``connector`` implements the interface. ``client`` sends requests and converts errors. ``table``
loads a table and rejects those that cannot be read. ``partitions`` requests registered partitions,
``projected`` computes those of Athena's partition projection.
"""

from splitlib_glue.connector import GlueConnector

__all__ = ["GlueConnector"]
