"""The data source ``splitlib``, through Spark's public Python API alone."""
