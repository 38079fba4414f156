/*
 * Commits of several tables that stand or fall together: staged commits, one decision, writers and readers that die.
 *
 * Each table begins with one file, the seed. A group adds a file to every table, and removes the seed of some. Groups
 * put their commits in the order of the tables; table 0 is the coordinator of all. Beside them are readers, which finish
 * what they find undecided, other writers of one table, and another engine, which knows nothing of groups and commits at
 * any moment. Every process but the other engine's commits may die at each step; the answer of each conditional put may
 * be lost. Waiting is bounded: a writer that waits for another group may give up at any time, and a reader may take a
 * writer for dead that is only slow.
 *
 * Every printed step begins with the function of the code that it stands for.
 */

#ifndef TABLES
#define TABLES 2
#endif
#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef WRITERS
#define WRITERS 0               /* of one table, with Headwater */
#endif
#ifndef FOREIGN
#define FOREIGN 1               /* commits of another engine */
#endif
#define MOST (2 * GROUPS + WRITERS + FOREIGN + 1)

#define AT(g, t) ((g) * TABLES + (t))
#define IN(t, v) ((t) * MOST + (v))
#define INVARIANT(name, holds) assert(holds)

/* What a commit in a log is. */
#define OF_GROUP 1              /* and the number of the group */
#define UNDO 11                 /* and the number of the group */
#define APPEND 20
#define TAKES_SEED 21           /* removes the seed of the table */
#define BUILDS_ON 22            /* removes the file of a group; and the number of the group */
#define IS_OF_GROUP(e) ((e) >= OF_GROUP && (e) < OF_GROUP + GROUPS)
#define GROUP_OF(e) ((e) - OF_GROUP)

byte entry[TABLES * MOST];      /* the logs, by version */
byte newest[TABLES];
byte at[GROUPS * TABLES];       /* the version that is a group's commit, and the one that undid it; 0 for none */
byte undone[GROUPS * TABLES];
bool seed_gone[TABLES];         /* as replayed */
bool file_there[GROUPS * TABLES];
byte removes[GROUPS];           /* the tables whose seed a group removes */

/* Files beside the logs. */
byte wanted[GROUPS * TABLES];   /* the version a commit was staged for; in the coordinator's commit */
bool staged[GROUPS * TABLES];
#define COMMITTED 1
#define ABORTED 2
byte decision[GROUPS];
#define SETTLED 1
#define NOT_UNDONE 3
byte note[GROUPS * TABLES];

/* What was promised and seen. */
#define RUNNING 0
#define ACKNOWLEDGED 1
#define FAILED 2
#define OPEN 3                  /* unknown to its client, or the writer died */
byte outcome[GROUPS];
bool was_seen[GROUPS];
bool is_built_on[GROUPS];       /* by another engine, before the group was decided or undone */
byte first_decision[GROUPS];
#ifdef MUTATE_FOREIGN_CHECKPOINT
byte checkpoint[TABLES];        /* of another engine, with whatever is in the log */
#endif

/* ---- logs ------------------------------------------------------------------------------------------------------- */

#define IS_SETTLED(h, t) (decision[h] == COMMITTED || undone[AT(h, t)] != 0 || note[AT(h, t)] == NOT_UNDONE)

/* The newest version of a table that is settled, and whether it still has its seed. */
inline load_settled(t, version)
{
  version = newest[t]; h = 0;
  do
  :: h == GROUPS -> break
  :: else ->
    if
    :: at[AT(h, t)] && at[AT(h, t)] <= version && !IS_SETTLED(h, t) -> version = at[AT(h, t)] - 1; h = 0
    :: at[AT(h, t)] && at[AT(h, t)] <= version && decision[h] != COMMITTED && undone[AT(h, t)] > version ->
      version = at[AT(h, t)] - 1; h = 0
    :: else -> h++
    fi
  od;
  h = 0
}

inline has_seed_at(t, version, result)
{
  v = 1; result = true;
  do
  :: v > version -> break
  :: else ->
    if
    :: entry[IN(t, v)] == TAKES_SEED -> result = false
    :: IS_OF_GROUP(entry[IN(t, v)]) && ((removes[GROUP_OF(entry[IN(t, v)])] >> t) & 1) -> result = false
    :: entry[IN(t, v)] >= UNDO && entry[IN(t, v)] < UNDO + GROUPS && ((removes[entry[IN(t, v)] - UNDO] >> t) & 1) ->
      result = true
    :: else
    fi;
    v++
  od;
  v = 0
}

/* Nobody with Headwater puts a commit after one that may yet be undone. */
inline check_builds_on_settled(t)
{
  h = 0;
  do
  :: h == GROUPS -> break
  :: else -> INVARIANT("nothing builds on what is not decided", at[AT(h, t)] == 0 || IS_SETTLED(h, t)); h++
  od;
  h = 0
}

inline put_of_group(g, t)
{
  check_builds_on_settled(t);
  INVARIANT("one or none", at[AT(g, t)] == 0);
  newest[t]++;
  entry[IN(t, newest[t])] = OF_GROUP + g;
  at[AT(g, t)] = newest[t];
  file_there[AT(g, t)] = true;
  if :: (removes[g] >> t) & 1 -> INVARIANT("conflicts are found", !seed_gone[t]); seed_gone[t] = true :: else fi
}

/* What winners of versions from `from` on are to a writer: whether it must wait for one, or conflicts with one. */
inline follow_winners(t, from, takes_seed, result)
{
  v = from; result = 0;
  do
  :: v > newest[t] || result -> break
  :: else ->
    if
#ifndef MUTATE_NO_WAIT
    :: IS_OF_GROUP(entry[IN(t, v)]) && !IS_SETTLED(GROUP_OF(entry[IN(t, v)]), t) -> result = 1
#endif
    :: else ->
      if
      :: takes_seed && entry[IN(t, v)] == TAKES_SEED -> result = 2
      :: takes_seed && IS_OF_GROUP(entry[IN(t, v)]) && ((removes[GROUP_OF(entry[IN(t, v)])] >> t) & 1) -> result = 2
      :: else -> v++
      fi
    fi
  od;
  v = 0
}
#define MUST_WAIT 1
#define CONFLICTS 2
#define IS_DONE(h, t) (at[AT(h, t)] == 0 || IS_SETTLED(h, t))
#if GROUPS > 2
#define IS_SETTLED_ALL(t) (IS_DONE(0, t) && IS_DONE(1, t) && IS_DONE(2, t))
#elif GROUPS > 1
#define IS_SETTLED_ALL(t) (IS_DONE(0, t) && IS_DONE(1, t))
#else
#define IS_SETTLED_ALL(t) IS_DONE(0, t)
#endif

/* log.groups:decide: put if absent; whoever finds a decision takes that. */
inline put_decision(g, proposed)
{
#ifdef MUTATE_DECIDE_TWICE
  decision[g] = proposed;
#else
  if :: decision[g] == 0 -> decision[g] = proposed :: else fi;
#endif
  if :: first_decision[g] == 0 -> first_decision[g] = proposed :: else fi;
  INVARIANT("decided once", decision[g] == first_decision[g]);
  t = 0;
  do
  :: t == TABLES || decision[g] == ABORTED -> break
  :: else -> INVARIANT("committed only if complete", at[AT(g, t)] != 0); t++
  od;
  t = 0
}

/* groups.undoing:undo, for one table: a commit on the newest version, prepared again after a lost race. */
#define UNDO_OF(who, may_die, g, t, again, done) \
again: \
  atomic { \
    if \
    :: may_die -> goto died \
    :: at[AT(g, t)] == 0 -> goto done \
    :: undone[AT(g, t)] -> note[AT(g, t)] = SETTLED; goto done \
    :: at[AT(g, t)] && !undone[AT(g, t)] && !file_there[AT(g, t)] -> \
      printf("groups.undoing:_prepared | %d cannot undo group %d in table %d: another built on it\n", who, g, t); \
      note[AT(g, t)] = NOT_UNDONE; goto done \
    :: at[AT(g, t)] && !undone[AT(g, t)] && file_there[AT(g, t)] -> base = newest[t] \
    fi \
  } \
  atomic { \
    if \
    :: may_die -> goto died \
    :: newest[t] > base -> base = 0; goto again \
    :: newest[t] == base -> \
      printf("groups.undoing:undo | %d undoes group %d in table %d by version %d\n", who, g, t, base + 1); \
      newest[t]++; base = 0; \
      entry[IN(t, newest[t])] = UNDO + g; \
      undone[AT(g, t)] = newest[t]; \
      file_there[AT(g, t)] = false; \
      if :: (removes[g] >> t) & 1 -> seed_gone[t] = false :: else fi; \
      goto again \
    fi \
  }

/* ---- processes -------------------------------------------------------------------------------------------------- */

proctype Writer(byte g)
{
  byte next[TABLES];
  byte t, v, h, base, found;
  bool has_seed;

  atomic {
    d_step {
      do
      :: t == TABLES -> break
      :: else ->
        load_settled(t, next[t]);
        has_seed_at(t, next[t], has_seed);
        if :: !has_seed -> removes[g] = removes[g] & ~(1 << t) :: else fi;
        next[t]++; t++
      od;
      t = 0; has_seed = false;
      printf("groups.group_commit:commit_together | group %d begins after version %d of table 0 and %d of table 1\n",
             g, next[0] - 1, next[1] - 1)
    }
  }
  atomic {
    if :: goto died :: true fi;
    d_step {
      t = 1;
      do
      :: t == TABLES -> break
      :: else -> wanted[AT(g, t)] = next[t]; staged[AT(g, t)] = true; t++
      od;
      t = 0;
      printf("groups.group_commit:_Group._stage | group %d stages its commits\n", g)
    }
  }
#ifdef MUTATE_COORDINATOR_LAST
  t = 1;
  goto others;
#endif

first: /* Step 3. */
  atomic {
    if
    :: goto died
    :: newest[0] < next[0] ->
      d_step {
        printf("groups.group_commit:_Group._put_first | group %d puts version %d of table 0\n", g, next[0]);
        put_of_group(g, 0)
      };
#ifndef MUTATE_COORDINATOR_LAST
      t = 1;
#endif
      if
      :: true
      :: printf("transaction.committers:StoreCommitter._look_for | group %d cannot find out about its commit\n", g);
         goto died
      fi
    :: newest[0] < next[0] ->
      printf("groups.group_commit:_Group._delete_staged | group %d: the store failed\n", g);
      goto failed
    :: newest[0] >= next[0] ->
      d_step { follow_winners(0, next[0], removes[g] & 1, found) };
      if
      :: found == MUST_WAIT -> found = 0; goto wait_first
      :: found == CONFLICTS -> found = 0;
        printf("transaction.commit_loop:CommitLoop.follow_winners | group %d conflicts in table 0\n", g);
        goto failed
      :: else -> next[0] = newest[0] + 1; goto first
      fi
    fi
  }
#ifdef MUTATE_COORDINATOR_LAST
  goto decide;
#endif
  goto others;
wait_first:
  if
  :: IS_SETTLED_ALL(0) -> goto first
  :: printf("log.groups:settle | group %d waits in vain in table 0\n", g); goto failed
  fi;

others: /* Step 4. */
other:
  atomic {
    if
    :: goto died
    :: newest[t] >= next[t] && at[AT(g, t)] == next[t] ->
      printf("transaction.committers:StoreCommitter._look_for | group %d: another published table %d\n", g, t)
    :: newest[t] < next[t] ->
      d_step {
        printf("groups.group_commit:_Group._put_others | group %d puts version %d of table %d\n", g, next[t], t);
        put_of_group(g, t)
      };
      if
      :: true
      :: printf("transaction.committers:StoreCommitter._look_for | group %d cannot find out about table %d\n", g, t);
         goto give_up
      fi
    :: newest[t] < next[t] -> goto give_up /* the store failed */
    :: newest[t] >= next[t] && at[AT(g, t)] != next[t] ->
      d_step { follow_winners(t, next[t], (removes[g] >> t) & 1, found) };
      if
      :: found == MUST_WAIT -> found = 0; goto wait_other
      :: found == CONFLICTS -> found = 0;
        printf("transaction.commit_loop:CommitLoop.follow_winners | group %d conflicts in table %d\n", g, t);
        goto give_up
      :: else ->
        printf("transaction.commit_loop:CommitLoop.follow_winners | group %d goes behind version %d of table %d\n",
               g, newest[t], t);
        next[t] = newest[t] + 1; goto other
      fi
    fi;
    t++;
    if :: t < TABLES -> goto other :: else -> goto all_put fi
  }
wait_other:
  if
  :: IS_SETTLED_ALL(t) -> goto other
  :: printf("log.groups:settle | group %d waits in vain in table %d\n", g, t); goto give_up
  fi;
all_put:
#ifdef MUTATE_COORDINATOR_LAST
  t = 0;
  goto first;
#endif

decide: /* Step 5. */
  atomic {
    if
    :: goto died
    :: d_step {
        put_decision(g, COMMITTED);
        printf("log.groups:decide | group %d proposes that it is committed: decision %d\n", g, decision[g])
      }
      if :: true :: goto died fi /* the answer is lost, and the decision cannot be read */
    fi;
    if
    :: decision[g] == ABORTED -> t = 0; goto undo
    :: else -> goto committed
    fi
  }

give_up: /* Step 6. */
#ifdef MUTATE_FAIL_UNDECIDED
  goto failed;
#endif
  atomic {
    if
    :: goto died
    :: d_step {
        put_decision(g, ABORTED);
        printf("groups.group_commit:_Group._give_up | group %d proposes that it is aborted: decision %d\n", g, decision[g])
      }
    fi;
    if
    :: decision[g] == COMMITTED -> goto committed
    :: else -> t = 0; goto undo
    fi
  }

undo:
#ifndef MUTATE_NO_UNDO
  UNDO_OF(g, true, g, t, undo_one, undone_one)
undone_one:
  atomic { t++; if :: t < TABLES -> goto undo_one :: else -> goto failed fi }
#endif

failed:
  atomic {
    printf("groups.group_commit:_Group.commit | group %d reports that nothing is committed\n", g);
    outcome[g] = FAILED;
    INVARIANT("what failed is never seen", !was_seen[g] || is_built_on[g]);
    goto tidy
  }
committed:
  atomic {
    outcome[g] = ACKNOWLEDGED;
    printf("groups.group_commit:_Group.commit | group %d is acknowledged\n", g)
  }
tidy:
  atomic {
    if :: goto ended :: true fi;
    d_step {
      t = 1;
      do
      :: t >= TABLES -> break
      :: else ->
        staged[AT(g, t)] = false;
        if :: outcome[g] == ACKNOWLEDGED -> note[AT(g, t)] = SETTLED :: else fi;
        t++
      od;
      printf("groups.group_commit:_Group._tidy_up | group %d\n", g)
    }
    goto ended
  }
died:
  outcome[g] = OPEN;
ended:
  atomic { t = 0; v = 0; h = 0; base = 0; found = 0; next[0] = 0; next[1] = 0 }
}

/* A writer of one table: it builds on nothing that is not settled. */
proctype Single(byte t)
{
  byte next, v, h, found;
  bool has_seed, takes_seed;
  atomic {
    d_step { load_settled(t, next); has_seed_at(t, next, has_seed); next++ };
    if :: has_seed -> takes_seed = true :: true fi
  }
again:
  atomic {
    if
    :: goto ended
    :: newest[t] < next ->
      d_step {
        printf("transaction.commit_loop:CommitLoop.put | a writer of table %d puts version %d\n", t, next);
        check_builds_on_settled(t);
        newest[t]++;
        entry[IN(t, next)] = (takes_seed -> TAKES_SEED : APPEND);
        if :: takes_seed -> INVARIANT("conflicts are found", !seed_gone[t]); seed_gone[t] = true :: else fi
      }
      goto ended
    :: newest[t] >= next ->
      d_step { follow_winners(t, next, takes_seed, found) };
      if
      :: found == MUST_WAIT -> found = 0; goto wait
      :: found == CONFLICTS -> goto ended
      :: else -> next = newest[t] + 1; goto again
      fi
    fi
  }
wait:
  if :: IS_SETTLED_ALL(t) -> goto again :: goto ended fi;
ended:
  atomic { next = 0; found = 0; has_seed = false; takes_seed = false }
}

/* An engine that knows nothing of groups commits on the newest version in the log. */
proctype Foreign()
{
  byte t, g;
  do
  :: t < TABLES - 1 -> t++
  :: break
  od;
  atomic {
    newest[t]++;
    if
    :: entry[IN(t, newest[t])] = APPEND;
      printf("another engine | appends: version %d of table %d\n", newest[t], t)
    :: !seed_gone[t] -> entry[IN(t, newest[t])] = TAKES_SEED; seed_gone[t] = true;
      printf("another engine | removes the seed: version %d of table %d\n", newest[t], t)
    :: file_there[AT(0, t)] -> g = 0; goto builds
    :: file_there[AT(GROUPS - 1, t)] -> g = GROUPS - 1; goto builds
    fi;
    goto ended;
builds:
    entry[IN(t, newest[t])] = BUILDS_ON + g; file_there[AT(g, t)] = false;
    if :: decision[g] != COMMITTED -> is_built_on[g] = true :: else fi;
    printf("another engine | removes the file of group %d: version %d of table %d\n", g, newest[t], t);
ended:
#ifdef MUTATE_FOREIGN_CHECKPOINT
    checkpoint[t] = newest[t];
    printf("another engine | writes a checkpoint of version %d of table %d\n", newest[t], t);
#endif
    t = 0; g = 0
  }
}

/* A process that loads each table once, and finishes what it finds undecided. `last`: nobody else is at work. */
proctype Reader(byte me; bool backwards; bool last)
{
  byte t, v, h, base, must, table, listed, g, shown;
  bool complete, holds_staged;

  table = (backwards -> TABLES - 1 : 0);
read:
  atomic {
    must = 0; g = 0;
    do
    :: g == GROUPS -> break
    :: else -> if :: was_seen[g] || outcome[g] == ACKNOWLEDGED -> must = must | (1 << g) :: else fi; g++
    od;
    g = 0
  }
list:
  atomic {
    listed = newest[table]; shown = listed;
#ifdef MUTATE_FOREIGN_CHECKPOINT
    v = checkpoint[table] + 1;
#else
    v = 1;
#endif
    printf("log.snapshot:load_snapshot | reader %d lists table %d up to version %d\n", me, table, listed)
  }
next_commit:
  atomic {
    do
    :: v > listed -> goto view
    :: v <= listed && IS_OF_GROUP(entry[IN(table, v)]) -> g = GROUP_OF(entry[IN(table, v)]); goto standing
    :: else -> v++
    od
  }

standing: /* log.groups:standing of the commit of group g in this table */
#ifdef MUTATE_READ_UNDECIDED
  v++; goto next_commit;
#endif
  atomic {
    if
    :: table == 0 && decision[g] == COMMITTED -> goto stands
    :: note[AT(g, table)] && (table != 0 || decision[g] != COMMITTED) -> goto noted
    :: else
    fi
  }
  atomic {
    if
    :: decision[g] == COMMITTED -> goto stands_and_note
    :: decision[g] == ABORTED -> goto aborted
    :: else
    fi
  }
  atomic {
    if
    :: decision[g] == 0 && at[AT(g, 0)] == 0 ->
      printf("log.groups:_standing | reader %d finds no record of group %d: it stands\n", me, g); goto stands
    :: else -> t = 1; complete = true
    fi
  }
there: /* groups.settling:_is_there */
  atomic {
    if
    :: at[AT(g, t)] -> goto next_participant
    :: at[AT(g, t)] == 0 && newest[t] >= wanted[AT(g, t)] -> complete = false; goto finish
    :: at[AT(g, t)] == 0 && newest[t] < wanted[AT(g, t)] && !staged[AT(g, t)] -> complete = false; goto finish
    :: at[AT(g, t)] == 0 && newest[t] < wanted[AT(g, t)] && staged[AT(g, t)]
    fi
  }
  atomic { /* groups.settling:_publish; the staged commit was read before */
    if
    :: !last -> goto ended /* dies */
    :: newest[t] + 1 == wanted[AT(g, t)] ->
      d_step {
        printf("groups.settling:_publish | reader %d publishes version %d of table %d for group %d\n",
               me, wanted[AT(g, t)], t, g);
        base = t; put_of_group(g, base); base = 0
      }
    :: newest[t] + 1 > wanted[AT(g, t)] -> complete = (complete && at[AT(g, t)])
    fi
  }
next_participant:
  atomic { t++; if :: complete && t < TABLES -> goto there :: else fi }

finish: /* groups.settling:_Settler.finish */
  atomic {
#ifdef MUTATE_COMMIT_INCOMPLETE
    complete = true;
#endif
    if
    :: !last -> goto ended
    :: complete ->
      d_step {
        put_decision(g, COMMITTED);
        printf("groups.settling:_Settler.finish | reader %d proposes that group %d is committed: decision %d\n",
               me, g, decision[g])
      }
    :: !complete && !last -> /* groups.at_work:is_at_work */
      printf("groups.at_work:is_at_work | reader %d leaves group %d to its writer\n", me, g);
      shown = v - 1; goto view
    :: !complete ->
      d_step {
        put_decision(g, ABORTED);
        printf("groups.settling:_Settler.finish | reader %d proposes that group %d is aborted: decision %d\n",
               me, g, decision[g])
      }
    fi;
    if
    :: decision[g] == COMMITTED -> goto stands_and_note
    :: else
    fi
  }

aborted: /* log.groups:_given_up, groups.settling:_Settler.undo_all */
  t = 0;
#ifdef MUTATE_NO_UNDO
  goto noted;
#endif
  UNDO_OF(me, !last, g, t, undo_one, undone_one)
undone_one:
  atomic { t++; if :: t < TABLES -> goto undo_one :: else -> t = 0 fi }

noted: /* where it is undone, it is shown together with what undid it: log.groups:shown_from */
  atomic {
    if
    :: undone[AT(g, table)] > listed -> goto list
    :: else -> v++; goto next_commit
    fi
  }
stands_and_note:
  atomic { if :: table != 0 -> note[AT(g, table)] = SETTLED :: else fi }
stands:
  atomic { v++; goto next_commit }

view:
  atomic {
    g = 0;
    do
    :: g == GROUPS -> break
    :: else ->
      if
      :: at[AT(g, table)] && at[AT(g, table)] <= shown &&
         !(undone[AT(g, table)] && undone[AT(g, table)] <= shown) ->
        printf("log.snapshot:load_snapshot | reader %d sees group %d in table %d\n", me, g, table);
        INVARIANT("what failed is never seen", outcome[g] != FAILED || is_built_on[g]);
        was_seen[g] = true
      :: else ->
        INVARIANT("all or none", !((must >> g) & 1) || is_built_on[g])
      fi;
      g++
    od;
    g = 0; v = 0; t = 0;
    if
    :: !backwards && table < TABLES - 1 -> table++; goto read
    :: backwards && table > 0 -> table--; goto read
    :: else -> goto ended
    fi
  }
died:
  skip;
ended:
  atomic { t = 0; v = 0; h = 0; base = 0; must = 0; table = 0; listed = 0; g = 0; shown = 0; complete = false }
}

init {
  byte n = 0, g = 0, t = 0;
  bool some = false, other = false, gone = false;
  atomic {
#ifndef REMOVES_0
    do
    :: n == GROUPS -> break
    :: else ->
      /* Which seeds it removes; tables are not alike, as they have an order. */
      do
      :: t < TABLES -> if :: removes[n] = removes[n] | (1 << t) :: true fi; t++
      :: t == TABLES -> break
      od;
      t = 0; n++
    od;
#endif
#ifdef REMOVES_0
    removes[0] = REMOVES_0;
#endif
#ifdef REMOVES_1
    removes[1] = REMOVES_1;
#endif
    n = 0;
    do :: n == GROUPS -> break :: else -> run Writer(n); n++ od;
    n = 0;
    do :: n == FOREIGN -> break :: else -> run Foreign(); n++ od;
    n = 0;
    do :: n == WRITERS -> break :: else -> run Single(n % TABLES); n++ od;
    n = 0;
    do :: n == READERS -> break :: else -> run Reader(n, n % 2, false); n++ od;
    n = 0
  }
  /* When all is over, whoever reads finishes what is left. */
  atomic { _nr_pr == 1 -> run Reader(100, false, true) }
  atomic {
    _nr_pr == 1 ->
    g = 0;
    do
    :: g == GROUPS -> break
    :: else ->
      some = false; other = false; t = 0;
      do
      :: t == TABLES -> break
      :: else ->
        if
        :: at[AT(g, t)] && !undone[AT(g, t)] -> some = true
        :: else -> other = true
        fi;
        t++
      od;
      INVARIANT("all or none", !some || !other || is_built_on[g]);
      INVARIANT("nothing is lost", outcome[g] != ACKNOWLEDGED || !other);
      INVARIANT("a failed statement writes nothing", outcome[g] != FAILED || !some || is_built_on[g]);
      g++
    od;
    t = 0;
    do
    :: t == TABLES -> break
    :: else ->
      gone = false; n = 1;
      do
      :: n > newest[t] -> break
      :: else ->
        if
        :: entry[IN(t, n)] == TAKES_SEED -> gone = true
        :: IS_OF_GROUP(entry[IN(t, n)]) && !undone[AT(GROUP_OF(entry[IN(t, n)]), t)] &&
           ((removes[GROUP_OF(entry[IN(t, n)])] >> t) & 1) -> gone = true
        :: else
        fi;
        n++
      od;
      INVARIANT("what is undone leaves no trace", gone == seed_gone[t]);
      t++
    od
  }
}
