"""Opening and committing a table: what every statement begins and ends with."""
