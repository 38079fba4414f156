"""What tests share: sessions and processes of Spark, stores, models, writers, and how the suite runs.

The folder above is on the import path, so tests and the processes they start say ``support.<name>``.
"""
