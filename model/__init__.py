"""An exhaustive small model of the commit protocol, in Spin's language, and the command that checks it.

Owns the three parts of the model (``rows.pml``, ``groups.pml``, ``cleaning.pml``), their bounds, and the mutations that
must be found: :mod:`model.parts`. ``python -m model`` runs them by Spin and a C compiler: :mod:`model.checker`.
Promises: each step that a trace shows names the function of the code that it stands for, and the invariants are those
that the docstrings of the code name. ``tests/concurrency/test_small_model.py`` compares both.
"""
