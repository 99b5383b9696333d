"""How Hive spells partition values and types. Pure."""
