/*
 * The log and the files of one table while they are cleaned up: checkpoints, log cleanup, VACUUM, readers, slow writers.
 *
 * Each writer commits once, at any moment after it loaded its snapshot, and may replace the file of the commit before
 * its own. Maintenance writes a checkpoint in two parts, then `_last_checkpoint`, then deletes what no version within the
 * retention needs, one file after the other. Time is the oldest version within the retention: where somebody looks at the
 * clock, any amount of it has passed, up to the newest version, which is a retention of nothing. Every process may die at each step, or be paused there.
 *
 * Data files are young, and so out of VACUUM's reach, as long as their writer is at work: a retention that is shorter
 * than a statement is documented as unsafe.
 *
 * Every printed step begins with the function of the code that it stands for.
 */

#ifndef WRITERS
#define WRITERS 3
#endif
#ifndef MAINTENANCE
#define MAINTENANCE 1
#endif
#ifndef READERS
#define READERS 1
#endif
#ifndef VACUUMS
#define VACUUMS 0
#endif
#define VERSIONS (WRITERS + 1)
#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)
#define INVARIANT(name, holds) assert(holds)

/* The log. Commits of writer i are number i + 1; that of version 0 is number 0. */
byte commits = 1;               /* versions that have a commit file */
byte by[VERSIONS];              /* whose it is */
byte put_at[VERSIONS], puts;    /* the order of the puts, as the times of the files show it */
byte first_parts, second_parts; /* versions whose checkpoint has these */
byte in_checkpoint[VERSIONS];   /* the commits that a checkpoint has */
byte last_checkpoint;           /* as the file says */
#define CHECKPOINTS (first_parts & second_parts)

/* Data files by the number of their commit. */
byte on_disk = 1;
byte young;

/* What is so, whatever the files say. */
byte newest = 0;
byte begun;
byte needed = 0;                /* the oldest version within the retention */
byte content[VERSIONS];         /* the commits of each version */
byte live[VERSIONS];            /* the data files of each version */
byte acknowledged;              /* commits */

/* The newest of some versions that is not after `limit`; VERSIONS if there is none. */
inline newest_of(set, limit, result)
{
  k = limit + 1; result = VERSIONS;
  do
  :: k == 0 || result != VERSIONS -> break
  :: else -> k--; if :: HAS(set, k) -> result = k :: else fi
  od;
  k = 0
}

/* Whether a listing has all commits of some versions: log.segment:cover. */
inline covers(set, first, last, result)
{
  k = first; result = true;
  do
  :: k > last -> break
  :: else -> result = result && HAS(set, k); k++
  od;
  k = 0
}

/* The clock is looked at. */
inline look_at_clock()
{
  do
  :: needed < newest -> needed++
  :: break
  od;
  printf("time | version %d is the oldest within the retention\n", needed)
}

inline check_readable()
{
  v = needed;
  do
  :: v > newest -> break
  :: else ->
    newest_of(CHECKPOINTS, v, c);
    if
    :: c == VERSIONS -> covers(commits, 0, v, fits)
    :: else -> covers(commits, c + 1, v, fits); fits = fits && in_checkpoint[c] == content[c]
    fi;
    INVARIANT("every version within the retention can be read", fits);
    v++
  od;
  v = 0; c = 0; fits = false
}

inline check_files()
{
  v = needed;
  do
  :: v > newest -> break
  :: else -> INVARIANT("no file that a version needs is deleted", !(live[v] & ~on_disk)); v++
  od;
  v = 0
}

#define TAKEN_BACK 1
#define STANDS 2
#define OPEN 3

proctype Writer(byte i)
{
  byte read, next, before, k, c, seen; /* seen: the commits that it has read or followed */
  bool replaces;
  atomic {
    begun == i; /* writers are alike: only their numbers differ */
    begun++;
#ifndef AT_ONCE /* else all read version 0, before anything happens */
    read = newest;
#endif
    next = read + 1; seen = content[read];
#if VACUUMS
    if :: replaces = true :: replaces = false fi;
#endif
#if VACUUMS
    on_disk = on_disk | BIT(i + 1); young = young | BIT(i + 1);
#endif
    printf("log.snapshot:load_snapshot | writer %d reads version %d\n", i, read)
  }
attempt:
  atomic {
    if
    :: goto ended
    :: HAS(commits, next) ->
      d_step {
        do
        :: next < VERSIONS && HAS(commits, next) -> seen = seen | BIT(by[next]); next++
        :: else -> break
        od
      };
      replaces = false;
      printf("transaction.commit_loop:CommitLoop.follow_winners | writer %d follows up to version %d\n", i, next - 1)
    :: !HAS(commits, next) ->
      d_step {
        printf("transaction.committers:StoreCommitter.commit | writer %d puts version %d\n", i, next);
        commits = commits | BIT(next); by[next] = i + 1; puts++; put_at[next] = puts;
        if
        :: next == newest + 1 ->
          INVARIANT("conflicts are found", seen == content[newest]);
          newest = next;
          content[next] = content[next - 1] | BIT(i + 1);
#if VACUUMS
          before = by[next - 1];
          live[next] = (replaces -> live[next - 1] & ~BIT(before) : live[next - 1]) | BIT(i + 1)
#endif
        :: else
        fi
      }
      goto look
    fi
  }
  atomic {
    if
#ifndef MUTATE_FOLLOW_ANY
    :: !HAS(commits, read) ->
      printf("transaction.commit_loop:CommitLoop._check_unbroken | writer %d: version %d is gone\n", i, read);
      goto ended
    :: HAS(commits, read) -> goto attempt
#else
    :: goto attempt
#endif
    fi
  }
look:
#ifndef MUTATE_IGNORE_CLEANUP
  atomic {
    if
    :: goto ended
    :: HAS(commits, read) -> goto made
    :: !HAS(commits, read) ->
      printf("transaction.commit_loop:CommitLoop._check_follows | writer %d: version %d is gone\n", i, read)
    fi
  }
  atomic {
    if
    :: goto ended
    :: d_step {
        k = VERSIONS - 1; newest_of(commits, k, before);
        newest_of(CHECKPOINTS, next, c);
        if
#ifdef MUTATE_TAKE_ANY_BACK
        :: !HAS(commits, next) -> before = OPEN
#else
        :: !HAS(commits, next) || by[next] != i + 1 -> before = OPEN
#endif
        :: else ->
          if
#ifdef MUTATE_NEWEST_TIME
          :: put_at[before] >= put_at[next] -> before = STANDS
#else
          :: before == next -> before = STANDS
          :: before != next && HAS(commits, next + 1) && c != VERSIONS ->
            before = (put_at[next + 1] > put_at[next] -> STANDS : OPEN)
          :: before != next && HAS(commits, next + 1) && c == VERSIONS && put_at[next + 1] > put_at[next] -> before = OPEN
#endif
          :: else ->
            printf("transaction.conflicts:cleaned_up | writer %d takes version %d back\n", i, next);
            commits = commits & ~BIT(next); before = TAKEN_BACK
          fi
        fi;
        c = 0
      }
      if
      :: before == TAKEN_BACK ->
        INVARIANT("a failed statement writes nothing", !HAS(content[newest], i + 1));
        goto ended
      :: before == OPEN -> goto ended /* the outcome is reported as unknown */
      :: else
      fi
    fi
  }
made:
#endif
  atomic {
    printf("transaction.commit_loop:CommitLoop.put | writer %d is acknowledged\n", i);
#if READERS
    acknowledged = acknowledged | BIT(i + 1);
#endif
    INVARIANT("nothing is lost", HAS(content[newest], i + 1))
  }
ended:
  atomic { young = young & ~BIT(i + 1); read = 0; next = 0; before = 0; seen = 0; replaces = false }
}

proctype Maintenance()
{
  byte version, v, k, c, listed, listed_checkpoints, oldest, hint;
  bool fits;

  atomic {
    version = newest;
    if :: version == 0 -> goto ended :: else fi;
    printf("log.checkpoint_writing:write_checkpoint | of version %d\n", version);
    in_checkpoint[version] = content[version]
  }
#ifdef MUTATE_HINT_FIRST
  last_checkpoint = version;
#endif
#ifdef MUTATE_CLEAN_FIRST
  goto clean;
parts:
#endif
  atomic { if :: goto ended :: first_parts = first_parts | BIT(version) fi }
  atomic {
    if
    :: goto ended
    :: second_parts = second_parts | BIT(version);
      printf("log.checkpoint_writing:_write_classic | version %d has its checkpoint\n", version)
    fi
  }
  atomic { if :: goto ended :: hint = last_checkpoint fi }
  atomic {
    if
    :: goto ended
    :: hint > version
    :: hint <= version ->
      last_checkpoint = version;
      printf("log.checkpoint_writing:_write_last_checkpoint | it names version %d\n", version)
    fi;
    hint = 0
  }
#ifdef MUTATE_CLEAN_FIRST
  goto ended;
#endif
clean:
  atomic {
    if
    :: goto ended
    :: look_at_clock();
      d_step {
        listed = commits; oldest = (needed < version -> needed : version);
        listed_checkpoints = CHECKPOINTS;
#ifdef MUTATE_HALF_CHECKPOINT
        listed_checkpoints = first_parts | second_parts;
#endif
        /* log.cleanup:_what_may_go */
        newest_of(listed_checkpoints, oldest, c);
#ifdef MUTATE_CLEAN_FIRST
        c = oldest;
#endif
        if :: c != VERSIONS -> covers(listed, c, version, fits) :: else fi;
        do
        :: c == VERSIONS || fits -> break
        :: else ->
          if :: c == 0 -> c = VERSIONS :: else -> v = c - 1; newest_of(listed_checkpoints, v, c) fi;
          v = 0;
          if :: c != VERSIONS -> covers(listed, c, version, fits) :: else fi
        od;
        printf("log.cleanup:_what_may_go | all before version %d\n", c)
      };
      if :: c == VERSIONS -> goto ended :: else fi
    fi;
    v = 0; fits = false; oldest = c; c = 0
  }
#ifdef MUTATE_NEWEST_FIRST
  v = oldest;
#endif
delete:
  atomic {
#ifdef MUTATE_NEWEST_FIRST
    if :: v == 0 -> goto ended :: else -> v-- fi;
#else
    if :: v == oldest -> v = 0; goto cleaned :: else fi;
#endif
    if
    :: goto ended
    :: d_step {
        first_parts = first_parts & ~BIT(v); second_parts = second_parts & ~BIT(v)
      }
    fi
  }
  atomic {
    if
    :: goto ended
    :: HAS(listed, v) ->
      d_step {
        commits = commits & ~BIT(v);
        printf("log.cleanup:_clean_up | the commit of version %d is deleted\n", v);
        hint = v; check_readable(); v = hint; hint = 0
      }
    :: !HAS(listed, v)
    fi;
#ifndef MUTATE_NEWEST_FIRST
    v++;
#endif
    goto delete
  }
cleaned:
#ifdef MUTATE_CLEAN_FIRST
  goto parts;
#endif
ended:
  atomic { version = 0; v = 0; k = 0; c = 0; listed = 0; listed_checkpoints = 0; oldest = 0; hint = 0; fits = false }
}

proctype Reader()
{
  byte hint, listed, listed_checkpoints, version, c, k, tries, must, found, v;
  bool fits;
  atomic {
    v = 0; must = acknowledged;
    hint = last_checkpoint;
    printf("log.segment:read_last_checkpoint | names version %d\n", hint)
  }
list:
  atomic {
    d_step {
      listed = commits; listed_checkpoints = CHECKPOINTS;
#ifdef MUTATE_HINT_FIRST
      if :: hint > 0 -> listed = listed & ~(BIT(hint) - 1); listed_checkpoints = listed_checkpoints & ~(BIT(hint) - 1)
         :: else fi;
#else
      if
      :: hint > 0 && (listed_checkpoints & ~(BIT(hint) - 1)) && (listed & ~(BIT(hint) - 1)) ->
        listed = listed & ~(BIT(hint) - 1); listed_checkpoints = listed_checkpoints & ~(BIT(hint) - 1)
      :: else /* the whole log is listed */
      fi;
#endif
      c = VERSIONS - 1;
      newest_of(listed | listed_checkpoints, c, version);
      newest_of(listed_checkpoints, version, c);
      if
      :: c == VERSIONS -> covers(listed, 0, version, fits)
      :: else -> covers(listed, c + 1, version, fits)
      fi;
      printf("log.segment:find_segment | of version %d, with the checkpoint of version %d\n", version, c)
    }
    INVARIANT("no reader is stopped", fits);
    fits = false
  }
  atomic {
    if
    :: c != VERSIONS && !HAS(CHECKPOINTS, c) -> goto gone
    :: c != VERSIONS && HAS(CHECKPOINTS, c) -> found = in_checkpoint[c]
    :: c == VERSIONS -> found = 0
    fi
  }
  atomic {
    d_step {
      k = (c == VERSIONS -> 0 : c + 1); fits = true;
      do
      :: k > version -> break
      :: else ->
        if :: !HAS(commits, k) -> fits = false :: else -> found = found | BIT(by[k]) fi;
        k++
      od;
      k = 0
    }
    if
    :: !fits -> goto gone
    :: else ->
      printf("log.snapshot:load_snapshot | shows version %d\n", version);
      INVARIANT("a reader sees a whole version", found == content[version]);
      INVARIANT("what was acknowledged is seen", !(must & ~found));
      goto ended
    fi
  }
gone:
  atomic {
    tries++;
    printf("log.snapshot:_newest | a file is gone: the log is listed again\n");
    INVARIANT("no reader is stopped", tries < 3);
    hint = last_checkpoint; fits = false; found = 0;
    goto list
  }
ended:
  atomic { hint = 0; listed = 0; listed_checkpoints = 0; version = 0; c = 0; tries = 0; must = 0; found = 0; fits = false }
}

/* VACUUM FULL. */
proctype Vacuum()
{
  byte keep, old, some, v, from;
  atomic {
    look_at_clock();
    d_step {
      keep = live[newest]; from = needed; v = from;
      old = on_disk & ~young;
#ifndef MUTATE_NO_TOMBSTONES
      do
      :: v > newest -> break
      :: else -> keep = keep | live[v]; v++
      od;
#endif
      v = 0;
      printf("log.vacuum:needed_files | of version %d and those since %d\n", newest, from)
    }
  }
  atomic {
    if
    :: goto ended
#ifdef MUTATE_YOUNG_FILES
    :: some = on_disk & ~keep;
#else
    :: some = old & ~keep;
#endif
      printf("log.vacuum:unreferenced\n")
    fi
  }
  do
  :: some == 0 -> break
  :: some != 0 ->
    atomic {
      do
      :: !HAS(some, v) -> v++
      :: HAS(some, v) -> break
      od;
      if :: goto ended :: true fi;
      some = some & ~BIT(v); on_disk = on_disk & ~BIT(v);
      printf("statements.maintenance.vacuum:_Run.delete | the file of commit %d\n", v);
      d_step { v = 0; check_files() }
    }
  od;
ended:
  atomic { keep = 0; old = 0; some = 0; v = 0; from = 0 }
}

init {
  byte n = 0;
  atomic {
    content[0] = 1; live[0] = 1;
    do :: n == WRITERS -> break :: else -> run Writer(n); n++ od;
    n = 0;
    do :: n == MAINTENANCE -> break :: else -> run Maintenance(); n++ od;
    n = 0;
    do :: n == READERS -> break :: else -> run Reader(); n++ od;
    n = 0;
    do :: n == VACUUMS -> break :: else -> run Vacuum(); n++ od;
    n = 0
  }
}
