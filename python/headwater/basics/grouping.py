"""Items in groups of limited size, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def next_fit(things: Iterable[T], size_of: Callable[[T], int], capacity: int) -> Iterator[list[T]]:
    """Groups of things that follow each other, each as full as can be; a thing that is larger is a group of its own."""
    group: list[T] = []
    size = 0
    for each in things:
        if group and size + size_of(each) > capacity:
            yield group
            group, size = [], 0
        group.append(each)
        size += size_of(each)
    if group:
        yield group
