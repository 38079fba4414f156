"""What no history may show: Elle's method for lists, and the same idea for rows that are only inserted.

Elle (Kingsbury and Alvaro, 2020) infers who depends on whom from what is in the lists: an element that was read is the
word of its writer (*write-read*), the order of the elements is the order of their writers (*write-write*), and who
read a list without its next element came before that one's writer (*read-write*). No order of the commits explains a
history in which these dependencies form a cycle. Of rows, an id that a scan saw makes a write-read dependency, and one
that it did not see a read-write one; rows that are deleted again are left to :mod:`histories.linearizability`.

Owns :func:`find`. What is found has the names of Adya (1999) and Elle:

- ``garbage``: something was read that nobody wrote.
- ``G1a``: something was read that a statement wrote which had failed.
- ``G1b``: a transaction's first element of several was read without the next.
- ``duplicate``: an element or row is there twice.
- ``incompatible order``: two reads of a list, neither of which is the beginning of the other: an update was lost.
- ``lost``: what was acknowledged is not there at the end.
- ``internal``: a transaction does not see what it wrote itself.
- ``fractured read``: of another transaction, one write was seen and one was not.
- ``G0``, ``G1c``, ``G-single``, ``G2``: cycles, of write-write dependencies alone; with write-read ones; with one
  read-write; with several. Lost updates are ``G-single``, write skew is ``G2``.

**What is a node.** A statement is one; so is a transaction ``ISOLATION LEVEL SERIALIZABLE``. Of another transaction,
the writes are one node, with what UPDATE and MERGE read to make them; what its queries read of a table is a node of its
own, as it is only promised to be one version of this table.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from histories.history import History, MicroOp, Op, changes

#: Of a table, a key and an element or id: who wrote it.
Item = tuple[str, int, int]
#: A list or the rows of a key.
Object = tuple[str, int]


class Anomaly(NamedTuple):
    """What was found: its name, in words, and the ops that show it."""

    name: str
    text: str
    ops: Sequence[Op] = ()


class Node(NamedTuple):
    """A node of the graph: an op's number in the history, and the table of queries that stand alone."""

    op: int
    table: str = ""


class Seen(NamedTuple):
    """What a query saw of an object of others' writes, its own writes taken off, and the node that it belongs to."""

    node: Node
    object: Object
    items: tuple[int, ...]


def find(history: History) -> list[Anomaly]:
    """All anomalies of a history."""
    return _Search(history).run()


def items_of(each: MicroOp) -> list[int]:
    """The elements or ids that a micro-op writes, none other having the same."""
    match each[0]:
        case "append":
            return [each[3]]
        case "insert":
            return list(each[3])
    return []


def seen_of(each: MicroOp) -> list[int] | None:
    """The elements or ids that a micro-op saw; None if it saw nothing or has no answer."""
    if each[0] not in ("read", "scan") or each[3] is None:
        return None
    return list(each[3]) if each[0] == "read" else [row[0] for row in each[3]]


class _Search:
    def __init__(self, history: History) -> None:
        self._ops, self._tables = history.ops, history.header.tables
        self._found: list[Anomaly] = []
        self._writer: dict[Item, int] = {}
        self._merged: set[Item] = set()
        #: By object, the longest list that was read, or all ids of rows that were seen.
        self._longest: dict[Object, tuple[int, ...]] = {}
        self._at_end: dict[Object, set[int]] = {}
        #: The objects of which the end is known, by table; all of a table that the last ops read.
        self._read_last: set[str] = set()
        self._seen: list[Seen] = []
        for number, op in enumerate(self._ops):
            for each in op.does:
                for item in items_of(each):
                    self._writer[each[1], each[2], item] = number
                if each[0] in ("merge", "replace"):
                    self._merged.add((each[1], each[2], each[3]))

    def run(self) -> list[Anomaly]:
        for number, op in enumerate(self._ops):
            if op.outcome == "ok":
                self._look_at(number, op)
        self._check_orders()
        self._check_lost()
        self._check_fractured()
        self._found += cycles(self._ops, self._edges())
        return self._found

    def _note(self, name: str, text: str, *ops: int) -> None:
        self._found.append(Anomaly(name, text, [self._ops[number] for number in ops]))

    # Single reads

    def _look_at(self, number: int, op: Op) -> None:
        own: dict[Object, list[int]] = defaultdict(list)
        for each in op.does:
            where: Object = (each[1], each[2])
            own[where] += items_of(each)
            items = seen_of(each)
            if items is None:
                continue
            for item in (item for item, count in Counter(items).items() if count > 1):
                self._note("duplicate", f"{item} is in {where} more than once", number)
            missing = [item for item in own[where] if item not in items]
            tail = items[len(items) - len(own[where]) :] if own[where] else []
            if missing or (each[0] == "read" and tail != own[where]):
                self._note("internal", f"wrote {own[where]} to {where} and saw {items}", number)
            others = tuple(item for item in items if item not in own[where])
            self._check_written(number, where, others)
            if each[0] == "read":
                self._check_intermediate(number, where, others)
                if len(others) >= len(self._longest.get(where, ())):
                    self._longest[where] = others
            if op.is_last:
                self._read_last.add(where[0])
                self._at_end[where] = set(items)
            self._seen.append(Seen(Node(number, where[0] if self._stands_alone(op, where) else ""), where, others))

    def _stands_alone(self, op: Op, where: Object) -> bool:
        """Whether nothing checks at COMMIT what a query of the op saw: an UPDATE of the same list would."""
        is_updated = self._holds_lists(where) and any((each[1], each[2]) == where for each in changes(op))
        return op.isolation == "transaction" and not is_updated

    def _check_written(self, number: int, where: Object, items: Iterable[int]) -> None:
        for item in items:
            writer = self._writer.get((*where, item))
            if writer is None:
                if (*where, item) not in self._merged:
                    self._note("garbage", f"{item} in {where} was written by nobody", number)
            elif self._ops[writer].outcome == "failed":
                self._note("G1a", f"{item} in {where} is of a statement that failed", number, writer)

    def _check_intermediate(self, number: int, where: Object, items: Sequence[int]) -> None:
        for position, item in enumerate(items):
            writer = self._writer.get((*where, item))
            if writer is None or writer == number:
                continue
            own = [e for each in self._ops[writer].does if (each[1], each[2]) == where for e in items_of(each)]
            index = own.index(item)
            if index + 1 < len(own) and tuple(items[position + 1 : position + 2]) != (own[index + 1],):
                self._note("G1b", f"{item} in {where} was seen without {own[index + 1]}", number, writer)

    # Objects

    def _check_orders(self) -> None:
        for seen in self._seen:
            longest = self._longest.get(seen.object, ())
            if self._holds_lists(seen.object) and seen.items != longest[: len(seen.items)]:
                text = f"{seen.object} was read as {list(seen.items)} and as {list(longest)}"
                self._note("incompatible order", text, seen.node.op)

    def _check_lost(self) -> None:
        for (table, key, item), writer in self._writer.items():
            facts = self._tables[table]
            is_kept = facts.holds == "lists" or facts.appends_only
            if not is_kept or table not in self._read_last or self._ops[writer].outcome != "ok":
                continue
            if item not in self._at_end.get((table, key), ()):
                self._note("lost", f"{item} was acknowledged and is not in {(table, key)} at the end", writer)

    def _holds_lists(self, where: Object) -> bool:
        return self._tables[where[0]].holds == "lists"

    def _is_kept(self, where: Object) -> bool:
        return self._holds_lists(where) or self._tables[where[0]].appends_only

    # Transactions

    def _check_fractured(self) -> None:
        of_op: dict[int, dict[Object, set[int]]] = defaultdict(dict)
        for seen in self._seen:
            if self._is_kept(seen.object):
                of_op[seen.node.op].setdefault(seen.object, set(seen.items))
        writes: dict[int, dict[Object, set[int]]] = defaultdict(lambda: defaultdict(set))
        for (table, key, item), writer in self._writer.items():
            if self._is_kept((table, key)):
                writes[writer][table, key].add(item)
        of_object: dict[Object, set[int]] = defaultdict(set)
        for writer, objects in writes.items():
            if len(objects) > 1 and self._ops[writer].outcome != "failed":
                for each in objects:
                    of_object[each].add(writer)
        for reader, objects_seen in of_op.items():
            if len(objects_seen) < 2:
                continue
            candidates = Counter(writer for each in objects_seen for writer in of_object[each] if writer != reader)
            for writer in (writer for writer, count in candidates.items() if count > 1):
                common = [each for each in objects_seen if each in writes[writer]]
                saw = [each for each in common if writes[writer][each] <= objects_seen[each]]
                if saw and len(saw) < len(common):
                    missed = next(each for each in common if each not in saw)
                    self._note("fractured read", f"of one transaction {saw[0]} was seen, not {missed}", reader, writer)

    def _edges(self) -> Iterator[tuple[Node, Node, str]]:
        for where, items in self._longest.items():
            writers = [self._writer.get((*where, item)) for item in items]
            for before, after in zip(writers, writers[1:], strict=False):
                if before is not None and after is not None:
                    yield Node(before), Node(after), "ww"
        inserted = self._inserted()
        for seen in self._seen:
            read, missed = seen.items, tuple(inserted[seen.object] - set(seen.items))
            if self._holds_lists(seen.object):
                read, missed = read[-1:], self._longest.get(seen.object, ())[len(read) :][:1]
            elif not self._is_kept(seen.object):
                continue
            for items, kind in ((read, "wr"), (missed, "rw")):
                for writer in (self._writer.get((*seen.object, item)) for item in items):
                    if writer is not None:
                        yield (Node(writer), seen.node, kind) if kind == "wr" else (seen.node, Node(writer), kind)

    def _inserted(self) -> dict[Object, set[int]]:
        """The ids of rows that are there, of tables that only get more."""
        found: dict[Object, set[int]] = defaultdict(set)
        for (table, key, item), writer in self._writer.items():
            is_there = self._ops[writer].outcome == "ok" or item in self._at_end.get((table, key), ())
            if is_there and self._tables[table].appends_only:
                found[table, key].add(item)
        return found


#: Cycles that are named at most.
_MOST_CYCLES = 5


def cycles(ops: Sequence[Op], edges: Iterable[tuple[Node, Node, str]]) -> list[Anomaly]:
    """A short cycle of each strongly connected component of the graph, of as few read-write edges as are found."""
    graph: dict[Node, dict[Node, set[str]]] = defaultdict(lambda: defaultdict(set))
    for before, after, kind in edges:
        if before != after:
            graph[before][after].add(kind)
    found: list[Anomaly] = []
    for component in components({node: list(after) for node, after in graph.items()}):
        if len(component) > 1 and len(found) < _MOST_CYCLES:
            found.append(_named(ops, graph, component))
    return found


def _named(ops: Sequence[Op], graph: dict[Node, dict[Node, set[str]]], component: Sequence[Node]) -> Anomaly:
    inside = set(component)

    def within(kinds: frozenset[str]) -> Callable[[Node], Iterable[Node]]:
        return lambda node: (n for n, found in graph[node].items() if n in inside and found & kinds)

    for name, kinds in (("G0", {"ww"}), ("G1c", {"ww", "wr"})):
        if cycle := _cycle(component, within(frozenset(kinds))):
            return _told(name, ops, graph, cycle)
    for node in component:  # one read-write edge, and a way back without any
        for after, found in graph[node].items():
            if after in inside and "rw" in found and (path := _path(after, node, within(frozenset({"ww", "wr"})))):
                return _told("G-single", ops, graph, [node, *path[:-1]])
    cycle = _cycle(component, within(frozenset({"ww", "wr", "rw"})))
    assert cycle is not None
    return _told("G2", ops, graph, cycle)


def _told(name: str, ops: Sequence[Op], graph: dict[Node, dict[Node, set[str]]], cycle: Sequence[Node]) -> Anomaly:
    kinds = ["/".join(sorted(graph[a][b])) for a, b in zip(cycle, [*cycle[1:], cycle[0]], strict=True)]
    return Anomaly(
        name, f"{len(cycle)} ops depend on each other in a circle: {', '.join(kinds)}", [ops[n.op] for n in cycle]
    )


def _cycle(nodes: Iterable[Node], after: Callable[[Node], Iterable[Node]]) -> list[Node] | None:
    """The shortest cycle through one of the nodes, of the first that has one."""
    for node in nodes:
        for following in after(node):
            if path := _path(following, node, after):
                return [node, *path[:-1]]
    return None


def _path(start: Node, goal: Node, after: Callable[[Node], Iterable[Node]]) -> list[Node] | None:
    came: dict[Node, Node | None] = {start: None}
    row = [start]
    while row:
        following = []
        for node in row:
            if node == goal:
                path: list[Node] = []
                at: Node | None = node
                while at is not None:
                    path.append(at)
                    at = came[at]
                return path[::-1]
            for each in after(node):
                if each not in came:
                    came[each] = node
                    following.append(each)
        row = following
    return None


def components(graph: dict[Any, Sequence[Any]]) -> list[list[Any]]:
    """The strongly connected components of a graph (Tarjan, 1972), without recursion."""
    index: dict[Any, int] = {}
    low: dict[Any, int] = {}
    stack: list[Any] = []
    on_stack: set[Any] = set()
    found: list[list[Any]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component: list[Any] = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    found.append(component)
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                on_stack.add(following)
                work.append((following, iter(graph.get(following, ()))))
            elif following in on_stack:
                low[node] = min(low[node], index[following])
    return found
