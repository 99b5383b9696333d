"""Find tables of named splitlib catalogs in the text of a query."""
