"""How Hive spells partition names, partition values and column types. Pure: nothing is called."""
