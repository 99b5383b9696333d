"""The join keys of a DataFrame, collected if they are the same each time."""
