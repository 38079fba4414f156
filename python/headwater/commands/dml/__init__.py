"""What DELETE, UPDATE and MERGE share: their request, the rewrite as one SQL query, what becomes of files."""
