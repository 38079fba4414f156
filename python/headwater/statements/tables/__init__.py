"""Tables and their schemas: CREATE, ALTER, SHOW."""
