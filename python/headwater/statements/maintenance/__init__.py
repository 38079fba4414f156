"""Statements that rearrange or describe the files of a table and change none of its rows."""
