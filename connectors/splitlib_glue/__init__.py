"""Connector for the AWS Glue Data Catalog.

``connector`` implements the connector interface. ``client`` sends requests and converts errors.
``table`` loads a table, and rejects tables that cannot be read. ``partitions`` requests registered
partitions. ``projected`` computes the partitions of tables with Athena's partition projection.
"""

from splitlib_glue.connector import GlueConnector

__all__ = ["GlueConnector"]
