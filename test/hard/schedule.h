/*
 * schedule.h -- one turn for all processes, handed on at each step by a seed
 *
 * test/step.sh has it included before each source file.  A process that plays does its
 * steps, those of steps.h, only while it has the turn.  test/perl/Turns.pm decides who
 * has it next, and for how many steps.  So an order of steps can be had again.
 *
 * The environment variable SNOWFLAKE_TURNS names a directory, with
 *	- "shared", a file that all map: who has the turn, and each step that was made
 *	- "driver", a pipe to the driver: who gives the turn back writes a byte there
 *	- a pipe to each process that plays, by its number: who gets the turn reads there
 *
 * A session plays whose application_name is "turn N"; so do our workers.  A session
 * has the turn from the message that the driver sends until the driver has all of its
 * answer.  So whatever ends a statement hands the turn on, an error, too.
 *
 * Whatever would wait gives the turn back, and says for what: a lock that another one
 * holds who plays, a latch, a condition variable, a time.  Who lets go of a lock, sets
 * a latch or signals says in "shared" who need not wait any more.
 *
 * The clock is in "shared", too.  It goes on by steps: each reading moves it by what
 * the driver has written down for it.  If all wait, the driver moves it.
 *
 * Only who has the turn writes to "shared", and the driver while nobody has.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "storage/spin.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

/* Turns.pm has the same numbers. */
#define TURN_PLAYERS 12
#define TURN_LOCKS 4
#define TURN_READINGS 256
#define TURN_STEPS 8192
#define TURN_HORIZON 10 /* the worker of the horizon, and that of leases */
#define TURN_LEASE 11
#define TURN_NOBODY (-1)

typedef enum TurnState
{
	TURN_OUT,	  /* it does not play now */
	TURN_RUNS,	  /* it has the turn */
	TURN_READY,	  /* it wants the turn */
	TURN_BLOCKED, /* it waits for a lock */
	TURN_SLEEPS	  /* for a latch, a condition variable, or a time */
} TurnState;

typedef struct TurnPlayer
{
	int32  called; /* its latch was set, by who plays or a reload */
	int32  state;
	int32  budget; /* steps that it may make */
	int32  reloads;
	uint64 waits_for; /* the address of a lock or a condition variable */
	uint64 latch;
	int64  until_us; /* it sleeps; 0: for ever */
	uint64 held[TURN_LOCKS];
} TurnPlayer;

typedef struct TurnStep
{
	int64 value; /* that was read, if any */
	int32 player;
	char  function[36];
	char  what[80];
} TurnStep;

typedef struct TurnShared
{
	int32 on;
	int32 turn; /* whose it is */
	int32 steps;
	int32 readings;	 /* of the clock */
	int64 steady_us; /* the clock that nobody can set, as a TimestampTz */
	int64 ahead_us;	 /* of it is the clock */
	uint8 ticks[TURN_READINGS]; /* by which each reading moves both, in ms */
	TurnPlayer player[TURN_PLAYERS];
	TurnStep   step[TURN_STEPS];
} TurnShared;

StaticAssertDecl(offsetof(TurnShared, player) == 288 &&
					 sizeof(TurnPlayer) == 72 && sizeof(TurnStep) == 128,
				 "Turns.pm reads that");

/* One of each in the library, and so in a process */
#define TURN_OWN(type, name, value)                               \
	extern __attribute__((weak, visibility("hidden"))) type name; \
	type name = value

TURN_OWN(volatile TurnShared *, turns, NULL);
TURN_OWN(bool, turns_looked, false); /* for "shared" */
TURN_OWN(int, turn_me, TURN_NOBODY);
TURN_OWN(int, turn_pipe, -1);
TURN_OWN(int, turn_driver, -1);

#define TURN_FUNCTION static pg_attribute_unused()

/* --- Taking part --------------------------------------------------------- */

TURN_FUNCTION int
turn_open(const char *name)
{
	char path[MAXPGPATH];

	snprintf(path, sizeof(path), "%s/%s", getenv("SNOWFLAKE_TURNS"), name);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* Is there a game? */
TURN_FUNCTION bool
turns_are_here(void)
{
	int	  fd;
	void *map;

	if (turns_looked)
		return turns != NULL;
	turns_looked = true;
	if (getenv("SNOWFLAKE_TURNS") == NULL || (fd = turn_open("shared")) < 0)
		return false;
	map = mmap(NULL, sizeof(TurnShared), PROT_READ | PROT_WRITE, MAP_SHARED,
			   fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		turns = map;
	return turns != NULL;
}

/* The number of this process, if it is to play. */
TURN_FUNCTION int
turn_number(void)
{
	if (!IsUnderPostmaster)
		return TURN_NOBODY;
	if (MyBgworkerEntry != NULL)
		return strcmp(MyBgworkerEntry->bgw_type, "snowflake horizon") == 0 ?
				   TURN_HORIZON :
			   strcmp(MyBgworkerEntry->bgw_type, "snowflake lease") == 0 ?
				   TURN_LEASE :
				   TURN_NOBODY;
	if (application_name == NULL || strncmp(application_name, "turn ", 5) != 0)
		return TURN_NOBODY;
	return atoi(application_name + 5);
}

TURN_FUNCTION void
turn_give_back(TurnState state)
{
	char byte = 0;

	turns->player[turn_me].state = state;
	turns->turn = TURN_NOBODY;
	if (write(turn_driver, &byte, 1) != 1)
		_exit(2);
}

TURN_FUNCTION void
turn_leave(int code, Datum arg)
{
	volatile TurnPlayer *me = &turns->player[turn_me];

	me->latch = 0;
	if (turns->turn == turn_me)
		turn_give_back(TURN_OUT);
	turn_me = TURN_NOBODY;
}

/* Does this process play? */
TURN_FUNCTION bool
turn_plays(void)
{
	char name[16];
	int	 number;

	if (!turns_are_here() || !turns->on)
		return false;
	if (turn_me != TURN_NOBODY)
		return true;
	number = turn_number();
	if (number == TURN_NOBODY || MyLatch == NULL)
		return false;
	snprintf(name, sizeof(name), "%d", number);
	turn_pipe = turn_open(name);
	turn_driver = turn_open("driver");
	turns->player[number].called = MyLatch->is_set;
	turns->player[number].latch = (uint64) (uintptr_t) MyLatch;
	turn_me = number;
	on_proc_exit(turn_leave, (Datum) 0);
	return true;
}

/* Wait for the turn. */
TURN_FUNCTION void
turn_await(void)
{
	char byte;

	while (turns->on && turns->turn != turn_me)
	{
		if (read(turn_pipe, &byte, 1) < 0 && errno != EINTR)
			_exit(2);
	}
}

/* Give the turn back, and go on with the next one. */
TURN_FUNCTION void
turn_wait(TurnState state, volatile void *what, int64 until_us)
{
	volatile TurnPlayer *me = &turns->player[turn_me];
	int					 saved = errno;

	me->waits_for = (uint64) (uintptr_t) what;
	me->until_us = until_us;
	turn_give_back(state);
	turn_await();
	me->waits_for = 0;
	me->until_us = 0;
	errno = saved;
}

/* A step: gives where to note what it reads, or NULL. */
TURN_FUNCTION volatile TurnStep *
turn_step(const char *function, const char *what)
{
	volatile TurnStep *step;
	int				   saved = errno;

	if (!turn_plays())
		return NULL;
	if (turns->turn != turn_me)
		turn_await(); /* it was woken */
	else if (turns->player[turn_me].budget == 0)
		turn_wait(TURN_READY, NULL, 0);
	turns->player[turn_me].budget--;
	step = &turns->step[turns->steps++ % TURN_STEPS];
	step->player = turn_me;
	step->value = 0;
	strlcpy((char *) step->function, function, sizeof(step->function));
	strlcpy((char *) step->what, what, sizeof(step->what));
	errno = saved;
	return step;
}

TURN_FUNCTION void
turn_note(volatile TurnStep *step, int64 value)
{
	if (step != NULL)
		step->value = value;
}

/* A value was read.  Its turn may end here, so that what follows goes by an old value. */
TURN_FUNCTION void
turn_note_read(volatile TurnStep *step, int64 value)
{
	turn_note(step, value);
	if (step != NULL && turns->player[turn_me].budget == 0)
		turn_wait(TURN_READY, NULL, 0);
}

/* Those need not wait any more that are in this state, for this. */
TURN_FUNCTION void
turn_wake(TurnState state, volatile void *what)
{
	for (int i = 0; i < TURN_PLAYERS; i++)
	{
		volatile TurnPlayer *player = &turns->player[i];

		if (player->state == state &&
			player->waits_for == (uint64) (uintptr_t) what)
			player->state = TURN_READY;
	}
}

/* --- Atomics ------------------------------------------------------------- */

#define TURN_ATOMIC(kind, type)                                              \
	TURN_FUNCTION type turn_read_##kind(const char		 *function,          \
										const char		 *what,              \
										pg_atomic_##type *pointer)           \
	{                                                                        \
		volatile TurnStep *step = turn_step(function, what);                 \
		type			   value = (pg_atomic_read_##kind)(pointer);         \
                                                                             \
		turn_note_read(step, (int64) value);                                 \
		return value;                                                        \
	}                                                                        \
                                                                             \
	TURN_FUNCTION void turn_write_##kind(const char		  *function,         \
										 const char		  *what,             \
										 pg_atomic_##type *pointer,          \
										 type			   value)            \
	{                                                                        \
		turn_note(turn_step(function, what), (int64) value);                 \
		(pg_atomic_write_##kind)(pointer, value);                            \
	}                                                                        \
                                                                             \
	TURN_FUNCTION type turn_exchange_##kind(const char		 *function,      \
											const char		 *what,          \
											pg_atomic_##type *pointer,       \
											type			  value)         \
	{                                                                        \
		volatile TurnStep *step = turn_step(function, what);                 \
		type before = (pg_atomic_exchange_##kind)(pointer, value);           \
                                                                             \
		turn_note(step, (int64) before);                                     \
		return before;                                                       \
	}                                                                        \
                                                                             \
	TURN_FUNCTION type turn_add_##kind(const char		*function,           \
									   const char		*what,               \
									   pg_atomic_##type *pointer, int value) \
	{                                                                        \
		volatile TurnStep *step = turn_step(function, what);                 \
		type before = (pg_atomic_fetch_add_##kind)(pointer, value);          \
                                                                             \
		turn_note(step, (int64) before);                                     \
		return before;                                                       \
	}

TURN_ATOMIC(u32, uint32)
TURN_ATOMIC(u64, uint64)

TURN_FUNCTION bool
turn_compare_u64(const char *function, const char *what,
				 pg_atomic_uint64 *pointer, uint64 *expected, uint64 value)
{
	volatile TurnStep *step = turn_step(function, what);
	bool done = (pg_atomic_compare_exchange_u64) (pointer, expected, value);

	turn_note(step, (int64) (done ? value : *expected));
	return done;
}

/* --- Locks --------------------------------------------------------------- */

TURN_FUNCTION bool
turn_holds(int player, volatile void *lock)
{
	for (int i = 0; i < TURN_LOCKS; i++)
	{
		if (turns->player[player].held[i] == (uint64) (uintptr_t) lock)
			return true;
	}
	return false;
}

/* Who does not play and holds a lock lets go of it soon. */
TURN_FUNCTION bool
turn_is_held_here(volatile void *lock)
{
	for (int i = 0; i < TURN_PLAYERS; i++)
	{
		if (i != turn_me && turn_holds(i, lock))
			return true;
	}
	return false;
}

/* In the place of "before", 0 being nothing, put "after". */
TURN_FUNCTION void
turn_change_held(volatile void *before, volatile void *after)
{
	for (int i = 0; i < TURN_LOCKS; i++)
	{
		volatile uint64 *held = &turns->player[turn_me].held[i];

		if (*held != (uint64) (uintptr_t) before)
			continue;
		*held = (uint64) (uintptr_t) after;
		return;
	}
}

TURN_FUNCTION void
turn_let_go(volatile void *lock)
{
	if (!turn_plays())
		return;
	turn_change_held(lock, NULL);
	turn_wake(TURN_BLOCKED, lock);
}

static int turn_spins = 0; /* spinlocks that this process holds */

TURN_FUNCTION void
turn_spin_acquire(const char *function, const char *what,
				  volatile slock_t *lock)
{
	(void) turn_step(function, what);
	turn_spins++;
	if (!turn_plays())
	{
		SpinLockAcquire(lock);
		return;
	}
	while (TAS(lock))
		turn_wait(turn_is_held_here(lock) ? TURN_BLOCKED : TURN_READY, lock,
				  0);
	turn_change_held(NULL, lock);
}

TURN_FUNCTION void
turn_spin_release(const char *function, const char *what,
				  volatile slock_t *lock)
{
	(void) turn_step(function, what);
	if (turn_spins != 1)
		elog(PANIC, "%d spinlocks are held where one is released",
			 turn_spins);
	turn_spins--;
	SpinLockRelease(lock);
	turn_let_go(lock);
}

TURN_FUNCTION bool
turn_lock(const char *function, const char *what, LWLock *lock,
		  LWLockMode mode)
{
	(void) turn_step(function, what);
	while (turn_plays() && !(LWLockConditionalAcquire) (lock, mode))
	{
		if (turn_is_held_here(lock))
			turn_wait(TURN_BLOCKED, lock, 0);
		else
		{
			(void) (LWLockAcquire) (lock, mode);
			break;
		}
	}
	if (!turn_plays())
		return (LWLockAcquire) (lock, mode);
	turn_change_held(NULL, lock);
	return true;
}

TURN_FUNCTION void
turn_unlock(const char *function, const char *what, LWLock *lock)
{
	(void) turn_step(function, what);
	(LWLockRelease)(lock);
	turn_let_go(lock);
}

TURN_FUNCTION void
turn_unlock_all(void)
{
	(LWLockReleaseAll)();
	for (int i = 0; i < TURN_LOCKS && turn_plays(); i++)
	{
		uint64 held = turns->player[turn_me].held[i];

		if (held != 0)
			turn_let_go((volatile void *) (uintptr_t) held);
	}
}

/* --- Waiting ------------------------------------------------------------- */

TURN_FUNCTION void
turn_set_latch(const char *function, const char *what, Latch *latch)
{
	(void) turn_step(function, what);
	(SetLatch)(latch);
	for (int i = 0; i < TURN_PLAYERS && turn_plays(); i++)
	{
		volatile TurnPlayer *player = &turns->player[i];

		if (player->latch != (uint64) (uintptr_t) latch)
			continue;
		player->called = true;
		if (player->state == TURN_SLEEPS && player->waits_for == 0)
			player->state = TURN_READY;
	}
}

TURN_FUNCTION void
turn_reset_latch(const char *function, const char *what, Latch *latch)
{
	(void) turn_step(function, what);
	(ResetLatch)(latch);
	if (turn_plays())
		turns->player[turn_me].called = false;
}

/* Gives how long is really to be waited: not at all, but if the game has ended. */
TURN_FUNCTION long
turn_sleep(volatile void *what, long ms)
{
	turn_wait(TURN_SLEEPS, what,
			  ms < 0 ? 0 : turns->steady_us + Max(ms, 1) * INT64CONST(1000));
	return turns->on ? 0 : ms;
}

TURN_FUNCTION int
turn_wait_latch(const char *function, const char *what, Latch *latch,
				int events, long ms, uint32 name)
{
	(void) turn_step(function, what);
	if (!turn_plays())
		return (WaitLatch) (latch, events, ms, name);
	if (!turns->player[turn_me].called) /* others of the server do not count */
		ms = turn_sleep(NULL, events & WL_TIMEOUT ? ms : -1);
	else
		ms = 0;
	return (WaitLatch) (latch,
						ms < 0 ? events & ~WL_TIMEOUT : events | WL_TIMEOUT,
						ms, name);
}

TURN_FUNCTION void
turn_broadcast(const char *function, const char *what,
			   ConditionVariable *condition)
{
	(void) turn_step(function, what);
	(ConditionVariableBroadcast)(condition);
	if (turn_plays())
		turn_wake(TURN_SLEEPS, condition);
}

TURN_FUNCTION void
turn_prepare_to_sleep(const char *function, const char *what,
					  ConditionVariable *condition)
{
	(void) turn_step(function, what);
	(ConditionVariablePrepareToSleep)(condition);
}

TURN_FUNCTION bool
turn_timed_sleep(const char *function, const char *what,
				 ConditionVariable *condition, long ms, uint32 name)
{
	(void) turn_step(function, what);
	if (turn_plays())
	{
		if (!(ConditionVariableTimedSleep) (condition, 0, name))
			return false;
		ms = turn_sleep(condition, ms);
	}
	return (ConditionVariableTimedSleep) (condition, ms, name);
}

TURN_FUNCTION void
turn_usleep(const char *function, const char *what, long us)
{
	(void) turn_step(function, what);
	if (turn_plays())
		turn_wait(TURN_SLEEPS, &turns->steady_us, turns->steady_us + us);
	else
		(pg_usleep)(us);
}

/*
 * Of SIGHUP.  The driver has sent it, and nobody has the turn until it has come here: it
 * sets the latch.
 */
TURN_FUNCTION void
turn_reload(SIGNAL_ARGS)
{
	SignalHandlerForConfigReload(postgres_signal_arg);
	if (!turns_are_here() || turn_me == TURN_NOBODY)
		return;
	if (turns->player[turn_me].state == TURN_SLEEPS &&
		turns->player[turn_me].waits_for == 0)
		turns->player[turn_me].state = TURN_READY;
	turns->player[turn_me].called = true;
	turns->player[turn_me].reloads++;
}

#define SignalHandlerForConfigReload turn_reload

/* --- The clock ------------------------------------------------------------ */

TURN_FUNCTION TimestampTz
turn_clock(const char *function, const char *what)
{
	volatile TurnStep *step = turn_step(function, what);
	TimestampTz		   now;

	if (!turns_are_here())
		return (GetCurrentTimestamp) ();
	if (step != NULL)
		turns->steady_us +=
			INT64CONST(1000) * turns->ticks[turns->readings++ % TURN_READINGS];
	now = turns->steady_us + turns->ahead_us;
	turn_note(step, now);
	return now;
}

TURN_FUNCTION int
turn_steady_clock(clockid_t clock, struct timespec *now)
{
	if (!turns_are_here())
		return (clock_gettime) (clock, now);
	now->tv_sec = turns->steady_us / INT64CONST(1000000);
	now->tv_nsec = turns->steady_us % INT64CONST(1000000) * 1000;
	return 0;
}

#define clock_gettime(clock, now) turn_steady_clock(clock, now)

/* --- The steps: see steps.h ----------------------------------------------- */

#define TURN_CALL(type, call, text)                             \
	({                                                          \
		volatile TurnStep *turn_at = turn_step(__func__, text); \
		type			   turn_result = call;                  \
                                                                \
		turn_note(turn_at, (int64) turn_result);                \
		turn_result;                                            \
	})

#define STEP_READ(kind, pointer) \
	turn_read_##kind(__func__, "reads " #pointer, pointer)
#define STEP_WRITE(kind, pointer, value) \
	turn_write_##kind(__func__, "writes " #pointer, pointer, value)
#define STEP_EXCHANGE(kind, pointer, value) \
	turn_exchange_##kind(__func__, "exchanges " #pointer, pointer, value)
#define STEP_ADD(kind, pointer, value) \
	turn_add_##kind(__func__, "adds to " #pointer, pointer, value)
#define STEP_COMPARE(kind, pointer, expected, value) \
	turn_compare_##kind(__func__, "raises " #pointer, pointer, expected, value)
#define STEP_BARRIER(call)                     \
	({                                         \
		(void) turn_step(__func__, "barrier"); \
		call;                                  \
	})
#define STEP_FULL_BARRIER(call) STEP_BARRIER(call)
#define STEP_SPIN_ACQUIRE(lock) \
	turn_spin_acquire(__func__, "locks " #lock, lock)
#define STEP_SPIN_RELEASE(lock) \
	turn_spin_release(__func__, "unlocks " #lock, lock)
#define STEP_LOCK(lock, mode) turn_lock(__func__, "locks " #lock, lock, mode)
#define STEP_UNLOCK(lock) turn_unlock(__func__, "unlocks " #lock, lock)
#define STEP_UNLOCK_ALL() turn_unlock_all()
#define STEP_SET_LATCH(latch) turn_set_latch(__func__, "sets " #latch, latch)
#define STEP_RESET_LATCH(latch) \
	turn_reset_latch(__func__, "resets " #latch, latch)
#define STEP_WAIT_LATCH(latch, events, ms, name) \
	turn_wait_latch(__func__, "waits for " #latch, latch, events, ms, name)
#define STEP_BROADCAST(condition) \
	turn_broadcast(__func__, "signals " #condition, condition)
#define STEP_PREPARE_TO_SLEEP(condition) \
	turn_prepare_to_sleep(__func__, "prepares for " #condition, condition)
#define STEP_TIMED_SLEEP(condition, ms, name) \
	turn_timed_sleep(__func__, "waits for " #condition, condition, ms, name)
#define STEP_SLEEP(us) turn_usleep(__func__, "sleeps", us)
#define STEP_CLOCK() turn_clock(__func__, "reads the clock")
#define STEP_ASK_SERVER(call)              \
	({                                     \
		(void) turn_step(__func__, #call); \
		call;                              \
	})
#define STEP_STORE(type, call) TURN_CALL(type, call, #call)
#define STEP_FLUSH(call)                   \
	({                                     \
		(void) turn_step(__func__, #call); \
		call;                              \
	})

#include "steps.h"
