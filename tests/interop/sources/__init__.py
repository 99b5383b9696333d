"""Tests of Delta and Iceberg tables that their own sources read with splitlib's join keys."""
