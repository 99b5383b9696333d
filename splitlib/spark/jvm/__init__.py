"""Everything of Spark's that is not public API, and of the JVM behind it."""
