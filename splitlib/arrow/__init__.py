"""Arrow helpers for every other package: casts that never raise, time zones, values and bytes.

They know nothing of tables, filters or Hive.
"""
