"""Tables that others read, Delta and Iceberg, with the keys that splitlib hands over."""
