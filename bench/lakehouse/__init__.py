"""``python -m bench.lakehouse``: LHBench's four workloads and TPC-H, in a size that fits one machine, side by side.

``data`` generates tables and queries, ``sides`` has what is measured, ``running`` measures and compares, ``workloads``
says what runs, and ``page`` turns the record of a run into the tables of a page.
"""
