"""What join keys say of partitions: collected, encoded, coerced and matched."""
