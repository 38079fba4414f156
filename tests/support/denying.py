"""Directories that the operating system lets nobody write to, not even root, whom modes do not stop."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_GET_FLAGS, _SET_FLAGS, _IMMUTABLE = 0x80086601, 0x40086602, 0x10  # of Linux, as chattr sets them


@contextmanager
def not_to_be_written(directory: Path) -> Iterator[None]:
    """For the block, nothing can be made, changed by name or deleted in the directory; below it, all can."""
    if os.geteuid() != 0:
        mode = directory.stat().st_mode
        directory.chmod(0o555)
        try:
            yield
        finally:
            directory.chmod(mode)
        return
    try:
        _make(directory, immutable=True)
    except OSError as error:  # a container without the capability, a file system without the flag
        pytest.skip(f"root writes everywhere, and {directory} cannot be made immutable: {error}")
    try:
        yield
    finally:
        _make(directory, immutable=False)


def _make(directory: Path, immutable: bool) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _GET_FLAGS, struct.pack("l", 0)))
        fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", flags | _IMMUTABLE if immutable else flags & ~_IMMUTABLE))
    finally:
        os.close(descriptor)
