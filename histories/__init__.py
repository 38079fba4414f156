"""Histories of clients, and checkers that say whether what was promised of isolation was kept.

``python -m histories`` starts clients in processes of their own, stops and kills them, moves their clocks, loses and
repeats what they ask of a store, and keeps what each asked for and was told, with times. Then two judges look at this
history, and at nothing else: Porcupine, which searches for an order in which each table behaves as if its ops took
effect one after the other (:mod:`histories.linearizability`), and Elle's method, which infers who depends on whom and
searches for cycles (:mod:`histories.anomalies`).

**What is checked of what is promised** (``docs/guarantees.md``, ``docs/concepts/isolation.md``,
``docs/guides/transactions.md``):

1. *A table is linearizable*, at either level: statements and queries of it take effect at one moment between call and
   end, in one order for all. This holds of queries at ``WriteSerializable`` too, as long as rows that others append
   cannot be what a statement misses: on tables of lists, where each statement reads the rows that it changes, and on
   tables that only get more rows.
2. *At* ``WriteSerializable``, *writers are serializable, and in real time; queries are not part of it.* Where rows are
   appended without reading and also deleted, a DELETE may come before an INSERT that it did not see, though its version
   is later. So queries are left out, but for those at the end. At ``Serializable`` they are in.
3. *A transaction takes effect on each of its tables at one moment.* Each of its tables stays linearizable with it.
4. *Of another transaction, all is seen or nothing* (read atomicity; Bailis et al., 2014): no fractured reads, by
   transactions of either level.
5. *Single statements, and what transactions write with what their UPDATE and MERGE read, are serializable*: the graph
   of their dependencies has no cycle, over all tables. What queries of a transaction read is a version of each table,
   which may be of different moments, and is not checked at COMMIT: they are nodes of their own.
6. *Transactions* ``ISOLATION LEVEL SERIALIZABLE`` *are serializable as a whole*, with their queries: one node each.
   Real time does not count between tables: a query of one table may see what came after such a transaction while a
   later query of another table does not see the transaction yet, in the milliseconds of its COMMIT.
7. *A micro-batch is committed once*, however often it is tried.
8. *An error is what it says*: nothing of a statement that failed is ever seen, what was acknowledged remains, and
   only errors that say so leave the outcome open.

Not checked: which error is the right one, what a store without its properties does, and schema changes; these are the
matter of ``tests/concurrency`` and ``tests/faults``.
"""
