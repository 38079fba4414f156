"""Table schemas: evolution, column mapping, constraints, generated and identity columns, widening."""
