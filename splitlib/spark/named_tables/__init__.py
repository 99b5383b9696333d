"""Tables of named splitlib catalogs in the text of a query."""
