"""Table schemas: types, evolution, column mapping, constraints, generated and identity columns."""
