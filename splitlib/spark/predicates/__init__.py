"""Convert conditions to filters on partitions and files, and join keys to conditions on rows."""
