"""Checkpoints: reading them, writing them, and their typed statistics columns."""
