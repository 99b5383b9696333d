"""Read exactly the given files as a DataFrame."""
