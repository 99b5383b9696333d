"""The demo: a query of TPC-DS with Spark, with and without its pruning, and with splitlib."""
