"""Arrow helpers for every other package: casts that never raise, time zones, values and bytes.

This package does not depend on tables, filters or Hive.
"""
