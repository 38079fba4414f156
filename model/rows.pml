/*
 * The rows of one table: several writers, deletion vectors, compaction that moves marks, row ids.
 *
 * The table begins with two files, A (rows 0 and 1) and B (row 2). Each writer runs one statement, once: it loads a
 * snapshot at any moment, prepares its commit, and takes the steps of the commit loop. It may die at any step. The
 * answer to its put may be lost, or there is none and the store carries the put out at any later time, or never. Some writers are of another engine: they commit by put-if-absent with a conflict check
 * of their own, and know neither row-level concurrency nor the record of moved rows.
 *
 * After each commit, the table is compared with what the statements mean, one after the other: every live row once, with
 * its last value and its id. Vectors hold positions, not rows, so that moves are computed as the code computes them.
 *
 * Every printed step begins with the function of the code that it stands for.
 */

#ifndef WRITERS
#define WRITERS 3
#endif
#define PATHS (WRITERS + 2)     /* A, B, and a file of each writer */
#define SLOTS (WRITERS + 2)     /* rows of a file at most: all but one writer insert one */
#define ROWS (WRITERS + 3)      /* three, and one that each writer may insert */
#define DEAD 255
#define FRESH 254               /* a row without a stored id: its id is its file's first id and its position */
#define NONE 255

/* Statements, those of another engine last. */
#define DELETE 0                /* marks a row in a deletion vector */
#define UPDATE 1                /* marks a row, and writes it to a new file, with its id */
#define REWRITE 2               /* deletes a row by copy-on-write */
#define OPTIMIZE 3              /* copies all files to one, with a record of what moved where */
#define INSERT 4
#define FOREIGN_DELETE 5        /* a deletion vector, with any concurrent change of the file a conflict */
#define FOREIGN_REWRITE 6
#define FOREIGN_OPTIMIZE 7      /* without a record */
#ifndef LAST_KIND
#define LAST_KIND FOREIGN_OPTIMIZE
#endif

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2) + HAS(set, 3) + HAS(set, 4) + HAS(set, 5))
#define BELOW(set, n) COUNT((set) & (BIT(n) - 1))
#define IS_FOREIGN(k) ((k) >= FOREIGN_DELETE)
#define COPIES(k) ((k) == OPTIMIZE || (k) == FOREIGN_OPTIMIZE)
#define MARKS(k) ((k) == DELETE || (k) == UPDATE || (k) == FOREIGN_DELETE)
#define HAS_MARKS (MARKS(kind[i]) || moved_whole)
#define REWRITES(k) ((k) == REWRITE || (k) == FOREIGN_REWRITE)
#define INVARIANT(name, holds) assert(holds)

/* Data files: what is written before a commit, and never changes. */
typedef File { byte id[SLOTS]; byte value[SLOTS]; byte rows; byte base };
File file[PATHS];
#define ROW_ID(p, k) (file[p].id[k] == FRESH -> file[p].base + k : file[p].id[k])

/* The log: what a commit says. */
typedef Commit {
  byte writer;
  byte removes; byte before[PATHS];      /* paths, and the vector that each is removed with */
  byte adds; byte after[PATHS];
  bool changes; bool blind;              /* dataChange, isBlindAppend */
  byte mark;                             /* the high-water mark of row ids */
  bool records; byte sources; byte copied[PATHS]; byte taken; /* of a copy: transaction.moved_rows:_CopyRecord */
};
Commit log[WRITERS + 1];
byte newest = 0;

/* The newest version, as a reader replays it. */
byte live = 3;
byte vector[PATHS];
byte mark = 2;

/* What the statements that are in the log mean. */
byte value[ROWS];               /* who wrote a row's last value, DEAD for none */
byte id_of[ROWS];               /* the row's id, NONE if it was never in the log */
bool in_log[WRITERS];

byte kind[WRITERS];

/* ---- what a writer does to a commit ---------------------------------------------------------------------------- */

/* The copy of a row, to the next position of the writer's own file. */
inline copy_row(p, k)
{
  file[own].id[file[own].rows] = ROW_ID(p, k);
  file[own].value[file[own].rows] = file[p].value[k];
  file[own].rows++
}

/* Step 1 and 2 of the loop: a snapshot is loaded; data files and vectors are written. */
inline prepare()
{
  own = i + 2; next = newest + 1; known = mark; paths = 0; has_own = false; taken = 0; gone = 0; p = 0;
  do
  :: p == PATHS -> break
  :: else ->
    if
    :: HAS(live, p) && COPIES(kind[i]) ->
      paths = paths | BIT(p); was[p] = vector[p]; more[p] = vector[p]; k = 0;
      do
      :: k == file[p].rows -> break
      :: else -> if :: !HAS(vector[p], k) -> copy_row(p, k) :: else fi; k++
      od
    :: HAS(live, p) && (MARKS(kind[i]) || REWRITES(kind[i])) ->
      k = 0; found = false;
      do
      :: k == file[p].rows -> break
      :: else ->
        if
        :: !HAS(vector[p], k) && ROW_ID(p, k) == id_of[row] ->
          found = true; paths = paths | BIT(p); was[p] = vector[p]; more[p] = (MARKS(kind[i]) -> BIT(k) : 0)
        :: else
        fi;
        k++
      od;
      k = 0;
      do
      :: k == file[p].rows || !found || !REWRITES(kind[i]) -> break
      :: else ->
        if
        :: !HAS(vector[p], k) && ROW_ID(p, k) != id_of[row] -> copy_row(p, k)
        :: else
        fi;
        k++
      od
    :: else
    fi;
    p++
  od;
  if
  :: kind[i] == UPDATE ->
#ifdef MUTATE_UPDATE_LOSES_ID
    file[own].id[0] = FRESH;
#else
    file[own].id[0] = id_of[row];
#endif
    file[own].value[0] = i + 1; file[own].rows = 1
  :: kind[i] == INSERT -> file[own].id[0] = FRESH; file[own].value[0] = i + 1; file[own].rows = 1
  :: else
  fi;
  has_own = (file[own].rows > 0);
  p = 0; k = 0; found = false
}

/* Positions of a file as positions in a copy of it: transaction.moved_rows:_in_copy. */
inline in_copy(positions, left_out, start, result)
{
  k = 0; result = 0;
  do
  :: k == SLOTS -> break
  :: else ->
    if
#ifdef MUTATE_NO_SHIFT
    :: HAS((positions) & ~(left_out), k) -> result = result | BIT(start + k)
#else
    :: HAS((positions) & ~(left_out), k) -> result = result | BIT(start + k - BELOW(left_out, k))
#endif
    :: else
    fi;
    k++
  od;
  k = 0
}

/* Where the rows of an input begin in a winner's copy, and in this writer's: after the live rows of those before. */
inline start_in_winner(input, v, result)
{
  k = 0; result = 0;
  do
  :: k == input -> break
  :: else ->
    if :: HAS(log[v].sources, k) -> result = result + file[k].rows - COUNT(log[v].copied[k]) :: else fi;
    k++
  od;
  k = 0
}
inline start_in_own(input, result)
{
  k = 0; result = 0;
  do
  :: k == input -> break
  :: else -> if :: HAS(paths, k) -> result = result + file[k].rows - COUNT(more[k]) :: else fi; k++
  od;
  k = 0
}

/* A statement that loses to a compaction marks its rows where they are now: transaction.moved_rows:follow. */
inline follow_moves(v)
{
  output = log[v].writer + 2; moved = 0; all = 0; p = 0;
  do
  :: p == PATHS -> break
  :: else ->
    if
    :: HAS(paths, p) && HAS(log[v].sources & ~log[v].taken, p) && was[p] == log[v].before[p] ->
      start_in_winner(p, v, start);
      if
      :: HAS_MARKS -> in_copy(more[p], log[v].copied[p], start, found_at)
      :: else -> /* removed whole: all rows of the input */
        found_at = (BIT(file[p].rows - COUNT(log[v].copied[p])) - 1) << start
      fi;
      moved = moved | found_at;
      all = all | BIT(p)
    :: else
    fi;
    p++
  od;
  if
  :: all ->
    printf("transaction.moved_rows:follow | writer %d marks its rows where version %d moved them\n", i, v);
    paths = (paths & ~all) | BIT(output);
    was[output] = log[v].after[output]; more[output] = moved;
    rest_removes = rest_removes & ~all; rest_adds = rest_adds & ~BIT(output);
    moved_whole = moved_whole | REWRITES(kind[i])
  :: else
  fi;
  p = 0; output = 0; moved = 0; all = 0; start = 0; found_at = 0
}

/* A compaction that loses to marks takes them along: transaction.moved_rows:Copies.after. */
inline take_marks_along(v)
{
  p = 0;
  do
  :: p == PATHS || conflict -> break
  :: else ->
    if
    :: HAS(paths, p) && HAS(log[v].removes | log[v].adds, p) ->
      if
      :: HAS(taken, p) || !HAS(log[v].removes, p) || was[p] != log[v].before[p] -> conflict = true
      :: else ->
        start_in_own(p, start);
        if
        :: !HAS(log[v].adds, p) && !log[v].changes -> conflict = true
        :: !HAS(log[v].adds, p) && log[v].changes ->
          found_at = (BIT(file[p].rows - COUNT(more[p])) - 1) << start;
          taken = taken | BIT(p)
        :: HAS(log[v].adds, p) && (was[p] & ~log[v].after[p]) -> conflict = true
        :: else -> in_copy(log[v].after[p], more[p], start, found_at); was[p] = log[v].after[p]
        fi;
#ifndef MUTATE_IGNORE_NEW_MARKS
        gone = gone | found_at;
#endif
        printf("transaction.moved_rows:Copies.after | writer %d takes along what version %d deleted of file %d\n", i, v, p)
      fi;
      rest_removes = rest_removes & ~BIT(p); rest_adds = rest_adds & ~BIT(p)
    :: else
    fi;
    p++
  od;
  p = 0; start = 0; found_at = 0
}

/* Two writers marked other rows of the same file: transaction.row_level:Marks.after. */
inline merge_marks(v)
{
  p = 0;
  do
  :: p == PATHS -> break
  :: else ->
    if
    :: HAS(paths, p) && HAS(rest_removes, p) && HAS(rest_adds, p) && was[p] == log[v].before[p] &&
#ifndef MUTATE_SAME_ROW
        !(log[v].after[p] & more[p]) &&
#endif
        !(log[v].before[p] & ~log[v].after[p]) ->
#ifdef MUTATE_FORGET_TO_MERGE
      forgotten[p] = log[v].after[p] & ~was[p];
#endif
      was[p] = log[v].after[p];
      printf("transaction.row_level:Marks.after | writer %d merges its marks of file %d with those of version %d\n", i, p, v);
      rest_removes = rest_removes & ~BIT(p); rest_adds = rest_adds & ~BIT(p)
    :: else
    fi;
    p++
  od;
  p = 0
}

/* Whether a file holds the row that this statement read, as its statistics show. */
inline holds_row(q, result)
{
  k = 0; result = false;
  do
  :: k == file[q].rows -> break
  :: else -> if :: ROW_ID(q, k) == id_of[row] -> result = true :: else fi; k++
  od;
  k = 0
}

/* What is left of a winner is checked: transaction.conflicts:_appends, transaction.conflicts:_deletes_of_read_files and
   transaction.conflicts:_deletes_of_deleted_files. Insertions read nothing; compaction is checked by snapshot isolation. */
inline check_rest(v, own_paths)
{
  if
  :: rest_removes & own_paths -> conflict = true
  :: else
  fi;
  p = 0;
  do
  :: p == PATHS || conflict || COPIES(kind[i]) || kind[i] == INSERT || !log[v].changes -> break
  :: else ->
    if
    :: HAS(rest_removes, p) -> holds_row(p, conflict)
    :: !HAS(rest_removes, p) && HAS(rest_adds, p) && !log[v].blind -> holds_row(p, conflict)
    :: else
    fi;
    p++
  od;
  p = 0
}

/* Step 5, for one winner: transaction.prepared:PreparedCommit.follow. */
inline follow_winner(v)
{
  rest_removes = log[v].removes; rest_adds = log[v].adds; before_paths = paths & ~taken;
  if
  :: !IS_FOREIGN(kind[i]) && log[v].records && !COPIES(kind[i]) -> follow_moves(v)
  :: !IS_FOREIGN(kind[i]) && COPIES(kind[i]) -> take_marks_along(v)
  :: else
  fi;
  if
  :: !IS_FOREIGN(kind[i]) && HAS_MARKS -> merge_marks(v)
  :: else
  fi;
#ifndef MUTATE_NO_CHECK
  if :: !conflict -> check_rest(v, before_paths) :: else fi;
#endif
#ifndef MUTATE_SAME_IDS
  if :: log[v].mark > known -> known = log[v].mark :: else fi;
#endif
  rest_removes = 0; rest_adds = 0; before_paths = 0
}

inline follow_all()
{
  conflict = false;
  do
  :: next > newest || conflict -> break
  :: else -> follow_winner(next); next++
  od
}

/* ---- the commit itself ------------------------------------------------------------------------------------------ */

/* The row that the statement changes is as the statement read it. Other engines' commits mean the same. */
inline apply_meaning()
{
  if
  :: kind[i] == INSERT ->
    id_of[3 + i] = file[own].base; value[3 + i] = i + 1
  :: COPIES(kind[i])
  :: else ->
    INVARIANT("conflicts are found", value[row] == seen);
    value[row] = (kind[i] == UPDATE -> i + 1 : DEAD)
  fi
}

/* What readers replay is what the statements mean. */
inline compare()
{
  r = 0;
  do
  :: r == ROWS -> break
  :: else ->
    q = 0;
    do
    :: q == r -> break
    :: else -> INVARIANT("row ids are unique", id_of[q] == NONE || id_of[q] != id_of[r]); q++
    od;
    r++
  od;
  p = 0;
  do
  :: p == PATHS -> break
  :: else ->
    k = 0;
    do
    :: k == file[p].rows || !HAS(live, p) -> break
    :: else ->
      if
      :: !HAS(vector[p], k) ->
        r = 0;
        do
        :: r == ROWS -> break
        :: r < ROWS && id_of[r] == ROW_ID(p, k) -> break
        :: else -> r++
        od;
        INVARIANT("a row keeps its id", r < ROWS);
        INVARIANT("no deleted row comes back", value[r] != DEAD);
        INVARIANT("no update is lost", file[p].value[k] == value[r]);
        INVARIANT("no row is there twice", !HAS(found_rows, r));
        found_rows = found_rows | BIT(r)
      :: else
      fi;
      k++
    od;
    p++
  od;
  r = 0;
  do
  :: r == ROWS -> break
  :: else -> INVARIANT("no row is lost", value[r] == DEAD || HAS(found_rows, r)); r++
  od;
  p = 0; k = 0; r = 0; q = 0; found_rows = 0
}

/* Step 4, where the version is free: the commit as encoded for it becomes the version. */
inline append()
{
  newest++;
  log[newest].writer = i;
  log[newest].changes = !COPIES(kind[i]);
  log[newest].blind = (kind[i] == INSERT);
  if :: has_own -> file[own].base = known + 1; known = known + file[own].rows :: else fi;
  log[newest].mark = known; mark = (known > mark -> known : mark);
  if
  :: kind[i] == OPTIMIZE && has_own ->
    log[newest].records = true; log[newest].sources = paths; log[newest].taken = taken
  :: else
  fi;
  p = 0;
  do
  :: p == PATHS -> break
  :: else ->
    if
    :: HAS(paths & ~taken, p) ->
      log[newest].removes = log[newest].removes | BIT(p);
      log[newest].before[p] = was[p];
      INVARIANT("a file has one state", HAS(live, p) && vector[p] == was[p]);
      live = live & ~BIT(p);
      vector[p] = 0
    :: else
    fi;
    if :: HAS(paths, p) && COPIES(kind[i]) -> log[newest].copied[p] = more[p] :: else fi;
    found_at = was[p] | more[p];
#ifdef MUTATE_FORGET_TO_MERGE
    found_at = found_at & ~forgotten[p];
#endif
    if
    :: HAS(paths, p) && !COPIES(kind[i]) && HAS_MARKS && COUNT(found_at) < file[p].rows ->
      log[newest].adds = log[newest].adds | BIT(p);
      log[newest].after[p] = found_at;
      vector[p] = found_at; live = live | BIT(p)
    :: p == own && has_own && (!COPIES(kind[i]) || COUNT(gone) < file[p].rows) ->
      log[newest].adds = log[newest].adds | BIT(p);
      log[newest].after[p] = gone;
      vector[p] = gone; live = live | BIT(p)
    :: else
    fi;
    p++
  od;
  found_at = 0; p = 0;
  if
  :: log[newest].records && !HAS(log[newest].adds, own) ->
    log[newest].records = false; log[newest].sources = 0; log[newest].taken = 0
  :: else
  fi;
  INVARIANT("one or none", !in_log[i]);
  in_log[i] = true;
  apply_meaning();
  compare()
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

#define FORGET \
  p = 0; row = 0; seen = 0; known = 0; paths = 0; taken = 0; gone = 0; has_own = false; moved_whole = false; next = 0; \
  conflict = false; k = 0; \
  do :: k == PATHS -> break :: else -> was[k] = 0; more[k] = 0; k++ od; \
  k = 0; own = 0

/* A request is carried out although its writer has got no answer. Whoever put the name first has it. */
#define ARRIVES \
  coming && newest < next -> \
  d_step { printf("the store | carries out what writer %d asked for\n", i); append() }; \
  coming = false

proctype Writer(byte i)
{
  byte own, next, known, paths, taken, gone, row, seen;
  byte was[PATHS], more[PATHS]; /* vectors that files are removed with; marks that are new, or that a copy left out */
#ifdef MUTATE_FORGET_TO_MERGE
  byte forgotten[PATHS];
#endif
  bool has_own, conflict, moved_whole, found;
  bool again, coming; /* the second put of a version; a put that got no answer, and may be carried out */
#ifdef MUTATE_NO_FENCE
  bool failed;
#endif
  byte p, k, q, r, found_rows, start, moved, found_at, all, output, rest_removes, rest_adds, before_paths;

  atomic {
    if
    :: MARKS(kind[i]) || REWRITES(kind[i]) ->
      if
      :: value[0] != DEAD -> row = 0
      :: value[1] != DEAD -> row = 1
      :: value[2] != DEAD -> row = 2
      :: value[3] != DEAD -> row = 3
      :: value[4] != DEAD -> row = 4
#if WRITERS > 2
      :: value[5] != DEAD -> row = 5
#endif
#if WRITERS > 3
      :: value[6] != DEAD -> row = 6
#endif
      :: else -> goto ended
      fi;
      seen = value[row]
    :: else
    fi;
    d_step {
      prepare();
      printf("log.snapshot:load_snapshot | writer %d reads version %d; statement %d, row %d\n", i, newest, kind[i], row)
    }
  }
attempt:
  atomic {
    if
    :: !coming -> goto ended /* dies, or never comes back */
    :: ARRIVES; goto attempt /* a writer that takes no more steps after this one is dead as well */
    :: newest >= next ->
      if
      :: log[next].writer == i ->
        assert(again);
        printf("transaction.committers:StoreCommitter._look_for | writer %d finds its own commit\n", i);
        goto made
      :: else ->
        printf("transaction.committers:StoreCommitter.commit | writer %d finds version %d taken\n", i, next);
        again = false; coming = false
      fi
    :: newest < next ->
      d_step {
        printf("transaction.row_ids:RowIds.assign | writer %d gives ids after %d\n", i, known);
        printf("transaction.committers:StoreCommitter.commit | writer %d puts version %d\n", i, next);
        append()
      };
      goto made
    :: newest < next -> /* no answer: the request is carried out, at once or late, or never */
      printf("transaction.committers:StoreCommitter.commit | the put of version %d by writer %d gets no answer\n", next, i);
      coming = true;
      goto look
    :: newest < next -> /* the store refuses, and does nothing */
      if
      :: again -> goto end_left /* what is known of this put is not known of the first */
      :: else ->
        printf("transaction.committers:StoreCommitter.commit | writer %d reports that the store refused\n", i);
        INVARIANT("a failed statement writes nothing", !in_log[i]);
        goto ended
      fi
    fi
  }
  atomic {
    if
    :: goto ended
    :: d_step {
        printf("transaction.commit_loop:CommitLoop.follow_winners | writer %d reads versions %d to %d\n", i, next, newest);
        follow_all()
      };
      if
      :: conflict ->
        printf("transaction.conflicts:check | writer %d has a conflict\n", i);
        INVARIANT("a failed statement writes nothing", !in_log[i]);
        goto ended
      :: else -> goto attempt
      fi
    fi
  }
look:
  atomic {
    if
    :: ARRIVES; goto look
    :: newest >= next && log[next].writer == i ->
      printf("transaction.committers:StoreCommitter._look_for | writer %d finds its own commit\n", i);
#ifdef MUTATE_NO_LOOK
      d_step { follow_all() };
      if :: conflict -> INVARIANT("a failed statement writes nothing", !in_log[i]); goto ended :: else -> goto attempt fi
#else
      goto made
#endif
    :: newest >= next && log[next].writer != i ->
      printf("transaction.committers:StoreCommitter._look_for | writer %d finds another's commit\n", i);
      again = false; coming = false;
      goto attempt
    :: newest < next ->
      printf("transaction.committers:StoreCommitter._look_for | writer %d finds nothing\n", i);
#ifdef MUTATE_NO_FENCE
      printf("transaction.committers:StoreCommitter.commit | writer %d reports that the store failed\n", i);
      failed = true;
      goto end_left
#endif
      if
      :: again -> goto end_left /* the outcome stays unknown */
      :: else -> again = true; goto attempt
      fi
    fi
  }
end_left: /* What its writer does not know of any more may yet be carried out. */
  atomic {
    if
    :: ARRIVES;
#ifdef MUTATE_NO_FENCE
      INVARIANT("a failed statement writes nothing", !failed || !in_log[i])
#endif
    :: !coming || newest >= next
    fi;
    goto ended
  }
made:
  atomic {
    printf("transaction.commit_loop:CommitLoop.put | writer %d is acknowledged\n", i);
    INVARIANT("nothing is lost", in_log[i])
  }
ended:
  atomic { FORGET; again = false; coming = false }
}

init {
  byte n = 0, least = 0;
  atomic {
    file[0].id[0] = 0; file[0].id[1] = 1; file[0].rows = 2;
    file[1].id[0] = 2; file[1].rows = 1;
    do
    :: n == ROWS -> break
    :: else -> if :: n < 3 -> id_of[n] = n :: else -> id_of[n] = NONE; value[n] = DEAD fi; n++
    od;
    n = 0;
    /* Writers are alike: only their numbers differ. So their statements are in order. */
#ifdef KIND_0
    kind[0] = KIND_0; kind[1] = KIND_1;
#if WRITERS > 2
    kind[2] = KIND_2;
#endif
#if WRITERS > 3
    kind[3] = KIND_3;
#endif
#else
    do
    :: n == WRITERS -> break
    :: n < WRITERS ->
      do
      :: least < LAST_KIND -> least++
      :: break
      od;
      kind[n] = least; n++
    od;
#endif
    n = 0; least = 0;
    do
    :: n == WRITERS -> break
    :: else -> run Writer(n); n++
    od
  }
}
