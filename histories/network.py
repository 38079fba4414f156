"""A network between clients and a store's server that can be cut: a network namespace and two virtual devices.

Owns :func:`separated`. It needs the rights of root and the command ``ip`` (Debian's package ``iproute2``), and Linux.
The namespace has one device, whose other end is in this machine's: nothing else reaches it. Cut means that packets are
lost both ways: TCP sends them again once the network is joined, so that a request can arrive after its client has given
it up and has looked whether it was done.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

#: Addresses of devices in private use (RFC 1918), one small net for each process that has a namespace.
_NET = "10.231"


class Network(NamedTuple):
    """A namespace: its name, and the address of its device."""

    name: str
    host: str

    @property
    def inside(self) -> tuple[str, ...]:
        """The command that runs another one in the namespace."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Lose all packets from now on."""
        _ip("-n", self.name, "link", "set", "inside", "down")

    def join(self) -> None:
        """Lose none any more."""
        _ip("-n", self.name, "link", "set", "inside", "up")


@contextmanager
def separated() -> Iterator[Network]:
    """A network of its own, as long as the block.

    :raises PermissionError: this process may not make one.
    """
    number = os.getpid() % (1 << 14)
    net = f"{_NET}.{number >> 6}.{(number & 63) << 2}".rpartition(".")
    name, (ours, theirs) = f"histories{os.getpid()}", (f"{net[0]}.{int(net[2]) + end}" for end in (1, 2))
    try:
        _ip("netns", "add", name)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PermissionError("the nemesis partition needs the rights of root and the command ip (iproute2)") from error
    try:
        outside = f"hist{os.getpid()}"
        _ip("link", "add", outside, "type", "veth", "peer", "name", "inside", "netns", name)
        _ip("addr", "add", f"{ours}/30", "dev", outside)
        _ip("-n", name, "addr", "add", f"{theirs}/30", "dev", "inside")
        _ip("link", "set", outside, "up")
        for device in ("lo", "inside"):
            _ip("-n", name, "link", "set", device, "up")
        yield Network(name, theirs)
    finally:
        _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
