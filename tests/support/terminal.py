"""A program in a terminal of its own, a pseudo-terminal, into which a test types as a person does."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Makes the terminal the one that controls the program, so that ``/dev/tty`` and Ctrl+C are its own.
_IN_CONTROL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|[=>])")
_LINES = 50


class Terminal:
    """Starts a program. ``columns``: so many that no line is broken in two."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], columns: int = 1000
    ) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", _IN_CONTROL, *command],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            cwd=folder,
            env={**environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        os.close(follower)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        #: Everything the program wrote, with the characters that move the cursor.
        self.written = ""
        self._read = 0

    def type(self, line: str) -> None:
        """A line, and Enter."""
        os.write(self._leader, f"{line}\r".encode())

    def until(self, pattern: re.Pattern[str], seconds: float) -> re.Match[str]:
        """What the pattern finds in the text since the last call, as it stands on the screen."""
        end = time.monotonic() + seconds
        while True:
            text = on_screen(self.written[self._read :])
            if match := pattern.search(text):
                self._read = len(self.written)
                return match
            left = end - time.monotonic()
            assert left > 0, f"{pattern.pattern!r} did not come within {seconds} s, but:\n{text}"
            if select.select([self._leader], [], [], min(left, 1.0))[0]:
                self.written += self._decoder.decode(self._bytes())

    def stays_quiet(self, seconds: float) -> bool:
        """Whether nothing is written for so long."""
        return not select.select([self._leader], [], [], seconds)[0]

    def _bytes(self) -> bytes:
        try:
            found = os.read(self._leader, 65536)
        except OSError:  # the other end is closed
            found = b""
        assert found, f"the program has ended: {on_screen(self.written[self._read :])}"
        return found

    def close(self) -> None:
        """Hang up: the program and what it started get the signal of a closed terminal, and are killed if they stay."""
        try:
            os.killpg(self.process.pid, signal.SIGHUP)
            self.process.wait(30)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)
        os.close(self._leader)


def on_screen(written: str) -> str:
    """The lines that a terminal shows: what follows a carriage return writes over the line from its beginning. Spaces
    at the end of a line do not show, but for the last one, in which somebody may type.
    """
    *lines, last = [_shown(line) for line in _ESCAPES.sub("", written).replace("\r\n", "\n").split("\n")]
    return "\n".join([*(line.rstrip(" ") for line in lines), last])


def _shown(line: str) -> str:
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown
