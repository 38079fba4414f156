"""Where tables are stored: one interface, with put-if-absent, over every kind of file system.

:class:`Store` is the interface; users may name a subclass of their own for a scheme (:mod:`headwater.stores.by_path`).
"""

from headwater.stores.by_path import absolute_path, is_same_place, may_be_same_place, store_for
from headwater.stores.hadoop import HadoopFiles, HadoopStore
from headwater.stores.interface import SCHEME, Failed, FileInfo, Store, Tree
from headwater.stores.local import LocalStore

__all__ = [
    "SCHEME",
    "Failed",
    "FileInfo",
    "HadoopFiles",
    "HadoopStore",
    "LocalStore",
    "Store",
    "Tree",
    "absolute_path",
    "is_same_place",
    "may_be_same_place",
    "store_for",
]
