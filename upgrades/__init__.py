"""Earlier versions of Headwater beside today's: each reads, writes and continues what the other left.

``python -m upgrades`` builds each version of :mod:`upgrades.revisions`, has both tell the chapters of
:mod:`upgrades.story` in turn, kills the jobs of :mod:`upgrades.jobs` under one and continues them under the other, and
lets both write to the same tables at once (:mod:`upgrades.together`).
"""
