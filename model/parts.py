"""The parts of the model: which invariants they check, with which bounds they run, and which mutations they must find.

Owns the declarations alone. A *run* is a set of bounds; each one that a file has a default for may be left out. A
*mutation* is a fault that the model has only if asked, with the smallest bounds that show it, and the invariant that it
breaks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
_INVARIANT = re.compile(r'INVARIANT\("([^"]+)"')
_FUNCTION = re.compile(r"\b((?:[a-z_]+\.)+[a-z_]+):([A-Za-z_]\w*(?:\.\w+)?)")
_STEP = re.compile(r'printf\("([^"|]*?)(?: \||\\n|")')


@dataclass(frozen=True)
class Run:
    """Bounds of a part.

    :param bounds: the constants of the file that are not its defaults.
    :param kind: ``short`` takes a second, ``usual`` a minute or two, ``long`` more.
    """

    name: str
    bounds: Mapping[str, int] = field(default_factory=dict)
    kind: str = "usual"


@dataclass(frozen=True)
class Mutation:
    """A fault, named as the constant ``MUTATE_…`` of the file in small letters.

    :param breaks: an invariant that it breaks: that of the shortest trace.
    :param assumption: whether it is no fault of the code: the model assumes that it does not happen.
    """

    name: str
    words: str
    breaks: str
    bounds: Mapping[str, int] = field(default_factory=dict)
    assumption: bool = False

    @property
    def constant(self) -> str:
        """What the file asks for."""
        return f"MUTATE_{self.name.upper()}"


@dataclass(frozen=True)
class Part:
    """One file of the model.

    :param documented: the module whose docstring names the invariants.
    """

    name: str
    documented: str
    runs: Sequence[Run]
    mutations: Sequence[Mutation]

    @property
    def file(self) -> Path:
        """Where it is."""
        return FOLDER / f"{self.name}.pml"

    @property
    def text(self) -> str:
        """The model."""
        return self.file.read_text("utf-8")

    @property
    def invariants(self) -> list[str]:
        """The names of its invariants, in the order of the file."""
        return list(dict.fromkeys(_INVARIANT.findall(self.text)))

    @property
    def functions(self) -> list[str]:
        """The functions that it names, as ``module:function``, without the package."""
        return sorted({f"{module}:{name}" for module, name in _FUNCTION.findall(self.text)})

    @property
    def steps(self) -> list[str]:
        """What each line of a trace begins with."""
        return sorted(set(_STEP.findall(self.text)))

    def invariant_at(self, line: int) -> str:
        """The name of the invariant that a line of the file checks."""
        return str(_INVARIANT.findall(self.text.splitlines()[line - 1])[0])

    def constants(self) -> dict[str, int]:
        """The constants that are numbers, by name; the last of those with several values."""
        return {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)", self.text, re.MULTILINE)}


def _statements(*names: str) -> dict[str, int]:
    """The statements of the writers of ``rows.pml``, in its order."""
    constants = ROWS.constants() if "ROWS" in globals() else {}
    numbers = [constants[name] for name in names]
    return {"WRITERS": len(names), **{f"KIND_{number}": kind for number, kind in enumerate(numbers)}}


ROWS = Part("rows", "headwater.transaction.commit_loop", (), ())
ROWS = Part(
    ROWS.name,
    ROWS.documented,
    (
        Run("2 writers, any statements", {"WRITERS": 2}, "short"),
        Run("3 writers, any statements", {"WRITERS": 3}),
        Run("4: two deletions, two compactions", _statements("DELETE", "DELETE", "OPTIMIZE", "OPTIMIZE"), "long"),
        Run(
            "4: deletion, update, compaction, insertion", _statements("DELETE", "UPDATE", "OPTIMIZE", "INSERT"), "long"
        ),
        Run(
            "4: deletion, rewrite, compaction, another engine's deletion",
            _statements("DELETE", "REWRITE", "OPTIMIZE", "FOREIGN_DELETE"),
            "long",
        ),
        Run(
            "4: update, two compactions, another engine's compaction",
            _statements("UPDATE", "OPTIMIZE", "OPTIMIZE", "FOREIGN_OPTIMIZE"),
            "long",
        ),
    ),
    (
        Mutation("no_check", "skips the conflict check", "a file has one state", _statements("DELETE", "DELETE")),
        Mutation(
            "forget_to_merge",
            "marks in the same file as a winner, and leaves out the winner's marks",
            "no deleted row comes back",
            _statements("DELETE", "DELETE"),
        ),
        Mutation(
            "same_row",
            "merges marks although both writers marked the same row",
            "conflicts are found",
            _statements("DELETE", "UPDATE"),
        ),
        Mutation(
            "ignore_new_marks",
            "compaction does not take along what a winner deleted",
            "no deleted row comes back",
            _statements("DELETE", "OPTIMIZE"),
        ),
        Mutation(
            "no_shift",
            "marks that follow a compaction forget the rows that it left out",
            "no deleted row comes back",
            _statements("DELETE", "DELETE", "OPTIMIZE"),
        ),
        Mutation(
            "same_ids",
            "row ids are given without a look at what winners gave",
            "row ids are unique",
            _statements("INSERT", "INSERT"),
        ),
        Mutation(
            "update_loses_id", "an update gives the row a new id", "a row keeps its id", _statements("UPDATE", "INSERT")
        ),
        Mutation(
            "no_look",
            "after a lost answer, it takes its own commit for a winner",
            "a failed statement writes nothing",
            _statements("DELETE", "INSERT"),
        ),
        Mutation(
            "no_fence",
            "a put that got no answer is reported as failed once its commit is not there, and is not put again",
            "a failed statement writes nothing",
            _statements("DELETE", "INSERT"),
        ),
    ),
)

_ONE = {"GROUPS": 1, "FOREIGN": 1}
GROUPS = Part(
    "groups",
    "headwater.groups",
    (
        Run("1 group, 1 foreign commit, 1 reader", _ONE, "short"),
        Run("1 group of 3 tables, 1 foreign commit, 1 reader", {**_ONE, "TABLES": 3}),
        Run("1 group, 1 writer of a table, 1 reader", {"GROUPS": 1, "FOREIGN": 0, "WRITERS": 1}),
        Run("2 groups that both remove the second seed, 1 reader", {"FOREIGN": 0, "REMOVES_0": 2, "REMOVES_1": 2}),
        Run("2 groups that both remove the first seed, 1 reader", {"FOREIGN": 0, "REMOVES_0": 1, "REMOVES_1": 1}),
        Run("1 group, 1 foreign commit, 2 readers", {**_ONE, "READERS": 2}, "long"),
        Run("1 group, 2 foreign commits, 1 reader", {**_ONE, "FOREIGN": 2}, "long"),
        Run("2 groups, any seeds, 1 reader", {"FOREIGN": 0}, "long"),
        Run("2 groups of the second seed, 1 foreign commit, 1 reader", {"REMOVES_0": 2, "REMOVES_1": 2}, "long"),
    ),
    (
        Mutation("decide_twice", "a decision replaces the one before", "decided once", _ONE),
        Mutation(
            "no_wait",
            "a writer commits after a commit that is not decided",
            "nothing builds on what is not decided",
            {"FOREIGN": 0, "READERS": 0, "REMOVES_0": 0, "REMOVES_1": 0},
        ),
        Mutation(
            "commit_incomplete",
            "whoever finds a group commits it without all of its commits",
            "committed only if complete",
            _ONE,
        ),
        Mutation("read_undecided", "readers show commits before the decision", "all or none", _ONE),
        Mutation("no_undo", "an aborted group is not undone", "what failed is never seen", _ONE),
        Mutation(
            "fail_undecided",
            "a writer that cannot go on reports a failure, and does not have the group aborted",
            "what failed is never seen",
            _ONE,
        ),
        Mutation("coordinator_last", "the coordinator's commit is put last", "what failed is never seen", _ONE),
        Mutation(
            "foreign_checkpoint",
            "another engine writes a checkpoint of a version that is not decided",
            "all or none",
            _ONE,
            assumption=True,
        ),
    ),
)

_CLEANING = {"READERS": 0}
_PAUSED = {"WRITERS": 4, "READERS": 0, "AT_ONCE": 1}
_VACUUM = {"READERS": 0, "MAINTENANCE": 0, "VACUUMS": 1}
CLEANING = Part(
    "cleaning",
    "headwater.log.cleanup",
    (
        Run("3 writers, 1 maintenance", _CLEANING, "short"),
        Run("2 writers, 1 maintenance, 1 reader", {"WRITERS": 2}),
        Run("3 writers, 1 VACUUM", _VACUUM),
        Run("2 writers, 1 maintenance, 1 VACUUM", {"WRITERS": 2, "READERS": 0, "VACUUMS": 1}),
        Run("2 writers, 2 maintenances", {"WRITERS": 2, "MAINTENANCE": 2, "READERS": 0}),
        Run("4 writers that read one version, 1 maintenance", _PAUSED, "long"),
        Run("4 writers, 1 maintenance", {"WRITERS": 4, "READERS": 0}, "long"),
        Run("3 writers, 1 maintenance, 1 reader", {}, "long"),
        Run("2 writers, 2 maintenances, 1 reader", {"WRITERS": 2, "MAINTENANCE": 2}, "long"),
    ),
    (
        Mutation(
            "ignore_cleanup",
            "a writer does not look whether its commit follows from one that is still there",
            "nothing is lost",
            _CLEANING,
        ),
        Mutation(
            "take_any_back",
            "a writer that looks takes back whatever commit has its version",
            "a failed statement writes nothing",
            _CLEANING,
        ),
        Mutation(
            "newest_time",
            "a writer that looks compares its commit with the newest one, which may have been put after it",
            "nothing is lost",
            _PAUSED,
        ),
        Mutation(
            "follow_any",
            "a writer follows winners although the version that it read is gone",
            "conflicts are found",
            _PAUSED,
        ),
        Mutation(
            "clean_first",
            "the log is cleaned up before the checkpoint is there",
            "every version within the retention can be read",
            _CLEANING,
        ),
        Mutation(
            "half_checkpoint",
            "cleanup counts on a checkpoint of which a part is missing",
            "every version within the retention can be read",
            {"WRITERS": 2, "MAINTENANCE": 2, "READERS": 0},
        ),
        Mutation("newest_first", "cleanup deletes the newest commits first", "nothing is lost", _CLEANING),
        Mutation(
            "hint_first", "`_last_checkpoint` is written first, and believed", "no reader is stopped", {"WRITERS": 2}
        ),
        Mutation(
            "no_tombstones",
            "VACUUM keeps the files of the newest version alone",
            "no file that a version needs is deleted",
            _VACUUM,
        ),
        Mutation(
            "young_files",
            "the retention of VACUUM is shorter than a statement",
            "no file that a version needs is deleted",
            _VACUUM,
            assumption=True,
        ),
    ),
)

PARTS = (ROWS, GROUPS, CLEANING)
