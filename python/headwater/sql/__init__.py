"""SQL as text: the statements Spark's parser does not know, and the queries this package writes."""
