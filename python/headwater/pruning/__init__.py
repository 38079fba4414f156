"""Data skipping: which files a predicate may need, and what the log alone can answer or estimate."""

from headwater.pruning.aggregates import aggregate_from_log
from headwater.pruning.depth import depths, overlap
from headwater.pruning.estimates import estimate
from headwater.pruning.evaluation import leaves_rows, prune, prune_all, select

__all__ = ["aggregate_from_log", "depths", "estimate", "leaves_rows", "overlap", "prune", "prune_all", "select"]
