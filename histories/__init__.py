"""Histories of clients, and checkers that say whether the promises of isolation were kept."""
