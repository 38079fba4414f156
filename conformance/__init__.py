"""``python -m conformance``: what Headwater writes is read by other engines, and the other way round.

``types`` and ``cases`` declare tables and the rows that they must have; ``engines`` has an adapter for each engine,
which ``worker`` runs in a process of its own; ``running`` makes, copies and reads the tables, and ``witness`` looks
whether they have what their case is about; ``verdicts`` compares, and ``known.json`` explains the failures that are
known; ``page`` turns the record of a run, ``board.json``, into the tables of a page; ``tables`` reads acceptance tables
of other projects. No truth comes from an engine: each case has its rows as Python values.
"""
