/*
 * minting.pml -- minting and the horizon, for spin
 *
 * A model of the protocol at the heads of src/horizon.c and src/positions.c, and of the minting in
 * src/mint.c.  spin runs through every interleaving of their steps, with
 * crashes, stops and promotions wherever they can strike, and finds
 *
 *   - no position (tick and sequence number) minted twice, by any server in
 *     any incarnation;
 *   - no position minted that is not above all those minted before it (without
 *     PROMOTION, where two servers mint at once);
 *   - no position minted in a tick that is not before the record on disk and,
 *     where there is a synchronous standby, before the one that it received.
 *
 * Two configurations, since both at once are too many states:
 *
 *   (none)       one server, its disk, crashes, losses of power, clean stops
 *   -DPROMOTION  a server and its synchronous standby, which may be promoted
 *                at any moment; the old primary need not be dead and mints on
 *
 * model.pl runs both, and shows that the model can fail: each of the switches
 * below, a step left out or moved, must make it mint something twice.
 *
 *   PUBLISH_BEFORE_DURABLE  the horizon, after the rename, before the fsync
 *   NO_FLOOR                a server that starts forgets what it read
 *   LATEST_BEFORE_HORIZON   a minter reads the two bounds the other way round
 *   UNLOCKED_TAKE           a minter reads and writes the shard's position
 *                           without holding its lock between the two
 *   SPREAD_ANEW             snowflake.spread begins a tick anywhere again, although
 *                           the shard has minted in it (with PER_TICK=2)
 *   RECORD_GOES_DOWN        the worker may write less than it has published,
 *                           as it would after snowflake.reserve was lowered
 *   STOP_TOO_SOON           a clean stop lowers the record while others mint
 *   PUBLISH_BEFORE_LOGGED   the horizon, when it is in the file, but not yet
 *                           logged (with PROMOTION)
 *   WAIT_CUT_SHORT          the horizon, when it is logged, whether or not
 *                           the standby has it (with PROMOTION)
 *
 * ONLY_TWICE leaves the first property alone in force, so that what the
 * switches lead to is an id minted twice and not just a rule broken.
 *
 *
 * What is what
 *
 *   here                         in src/
 *   Server.latest, horizon       Bounds, in positions.h
 *   Server.next                  ShardState.last, plus one
 *   Server.open                  HorizonState.is_open
 *   Server.file                  snowflake.horizon as a process reads it
 *   Server.durable               snowflake.horizon after a loss of power
 *   Server.page                  the page that a standby has replayed
 *   Minter                       read_tick(), begin_tick() and take()
 *   Worker                       open_horizon() and renew_horizon()
 *   Postmaster                   server_shmem_startup() and close_cleanly()
 *   Kernel                       the page cache being written back
 *   Standby                      the receiver of WAL, and promotion
 *
 * Ticks are numbers from 0, and the layout expires at TICKS, last_mint_tick + 1.
 * A record is the tick in which its time begins; 0 is no record.
 *
 *
 * What is left out, and why nothing is lost by it
 *
 * Each time, the model can do all that the server can, and more.
 *
 *   - The clock.  Every reading of it may give any tick whatever, so that it
 *     steps, drifts and stands still as it likes, and two processes may see
 *     different times.  It is nobody's but the reader's, so reading it needs
 *     no step of its own.
 *   - snowflake.reserve, Bounds.renew and who asks for a renewal when.  The
 *     worker may at any time renew the horizon, as far as it likes.
 *   - Waiting, for the clock, the horizon or the next tick: a call that would
 *     wait ends without an id, and another one begins.
 *   - Other shards.  Each has a position and a lock of its own and all share
 *     the bounds, so a call on another shard is, to this one, a call that
 *     raises the latest tick and then takes nothing; any call may do that.  So
 *     may one that is cancelled.
 *   - The floor of a session that mints on the server's own shards, and where
 *     snowflake.spread begins a tick: a minter may skip any positions that are
 *     left in the tick.
 *   - Errors and the death of the worker alone: it may give up between any two
 *     of its steps, and begins again.
 *   - The temporary file, which nobody reads.  The record's layout, its
 *     checksum and a file that cannot be read: until there is a good record,
 *     the horizon is not published at all.
 *   - The page on a server that never was a standby: it can only raise the
 *     floor.
 *   - A backend or a postmaster that dies while others live on.  That is a
 *     crash which strikes the others later, because no server starts before
 *     all processes of the last one have gone.
 *   - The order in which a processor's memory operations show to others.  The
 *     bounds are raised by compare-and-exchange, a full barrier, and read with
 *     barriers between; a spinlock has its own.
 *
 * With PROMOTION also the following, each of which the other configuration
 * has: fsync is one step with the rename; the promoted server does not start
 * again, so that its file does not matter.  And the old primary does not start
 * again after the promotion, because it would wait for its standby for ever;
 * who tells it to do without one has two primaries, and nothing is promised.
 */

#ifndef TICKS
#define TICKS 4
#endif
#ifndef PER_TICK
#define PER_TICK 1		/* sequence numbers */
#endif

#define first_position(tick) ((tick) * PER_TICK)
#define tick_of(position) ((position) / PER_TICK)

#ifdef PROMOTION
#define SERVERS 2		/* 0 is the primary, 1 the standby */
#define MINTERS 1		/* on each */
#else
#define SERVERS 1
#define MINTERS 2
#endif

typedef Server {
	/* shared memory, lost in a crash */
	byte latest;
	byte horizon;
	byte next;
	bool open;

	/* processes */
	bool up;			/* they run; else they are to be gone at once */
	byte busy;			/* how many are between two steps */

	/* the disk */
	byte file;
	byte durable;
	byte page
}

Server server[SERVERS];
#define me server[s]

/* What is never forgotten, a bit for each position. */
short minted;		/* 15 of them */

#ifdef PROMOTION
chan wal = [2] of { byte };	/* records flushed and not yet received */
bool promoted;
#endif

inline raise(bound, to)
{
	if
	:: bound < to -> bound = to
	:: else
	fi
}

inline lose_memory()
{
	me.latest = 0;
	me.horizon = 0;
	me.next = 0;
	me.open = false
}

/* -------------------------------------------------------------------------
 * Minting
 */

inline check_and_mint()
{
	printf("server %d mints position %d, of tick %d\n", s, position, tick);
	assert(!(minted & (1 << position)));
#ifndef ONLY_TWICE
#ifdef PROMOTION
	assert(s == 1 || (tick < me.file && tick < server[1].page));
#else
	assert((minted >> position) == 0);
	assert(tick < me.file && tick < me.durable);
#endif
#endif
	minted = minted | (1 << position)
}

/* The call is over, and its variables with it. */
inline end_call()
{
	horizon = 0;
	latest = 0;
	tick = 0;
	position = 0;
	me.busy--
}

proctype Minter(byte s)
{
	byte horizon, latest, tick, position;

	do
	::
		/* read_tick(): the one bound, then the other, then the clock */
#ifdef LATEST_BEFORE_HORIZON
		atomic { me.up -> me.busy++; latest = me.latest }
#else
		atomic { me.up -> me.busy++; horizon = me.horizon }
#endif
		{
			atomic {
#ifdef LATEST_BEFORE_HORIZON
				horizon = me.horizon;
#else
				latest = me.latest;
#endif
				if
				:: latest < horizon -> tick = latest
				:: else -> end_call(); goto over	/* it waits */
				fi;
				do
				:: tick + 1 < horizon -> tick++
				:: break
				od;
				printf("a minter on server %d saw horizon %d, latest %d and time %d\n",
					s, horizon, latest, tick);
				horizon = 0;
				latest = 0
			}

			/* begin_tick() */
			atomic { raise(me.latest, tick) }

			/* take() */
			atomic {
				if
#ifndef SPREAD_ANEW
				:: me.next > first_position(tick) -> position = me.next
#endif
				:: else -> position = first_position(tick)
				fi;
#if PER_TICK > 1
				do
				:: tick_of(position + 1) == tick -> position++	/* its floor, or the spread */
				:: break
				od;
#endif
#ifdef UNLOCKED_TAKE
			}
			atomic {
#endif
				if
				:: tick_of(position) == tick ->
					me.next = position + 1;
					check_and_mint()
				:: true		/* NO_ROOM, STALE, another shard's, or cancelled */
				fi;
				end_call()
			}
		} unless {
			atomic { !me.up -> end_call() }
		};
over:
	od
}

/* -------------------------------------------------------------------------
 * The worker
 */

inline end_attempt()
{
	record = 0;
	me.busy--
}

/* The last alternative to each of its steps. */
#define or_give_up :: atomic { true -> end_attempt(); goto over }

/* Is there a tick to which the horizon can be renewed? */
#define can_renew (me.up && me.open && me.latest < TICKS && me.horizon < TICKS)

/* Any tick after the latest and the horizon. */
inline choose_record()
{
	record = me.latest + 1;
#ifndef RECORD_GOES_DOWN
	raise(record, me.horizon + 1);
#endif
	do
	:: record < TICKS -> record++
	:: break
	od
}

inline publish(tick)
{
	atomic {
		raise(me.horizon, tick);
		printf("server %d publishes horizon %d\n", s, me.horizon)
	}
}

proctype Worker(byte s)
{
	byte record;

	do
	::
		/* open_horizon(): nobody but the worker has written since the start */
		atomic {
			me.up && !me.open ->
#ifndef NO_FLOOR
			raise(me.latest, me.file);
#ifdef PROMOTION
			raise(me.latest, me.page);
#endif
#endif
			me.open = true;
			printf("server %d opens with floor %d\n", s, me.latest)
		}
	::
		/* renew_horizon() for somebody who stands before the floor */
		atomic {
			me.up && me.open && me.horizon == 0 && me.latest > 0 ->
			publish(me.latest)
		}
#ifdef PROMOTION
	::
		/* renew_horizon() on the promoted server */
		atomic {
			s == 1 && can_renew ->
			choose_record();
			publish(record);
			record = 0
		}
#endif
	::
		/* renew_horizon() */
#ifdef PROMOTION
		atomic { s == 0 && !promoted && can_renew -> me.busy++; choose_record() }
#else
		atomic { can_renew -> me.busy++; choose_record() }
#endif
		{
			/* record_write_file() */
			if
			:: atomic {
				me.file = record;
				printf("server %d renames a file with %d\n", s, record)
			}
			or_give_up
			fi;
#ifndef PROMOTION
#ifdef PUBLISH_BEFORE_DURABLE
			publish(record);
#endif
			if
			:: atomic {
				me.durable = record;
				printf("server %d has fsynced %d\n", s, record)
			}
			or_give_up
			fi;
#else
			/* record_log_page() */
#ifdef PUBLISH_BEFORE_LOGGED
			publish(record);
#endif
			if
			:: atomic {
				wal!record;
				printf("server %d logs %d\n", s, record)
			}
			or_give_up
			fi;
#ifndef WAIT_CUT_SHORT
			if
			:: empty(wal)
			or_give_up
			fi;
#endif
#endif
			atomic { publish(record); end_attempt() }
		} unless {
			atomic { !me.up -> end_attempt() }
		};
over:
	od
}

/* -------------------------------------------------------------------------
 * Starts, stops and crashes
 */

proctype Postmaster(byte s)
{
	do
	::
		atomic {
#ifdef PROMOTION
			!promoted;
#endif
			me.up = true;
			printf("server %d starts, and its file says %d\n", s, me.file)
		}
#ifdef STOP_TOO_SOON
		atomic {
			me.horizon > me.latest ->
			me.file = me.latest + 1;
			me.durable = me.file;
			printf("server %d lowers the record to %d\n", s, me.file)
		}
#endif
		if
		::
			/* a crash of the server, or of the whole machine */
			atomic {
				me.up = false;
				lose_memory();
				printf("server %d crashes\n", s);
#ifndef PROMOTION
				if
				:: me.file = me.durable;
					printf("power is lost, and the file says %d\n", me.file)
				:: true
				fi
#endif
			}
			me.busy == 0
		::
			/* a stop, which changes nothing where nothing was minted */
			atomic { me.horizon > me.latest -> me.up = false };
			atomic {
				me.busy == 0 ->
				me.file = me.latest + 1;
				lose_memory();
				printf("server %d stops, and its file says %d\n", s, me.file)
			}
#ifndef PROMOTION
			if
			:: me.durable = me.file
			:: me.file = me.durable		/* power is lost */
			:: true					/* fsync fails */
			fi
#endif
		fi
	od
}

#ifndef PROMOTION

proctype Kernel(byte s)
{
	do
	:: me.file != me.durable -> me.durable = me.file
	od
}

#else

proctype Standby()
{
	byte record;

	do
	:: atomic {
		wal?record ->
		server[1].page = record;
		printf("the standby has %d\n", record);
		record = 0
	}
	:: break
	od;
	atomic {
		promoted = true;
		server[1].up = true;
		printf("the standby is promoted with %d\n", server[1].page)
	}
}

#endif

init {
	byte s = 0;
	byte i = 0;

	atomic {
#ifdef PROMOTION
		run Standby();
#else
		run Kernel(0);
#endif
		run Postmaster(0);
		do
		:: s < SERVERS ->
			run Worker(s);
			i = 0;
			do
			:: i < MINTERS -> run Minter(s); i++
			:: else -> break
			od;
			s++
		:: else -> break
		od;
		s = 0;
		i = 0
	}
}
