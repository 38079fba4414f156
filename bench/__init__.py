"""Side by side with the peer and with plain Parquet: ``python -m bench`` prints one table of what each case takes."""
