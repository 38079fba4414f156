"""Opening and committing a table: the beginning and the end of every statement."""
