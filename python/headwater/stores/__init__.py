"""Where tables are stored: one interface, with put-if-absent, over every kind of file system.

:class:`Store` is the interface; users may name a subclass of their own for a scheme (:mod:`headwater.stores.choice`).
"""

from headwater.stores.choice import absolute_path, store_for
from headwater.stores.hadoop import HadoopFiles, HadoopStore
from headwater.stores.interface import FileInfo, Store
from headwater.stores.local import LocalStore

__all__ = ["FileInfo", "HadoopFiles", "HadoopStore", "LocalStore", "Store", "absolute_path", "store_for"]
