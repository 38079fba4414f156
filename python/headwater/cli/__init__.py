"""The ``headwater`` command."""
