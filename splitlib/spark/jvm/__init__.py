"""Access to Spark's internal classes in the JVM. No other package uses them."""
