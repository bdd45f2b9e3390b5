/*
 * lease.pml -- leases of shards, for spin
 *
 * A model of the protocol at the heads of src/lease.c and of the script of
 * snowflake_registry: servers lease a shard from a registry, mint on it within the
 * time that they leased, and lose it.  minting.pml models what happens inside a
 * server; this model is about what happens between servers.  spin runs through
 * every interleaving of the steps, with crashes, clones, lost messages and wrong
 * clocks wherever they can strike, and finds
 *
 *   - no tick of the shard minted in twice, by any server in any incarnation;
 *   - no tick minted in outside of the lease that the server has on disk, or at
 *     or after the horizon that it has on disk.
 *
 * Two configurations, since both at once are too many states:
 *
 *   (none)     servers that crash, stop, start again in the same place or in
 *              another one, and become clones of each other
 *   -DRESTORE  the registry is once restored from a backup, and fenced; the
 *              servers stay where they are
 *
 * model.pl runs both, and shows that the model can fail: each of the switches
 * below, a rule that is left out, must make it mint something twice.
 *
 *   FROM_ZERO            a new lease does not begin where the last one ended
 *   ANY_HOLDER           the registry renews without looking at the holder
 *   ANY_PLACE            a server that starts in another place goes on with the
 *                        leases in its record
 *   KEEPS_OLD_LEASES     a server that starts in another place does not, but leaves
 *                        them in its record
 *   NO_FLOOR             a server that starts forgets the horizon in its record
 *   MINT_BEFORE_DURABLE  the horizon is published before it is on disk
 *   HORIZON_PAST_UNTIL   the horizon is published past the end of the lease
 *   OPEN_BELOW_HORIZON   sessions may mint on a lease that ends before the
 *                        horizon that is published already
 *   RENEW_KEEPS_FROM     a server looks at the beginning of a lease only where
 *                        it had none: the registry may have begun a new one
 *   RENEW_LOWERS_FROM    a server takes the beginning of a lease as it comes,
 *                        though it holds a later one (with RESTORE)
 *   RELEASE_WHILE_OPEN   a shard is given back while sessions mint on it
 *   RELEASE_BEFORE_DISK  a shard is given back while the record has the lease
 *   RELEASE_BELOW_FROM   a shard is given back from the tick after the last id
 *                        on, or from 0 on where there is none; and the registry
 *                        believes it
 *   RELEASE_BELOW_FLOOR  likewise, but from the lease's beginning on where there
 *                        is none since a restart
 *   CALLS_REPEAT         the registry executes an old release, as if it were the
 *                        holder's last call
 *   UNFENCED             the registry is restored, and not fenced (with RESTORE)
 *   FENCE_BEHIND         its clock is behind after that (with RESTORE)
 *   RENEWS_UNCLAIMED     the registry renews what it believes a server to hold,
 *                        though the server does not claim it (with RESTORE)
 *   RENEWS_EXPIRED       the registry renews what a server claims, though the
 *                        lease that the server has is over (with RESTORE)
 *
 * ONLY_TWICE leaves the first property alone in force, so that what the
 * switches lead to is an id minted twice and not just a rule broken.
 *
 *
 * What is what
 *
 *   here                     there
 *   Row                      the shard's row in the registry
 *   Server.open              the shard is one of the server's, in shared memory
 *   Server.next              its last position, plus one
 *   Server.horizon           the horizon in shared memory
 *   Server.from, until,      the record: the lease, none if "until" is 0, and
 *   durable                  the horizon
 *   Server.elsewhere         another file, device, host or boot than the record's
 *   Server.is_holder         its number is the holder's in the row
 *
 * Ticks are numbers from 0, and TICKS is the number of them.  A tick has room for
 * one id.  A lease ends LEASE ticks after the time that the registry's clock
 * shows, or with the last tick; as that may be any time, it is as long as it
 * likes.
 *
 *
 * What is left out, and why nothing is lost by it
 *
 *   - The servers' clocks.  A session may mint in any tick that its server
 *     allows, so the clock shows any time and steps as it likes.  So does the
 *     registry's, but after a fence it is not behind what it showed before.
 *   - How a horizon gets to the disk, and what sessions do to each other: that is
 *     minting.pml.  Here the record is written and the horizon published in one
 *     step, and a session mints in one step.  A session that read the horizon
 *     earlier may do no more than one that reads it now, since it only grows
 *     while a server lives; and it sees under the shard's lock whether the shard
 *     is open.
 *   - Other shards.  Each has a row and leases of its own.  All share the
 *     horizon, so while this one is shut, the others let it go where it likes.
 *   - The way of a message.  A call is executed at once, later or never, and its
 *     answer arrives or does not.  A call for a lease that is executed later is
 *     one whose answer is lost; it may strike at any time.  A release that is
 *     executed later is kept for as long as it can have an effect.  An answer
 *     that arrives late, or is asked for again, is one that came at once, where
 *     nothing was minted for a time.
 *   - The moment between a write to the disk and one to memory: a crash then is
 *     one after both, with nothing minted yet.
 *   - Fences.  They tell a holder's last call from older ones, so that what is
 *     left of an old call is nothing but CALLS_REPEAT.  What else they do is for
 *     servers that nothing else tells apart, see below.
 *   - A promoted standby, a recovered backup, a clone: each is a server that finds
 *     another one's record, and that of any earlier time.
 *
 * What stays outside, because nothing can prevent it: two servers that were one
 * and cannot know it, as when a machine is resumed twice from an image of its
 * memory, or when a volume is put back to a snapshot while the machine runs.  Both
 * mint on the lease until both have called the registry, where the fence
 * makes the second one a new holder.  And two registries.
 */

#ifndef TICKS
#define TICKS 4
#endif
#ifndef LEASE
#define LEASE 2			/* ticks */
#endif
#define SERVERS 2

#define NONE 9			/* no server */

typedef Server {
	/* shared memory, lost in a crash */
	bool up;
	bool open;
	byte next;
	byte horizon;

	/* the record */
	byte from;
	byte until;
	byte durable;
	bool elsewhere;

	/* the registry's, but a bit for each server */
	bool is_holder;
	bool is_in_backup;

	/* for the switches of these names */
	bool while_open;
	byte while_open_next;
	bool before_disk;
	bool below_floor
}

Server server[SERVERS];
#define me server[s]
#define other server[1 - s]

typedef Row {
	byte from;
	byte until
}

Row row;
#ifdef RESTORE
byte not_before;		/* no lease begins */
#else
#define not_before 0
#endif

/* A release that may yet be executed: its server and its end. */
byte releasing = NONE;
byte releasing_until;

#ifdef RESTORE
Row backup;
byte latest_time;		/* that the registry's clock has shown */
bool restored;
#endif

short minted;			/* a bit for each tick, never forgotten */

inline raise(bound, to)
{
	if
	:: bound < to -> bound = to
	:: else
	fi
}

/* -------------------------------------------------------------------------
 * The registry
 */

/* Gives "time", and the "end" of a lease that is granted now. */
inline look_at_clock()
{
	time = 0;
#if defined(RESTORE) && !defined(FENCE_BEHIND)
	if
	:: restored -> time = latest_time
	:: else
	fi;
#endif
	do
	:: time < TICKS - 1 -> time++
	:: break
	od;
	if
	:: time + LEASE < TICKS -> end = time + LEASE
	:: else -> end = TICKS
	fi
}

/* There is nothing to be executed any more. */
inline forget_release()
{
	releasing = NONE;
	releasing_until = 0
}

/*
 * Has s a lease in force?  It claims one, until "me.until"; and the registry
 * believes the same.
 */
#if defined(ANY_HOLDER)
#define in_force (row.until > time && me.until > time)
#elif defined(RENEWS_UNCLAIMED)
#define in_force (row.until > time && me.is_holder)
#elif defined(RENEWS_EXPIRED)
#define in_force (row.until > time && me.is_holder && me.until > 0)
#else
#define in_force (row.until > time && me.is_holder && me.until > time)
#endif

/* A lease for s, a renewed one or a new one.  Gives "granted". */
inline lease()
{
	look_at_clock();
#ifdef RESTORE
	if
	:: !restored -> raise(latest_time, time)
	:: else
	fi;
#endif
	granted = true;
	if
	:: in_force -> raise(row.until, end)
	:: row.until <= time && not_before <= time ->
#ifdef FROM_ZERO
		row.from = 0;
#else
		row.from = row.until;
#ifdef RESTORE
		raise(row.from, not_before);
#endif
#endif
		row.until = end;
		other.is_holder = false;
		me.is_holder = true
	:: else -> granted = false
	fi;
	time = 0;
	end = 0;
	if
	:: granted ->
		printf("the registry grants server %d the ticks from %d until %d\n", s, row.from, row.until);
#ifndef CALLS_REPEAT
		forget_release()
#endif
	:: else -> printf("the registry refuses server %d\n", s)
	fi
}

inline execute_release()
{
#ifndef RELEASE_BELOW_FROM
	raise(releasing_until, row.from);
#endif
	if
	:: row.until > releasing_until -> row.until = releasing_until
	:: else
	fi;
	printf("the registry has the shard back, free from %d on\n", row.until);
	forget_release()
}

/* -------------------------------------------------------------------------
 * A server
 */

/* May sessions begin to mint on the shard? */
#ifdef OPEN_BELOW_HORIZON
#define may_open true
#else
#define may_open (me.horizon <= me.until)
#endif

/* How far may the horizon go? */
#ifdef HORIZON_PAST_UNTIL
#define limit TICKS
#else
#define limit (me.open == true -> me.until : TICKS)
#endif

proctype Sessions(byte s)
{
	do
	::
		atomic {
			me.up && me.open && me.next < me.horizon ->
			do
			:: me.next + 1 < me.horizon -> me.next++
			:: break
			od;
			printf("server %d mints in tick %d\n", s, me.next);
			assert(!(minted & (1 << me.next)));
#ifndef ONLY_TWICE
			assert(me.from <= me.next && me.next < me.until);
			assert(me.next < me.durable);
#endif
			minted = minted | (1 << me.next);
#ifdef RELEASE_BELOW_FLOOR
			me.below_floor = false;
#endif
			me.next++
		}
	od
}

proctype Horizon(byte s)
{
	do
#ifdef MINT_BEFORE_DURABLE
	:: atomic { me.up && me.horizon < limit -> me.horizon++ }
	:: atomic { me.up && me.durable < me.horizon -> me.durable = me.horizon }
#else
	::
		atomic {
			me.up && me.horizon < limit ->
			do
			:: me.horizon < limit -> me.horizon++
			:: break
			od;
			raise(me.durable, me.horizon);
			printf("server %d has and publishes horizon %d\n", s, me.horizon)
		}
#endif
	od
}

/* No session mints on the shard from here on. */
inline shut()
{
	me.open = false;
	me.next = 0
}

inline forget_lease()
{
	me.from = 0;
	me.until = 0
}

/* From when on is the shard free?  Gives "end". */
inline choose_end()
{
	end = me.next;
	if
#if defined(RELEASE_BELOW_FROM)
	:: me.next == me.from -> end = 0
#elif defined(RELEASE_BELOW_FLOOR)
	:: me.below_floor -> end = me.from
#endif
	:: else
	fi
}

/* A call that may be executed until the holder's next one is. */
inline send_release()
{
	if
	:: me.is_holder ->
		releasing = s;
		releasing_until = end;
		printf("server %d gives the shard back from %d on\n", s, end)
	:: else
	fi;
	end = 0
}

proctype Leases(byte s)
{
	byte time, end;
	bool granted;

	do
	::
		/* what is granted is taken from: the disk first, then the memory */
		atomic {
			me.up ->
			lease();
			if
			:: granted ->
				if
				:: me.until == 0 -> me.from = row.from
				:: else ->
#if defined(RENEW_LOWERS_FROM)
					me.from = row.from
#elif !defined(RENEW_KEEPS_FROM)
					raise(me.from, row.from)
#endif
				fi;
				me.until = row.until;
				if
				:: may_open -> me.open = true; raise(me.next, me.from)
				:: else		/* it has to be renewed for longer */
				fi
			:: else ->
				if
				:: shut(); forget_lease()
				:: true		/* the lease lasts until its end */
				fi
			fi;
			granted = false
		}
	::
		/* an answer that does not arrive */
		atomic { lease(); granted = false }
	::
#if defined(RELEASE_WHILE_OPEN)
		atomic {
			me.up && me.open && !me.while_open ->
			me.while_open = true;
			choose_end();
			me.while_open_next = end;
			end = 0
		}
	::
		atomic {
			me.up && me.while_open ->
			shut();
			forget_lease();
			end = me.while_open_next;
			send_release();
			me.while_open = false;
			me.while_open_next = 0
		}
#elif defined(RELEASE_BEFORE_DISK)
		atomic {
			me.up && me.open ->
			choose_end();
			send_release();
			shut();
			me.before_disk = true
		}
	::
		atomic { me.up && me.before_disk -> forget_lease(); me.before_disk = false }
#else
		/* the sessions first, then the disk, and then the registry */
		atomic {
			me.up && me.open ->
			choose_end();
			send_release();
			shut();
			forget_lease()
		}
#endif
	::
#ifdef CALLS_REPEAT
		atomic { releasing == s && me.is_holder -> execute_release() }
#else
		atomic { releasing == s -> execute_release() }
#endif
	od
}

/* -------------------------------------------------------------------------
 * Starts, stops and crashes
 */

#ifdef ANY_PLACE
#define in_place true
#else
#define in_place (!me.elsewhere)
#endif

inline end_server()
{
	shut();
	me.horizon = 0;
	me.while_open = false;
	me.while_open_next = 0;
	me.before_disk = false;
	me.below_floor = false;
	me.up = false
}

proctype Postmaster(byte s)
{
	do
	::
		atomic {
			!me.up ->
			me.up = true;
			if
			:: in_place ->
				me.open = (me.until > 0);
				me.next = me.from;
#ifdef RELEASE_BELOW_FLOOR
				me.below_floor = true;
#endif
				printf("server %d goes on\n", s)
#ifndef RESTORE
			:: else ->
				me.is_holder = false;
#ifndef KEEPS_OLD_LEASES
				forget_lease();
#endif
				printf("server %d begins as a new holder\n", s)
#endif
			fi;
#ifndef NO_FLOOR
			raise(me.next, me.durable);
#endif
			me.elsewhere = false
		}
	::
		atomic {
			me.up ->
			end_server();
			printf("server %d crashes\n", s)
		}
#ifndef RESTORE
	::
		/* a stop without the registry: the record is lowered to the last id */
		atomic {
			me.up && me.open && me.horizon > 0 ->
			me.durable = me.next;
			end_server();
			printf("server %d stops\n", s)
		}
	::
		/* another boot, another host */
		atomic { !me.up && !me.elsewhere -> me.elsewhere = true }
	::
		/* a clone, or a standby that is promoted */
		atomic {
			!me.up ->
			me.from = other.from;
			me.until = other.until;
			me.durable = other.durable;
			me.elsewhere = true;
#ifdef ANY_PLACE
			me.is_holder = other.is_holder;
#else
			me.is_holder = false;
#endif
			printf("server %d is made from server %d\n", s, 1 - s)
		}
#endif
	od
}

/* -------------------------------------------------------------------------
 * The registry's administrator
 */

#ifdef RESTORE

proctype Administrator()
{
	byte time, end;

	atomic {
		backup.from = row.from;
		backup.until = row.until;
		server[0].is_in_backup = server[0].is_holder;
		server[1].is_in_backup = server[1].is_holder;
		printf("the registry is backed up\n")
	}
	/* restored, with no connection of before, and fenced before it serves */
	atomic {
		restored = true;
		row.from = backup.from;
		row.until = backup.until;
		server[0].is_holder = server[0].is_in_backup;
		server[1].is_holder = server[1].is_in_backup;
		forget_release();
#ifndef UNFENCED
		look_at_clock();
		not_before = end;
		time = 0;
		end = 0;
#endif
		backup.from = 0;
		backup.until = 0;
		server[0].is_in_backup = false;
		server[1].is_in_backup = false;
		printf("the registry is restored\n")
	}
}

#endif

init {
	byte s = 0;

	atomic {
#ifdef RESTORE
		run Administrator();
#endif
		do
		:: s < SERVERS ->
			run Postmaster(s);
			run Leases(s);
			run Horizon(s);
			run Sessions(s);
			s++
		:: else -> break
		od;
		s = 0
	}
}
