"""Reading: the change feed, the changelog, DESCRIBE."""
