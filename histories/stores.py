"""Where the tables of a round are.

Owns :func:`opened`: ``local`` is a folder; ``s3`` is a server of S3's protocol (moto), which clients reach through
Hadoop's S3A in one JVM, and that through :mod:`histories.proxy` if the nemesis asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from headwater.stores import Store

STORES = ("local", "s3")


class Place(NamedTuple):
    """A place for tables.

    :param store: what this process reaches it by; None for local files.
    :param port: of the JVM that clients reach it through, ``settings`` are Hadoop's.
    """

    root: str
    store: Store | None = None
    port: int | None = None
    settings: dict[str, str] = {}


@contextmanager
def opened(kind: str, folder: Path, through_proxy: bool, seed: int) -> Iterator[Place]:
    """A place of its own, as long as the block."""
    if kind == "local":
        yield Place(str(folder))
        return
    raise NotImplementedError(kind)
