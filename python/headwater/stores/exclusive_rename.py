"""An atomic rename that never replaces a file, which Python's ``os`` does not have.

On Linux, it is ``renameat2`` with ``RENAME_NOREPLACE``; on macOS, ``renamex_np`` with ``RENAME_EXCL``. Not every file
system supports it: then nothing is done.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from functools import cache

_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
_RENAME_EXCL = 4


def rename_unless_taken(source: str, target: str) -> None:
    """Rename a file within its file system.

    :raises FileExistsError: the name is taken; nothing was done.
    :raises OSError: with ``EINVAL``, ``ENOSYS`` or ``ENOTSUP`` if the file system or this Python does not support it.
    """
    rename = _rename()
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), target)
    if rename(os.fsencode(source), os.fsencode(target)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


@cache
def _rename() -> Callable[[bytes, bytes], int] | None:
    """The system's function, from both paths to its result; None if its library has no such function."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            of_mac = library.renamex_np
            return lambda source, target: int(of_mac(source, target, ctypes.c_uint(_RENAME_EXCL)))
        of_linux = library.renameat2
    except (OSError, AttributeError):
        return None
    at, flag = ctypes.c_int(_AT_FDCWD), ctypes.c_uint(_RENAME_NOREPLACE)
    return lambda source, target: int(of_linux(at, source, at, target, flag))
