"""Data skipping: which files a predicate may need, and what the log alone can answer."""

from headwater.pruning.aggregates import aggregate_from_log
from headwater.pruning.evaluation import leaves_rows, prune, prune_all, select
from headwater.pruning.parsing import is_partition_only, partition_predicate_columns

__all__ = [
    "aggregate_from_log",
    "is_partition_only",
    "leaves_rows",
    "partition_predicate_columns",
    "prune",
    "prune_all",
    "select",
]
