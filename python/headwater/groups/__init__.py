"""Transactions over several statements and tables: commits of several tables that succeed or fail together.

This is the protocol of a *group* of commits; :mod:`headwater.transaction.commit_loop` has that of a single one. The
tables are plain tables of one store, without any feature; each may be written by other engines at the same time. What
the commits say of their group, where its decision is, and what readers make of it are :mod:`headwater.log.groups`'s.

**Failure model.** That of a single commit (:mod:`headwater.transaction.commit_loop`). Other engines know nothing of
groups: they see each commit once it is in its log, and may commit between any two steps.

**Steps.**

1. *Check.* For each table, what others have committed since the version that was read is checked for conflicts. One
   ends the group: nothing happened.
2. *Stage.* For each table but the first, the commit is put, under a name that no other has, into ``_staged_commits``
   beside the log, as it is to be published. A crash leaves files that nobody reads.
3. *Put the first*, the coordinator's, which names all others. A lost race is as for any commit. From here on, the group
   is there, and whoever meets it finishes it.
4. *Publish the others*, by put-if-absent. A commit that loses a race moves behind the winner, if that is no conflict.
   If the winner is part of another group, the commit waits until that group is decided.
5. *Decide.* The decision is put if absent: committed. This step counts: before it, no reader of ours sees any of the
   commits; after it, all.
6. *Where a conflict, or the store, stopped step 4:* the decision is that the group is aborted, and each commit that is
   in a log is undone by another (:mod:`headwater.groups.undoing`). Others may also decide so if the writer
   seems dead and a place was taken; then step 5 finds their decision.

**Order.** All groups put the commits of their tables in one order, whatever they do to them: else two groups could wait
for each other in step 4. It is the order of the tables' identifiers, which are the same by whatever path a table is
reached. Yet tables that are append-only come after all others, as their commits cannot be undone, and those that a
group creates come last, as undoing leaves an empty table. Neither lets groups differ: a group that creates a table
conflicts with all others that have it, and for no longer than it takes to see that. Whether a table is append-only may
change while groups are at work. A group that is about to wait, and finds that the order of its tables has changed since
it took them, aborts itself.

**Invariants,** in every state, whoever died; ``python -m model`` checks them by these names (``model/groups.pml``).
Another engine that has built on a commit before it is undone is the exception to the first three:

- *all or none*: once a reader has seen a group in one table, whoever begins to read sees it in all; in the end, all
  tables have its commit or none has.
- *what failed is never seen* by a reader, if its writer has reported the failure.
- *a failed statement writes nothing*: in the end, no table has a commit of such a group.
- *nothing is lost*: in the end, all tables have the commits of an acknowledged group.
- *one or none*: no table has two commits of a group.
- *decided once*: a decision never changes.
- *committed only if complete*: all commits are in their logs before the decision.
- *nothing builds on what is not decided*: no commit of Headwater follows one that may yet be undone.
- *conflicts are found*: a group removes no file that is gone.
- *what is undone leaves no trace*: undoing gives back what the commit removed, and nothing that others removed.

**How it is tested.** ``tests/groups/test_groups.py`` cuts off every call, has others commit between any two, and
compares what any reader sees with a model. ``test_unsettled_groups.py`` has what becomes of what was cut off.

**Who does what.** A statement of an open transaction commits to a pending log (:mod:`headwater.groups.pending`). COMMIT
makes one commit for each table of its pending ones (:mod:`headwater.groups.composing`,
:mod:`headwater.groups.net_changes`), checks what was only read (:mod:`headwater.groups.only_read`), and takes the steps
(:mod:`headwater.groups.group_commit`). What a crash cuts off is finished by whoever meets it
(:mod:`headwater.groups.settling`), unless its writer is at work (:mod:`headwater.groups.at_work`).
"""
