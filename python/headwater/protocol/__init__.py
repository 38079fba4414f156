"""Facts of the Delta protocol, each declared once."""
