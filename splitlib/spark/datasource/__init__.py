"""The Spark data source ``splitlib``. It uses only Spark's public Python API."""
