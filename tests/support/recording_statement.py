"""Statements without Spark: a stand-in for the JVM's side that records what it was asked."""

import json
import shutil
from pathlib import Path

import msgspec

from headwater.bridge.messages import SessionSettings
from headwater.bridge.messages.callbacks import CopiedFile, WrittenFile
from headwater.bridge.statement import Condition, Statement
from headwater.pruning.predicates import columns
from support.predicate_text import parse_predicate


class RecordingStatement(Statement):
    """Answers every write with the files it was told to, and knows every expression's type to be boolean."""

    def __init__(self, confs=None, time_zone="UTC"):
        settings = SessionSettings(confs=confs or {}, time_zone=time_zone, user="tester", spark_version="4.2.0")
        super().__init__(None, settings)
        self.written = []
        self.specifications = []
        self.begun = []
        self.relations = []
        self.placed = []
        #: What other writers do right before the statement's next commits, in order.
        self.before_commits = []
        self.discarded = 0
        self.inner_commits = 0
        self.redefinitions = 0
        self.unset = []
        #: What the session catalog has, by name.
        self.names = {}
        #: When Spark ran statements in open transactions.
        self.runs = []
        #: What tables that a catalog manages are called, by path.
        self.handles = {}
        #: The files that were copied, and after how many a copying statement is cut off.
        self.copied = []
        self.most_copied = None

    def managed(self, path):
        return self.handles.get(path)

    @property
    def hadoop(self):
        return None

    def pin(self, plan, version):
        pass

    def write(self, specification):
        self.specifications.append(json.loads(msgspec.json.encode(specification)))
        return msgspec.convert(self.written.pop(0) if self.written else [], list[WrittenFile])

    def copy_files(self, specification):
        return [self._copy(file) for task in specification.tasks for file in task]

    def _copy(self, file):
        source, target = Path(file.source), Path(file.target)
        size = source.stat().st_size if source.exists() else None
        is_there = target.exists() and target.stat().st_size == size
        if size is None or file.size not in (None, size) or is_there:
            return CopiedFile(size=size, copied=False)
        if self.most_copied is not None and len(self.copied) >= self.most_copied:
            raise OSError("cut off")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        self.copied.append(str(target))
        return CopiedFile(size=size, copied=True)

    def add_relation(self, table, version, files, row_tracking_columns=(), tasks=(), position=None, **options):
        self.relations.append((table, version, files))
        return len(self.relations) + 100

    def place(self, text):
        if text not in self.placed:
            self.placed.append(text)
        return self.placed.index(text)

    place_stored = place

    def place_qualified(self, text, qualifier):
        return self.place(f"{qualifier}.{text}")

    def condition(self, text, schema):
        predicate = parse_predicate(text)
        return Condition(predicate, frozenset(path[0] for path in columns(predicate)))

    def expression_type(self, text, schema):
        return '"boolean"'

    def check_storable(self, text, schema):
        pass

    def beyond_row(self, text, schema):
        return [text] if "(" in text else []

    def set_conf(self, name, value):
        self._confs = {**self._confs, name: value}

    def unset_conf(self, name):
        self.unset.append(name)
        self._confs = {key: value for key, value in self._confs.items() if key != name}

    def end_transaction(self, setting):
        self.unset_conf(setting)

    def settled(self, path):
        return False

    def discard(self):
        self.discarded += 1

    def runs_in(self, transaction):
        return self.runs

    def check_cancelled(self):
        pass

    def begin_commit(self, commit):
        if self.before_commits:
            self.before_commits.pop(0)()
        self.begun.append(msgspec.to_builtins(commit))

    def begin_inner_commit(self):
        if self.before_commits:
            self.before_commits.pop(0)()
        self.begun.append(None)

    def end_inner_commit(self):
        self.inner_commits += 1

    def table_changed(self, table):
        pass

    def is_name_taken(self, created):
        return ".".join(created.identifier) in self.names

    def register_table(self, created):
        name = ".".join(created.identifier)
        if name in self.names:
            return f"there is a {name}"
        self.names[name] = created
        return None

    def definition_changed(self):
        self.redefinitions += 1
