"""How Hive spells partition names, partition values and column types, and reads files. Pure."""
