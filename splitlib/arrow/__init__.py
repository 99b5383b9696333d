"""Helpers for Arrow data: casts that never raise, time zones, Arrow IPC bytes, Parquet footers.

This package does not depend on tables, filters or Hive.
"""
