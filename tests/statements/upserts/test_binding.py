"""Deletions count once their batch is in the table, and never before: batches that fail anywhere, in any interleaving.

``HEADWATER_TEST_EXAMPLES`` asks for another number of stories.
"""

from __future__ import annotations

import os
import random

import pytest

from headwater.log.checkpoint_writing import write_checkpoint
from headwater.statements.upserts import binding
from headwater.transaction import maintenance
from support.deleting_batches import Batch, World

STORIES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "3"))
_STEPS = 60


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(maintenance, "schedule", lambda *_: None)


class Story:
    """A few batches at once, whose steps a seed chooses."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.chance = world, random.Random(seed)
        self.running: list[tuple[Batch, str]] = []

    def step(self) -> None:
        """One step of a batch, or of something else."""
        world, chance = self.world, self.chance
        world.now += chance.choice([1, 60, 1800])
        while len(self.running) < 4:
            self.running.append((world.batch(), "look"))
        batch, step = self.running.pop(chance.randrange(len(self.running)))
        if chance.random() < 0.1:
            return  # it fails, or is killed
        match step:
            case "look":
                batch.look()
                self.running.append((batch, "bind"))
            case "bind":
                if self.running and chance.random() < 0.3:
                    # Others go on right before it commits to the companion.
                    batch.before_commits = [self.step]
                batch.bind()
                self.running.append((batch, "commit"))
            case "commit":
                if batch.commit():
                    self.running.append((batch, "confirm"))
                else:
                    self.running.append((batch, "look"))
            case "confirm":
                batch.confirm()


@pytest.mark.parametrize("retention", [None, "interval 1 hours"], ids=["", "transactions_expire"])
def test_deletions_count_once_their_batch_is_in_the_table(monkeypatch, retention):
    """No entry expires here, but the table's ``txn`` may, and then it leaves the table with the next checkpoint."""
    for seed in range(STORIES):
        world = World(monkeypatch, retention, tombstoneretention="1000 days")
        story = Story(world, seed)
        try:
            for number in range(_STEPS):
                story.step()
                if number % 7 == 0:
                    write_checkpoint(world.table())
                    world.set_store(world.disk)
                world.check()
        except Exception as error:
            raise AssertionError(f"story {seed}, at step {number}") from error
    # Files are few again, and what failed has gone.
    for _ in range(40):
        world.batch().run()
    world.check()
    files = world.companion_files()
    assert files.num_rows <= 34
    assert sum(mark is not None for mark in binding.marks(files)) <= 1


def test_deletions_of_before_there_were_marks_count(monkeypatch):
    """The table's ``txn`` then named a version of the companion."""
    world = World(monkeypatch)
    first = world.batch()
    first.look()
    with monkeypatch.context() as older:
        older.setattr(binding.Mark, "put_on", lambda self, files: list(files))
        first.bind()
    first.number = 0
    assert first.commit()
    world.check()
    failing = world.batch()
    failing.look()
    failing.bind()
    world.check()
    world.batch().run()
    world.check()


@pytest.mark.parametrize("tags", [{"headwater.batch": "x"}, {"headwater.batch": "1", "headwater.batch.after": "1"}])
def test_marks_that_say_nothing(monkeypatch, tags):
    """A file with a mark that another writer has spoilt does not count, and ends no upsert."""
    world = World(monkeypatch)
    batch = world.batch()
    batch.look()
    with monkeypatch.context() as spoilt:
        spoilt.setattr(binding.Mark, "put_on", lambda self, files: [binding.replace(f, tags=tags) for f in files])
        batch.bind()
    world.check()
    world.batch().run()
    world.check()
