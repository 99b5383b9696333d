"""What ``splitlib demo`` runs: TPC-DS in a local Hive metastore."""
