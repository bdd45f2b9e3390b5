/*
 * lease.pml -- leases of shards, the registry, and the reader of the feed, for spin
 *
 * A model of the protocol at the heads of src/lease/lease_worker.c and of the script of
 * snowflake_registry, and of what src/mark.c promises over restarts: servers lease a
 * shard from a registry, mint on it within the time that they leased, lose it, and
 * somebody polls one of them.  minting.pml models what happens inside a server, and
 * settled.pml what a reader and the transactions of one server do to each other; this
 * model is about what happens between servers.  spin runs through every interleaving of
 * the steps, with crashes, clones, lost messages and wrong clocks wherever they can
 * strike, and finds
 *
 *   - no tick of the shard minted in twice, by any server in any incarnation;
 *   - no tick minted in outside of the lease that the server has on disk, or at
 *     or after the horizon that it has on disk;
 *   - no tick minted in below a mark that the poller got, by the server that it follows.
 *
 * The configurations are parts that can be put together:
 *
 *   (none)      servers that crash and start again in the same place
 *   -DPLACES    and stop, start in another place, and become clones of each other
 *   -DFEED      and a poller, which follows if a standby is promoted
 *   -DREGISTRY  the registry is once put back to a backup, or made new
 *   -DOUTSIDE   the shard is reserved, and a program mints on it (with REGISTRY)
 *
 * model.pl runs them, and shows that the model can fail: each of the switches below, a
 * rule that is left out, must make it mint something twice, or miss a row.
 *
 *   FROM_ZERO            a new lease does not begin where the last one ended
 *   ANY_HOLDER           the registry renews without looking at the holder
 *   ANY_PLACE            a server that starts in another place goes on with the
 *                        leases in its record (with PLACES)
 *   KEEPS_OLD_LEASES     a server that starts in another place does not, but leaves
 *                        them in its record (with PLACES)
 *   NO_FLOOR             a server that starts forgets the horizon in its record
 *   MINT_BEFORE_DURABLE  the horizon is published before it is on disk
 *   HORIZON_PAST_UNTIL   the horizon is published past the end of the lease
 *   OPEN_BELOW_HORIZON   sessions may mint on a lease that ends before the
 *                        horizon that is published already
 *   RENEW_KEEPS_FROM     a server looks at the beginning of a lease only where
 *                        it had none: the registry may have begun a new one
 *   RELEASE_WHILE_OPEN   a shard is given back while sessions mint on it
 *   RELEASE_BEFORE_DISK  a shard is given back while the record has the lease
 *   RELEASE_BELOW_FROM   a shard is given back from the tick after the last id
 *                        on, or from 0 on where there is none; and the registry
 *                        believes it
 *   RELEASE_BELOW_FLOOR  a shard that was not opened since a restart is given back
 *                        from the lease's beginning on
 *   CALLS_REPEAT         the registry executes an old release, as if it were the
 *                        holder's last call
 *   LEAVES_BY_RELOAD     a server whose snowflake.registry is emptied does so at once,
 *                        while a statement mints on the shard
 *
 * With FEED and PLACES:
 *
 *   FLOOR_OF_HOLDER      a new holder begins at its lease, not at the horizon that it
 *                        found
 *   MARK_PAST_HORIZON    the mark goes on with the clock, past the horizon
 *   MARK_NOT_RAISED      the reader does not raise the latest tick to the mark
 *   STOP_BELOW_MARK      a clean stop lowers the record to the last id, though the
 *                        mark is later
 *
 * With REGISTRY:
 *
 *   NOT_NOTICED          the registry is put back, and does not fence itself
 *   NOT_PROVEN           it does not by itself, and a server that was answered since
 *                        the backup calls first, which does not fence it either
 *   BORN_OPEN            it is made new, and leases at once
 *   OPENED_UNFENCED      it is opened for servers that have no leases, and they have
 *   FENCE_BEHIND         its clock is behind after it was put back
 *   RENEWS_UNCLAIMED     it renews what it believes a server to hold, though the
 *                        server does not claim it
 *   RENEWS_EXPIRED       it renews what a server claims, though the lease that the
 *                        server has is over
 *   RENEWS_RESERVED      it renews a lease of a shard that is reserved (with OUTSIDE)
 *   RENEW_LOWERS_FROM    a server takes the beginning of a lease as it comes, though
 *                        it holds a later one
 *   NOT_RESERVED         who mints outside does not ask for a reservation, as for ids
 *                        of old rows (with OUTSIDE)
 *   RESERVE_FENCED       a shard is reserved during a fence (with OUTSIDE)
 *   RESERVE_LEASED       a shard is reserved that is leased (with OUTSIDE)
 *
 * ONLY_TWICE leaves the second property out, so that what the switches lead to is an id
 * minted twice, or a row that is missed, and not just a rule broken.
 *
 *
 * What is what
 *
 *   here                     there
 *   Row                      the shard's row in the registry
 *   Server.open              the shard is one of the server's, in shared memory
 *   Server.next              the later of Bounds.latest and the shard's last position,
 *                            plus one
 *   Server.from, until,      the record: the lease, none if "until" is 0, and
 *   durable                  the horizon; which is the one in shared memory, too
 *   Server.elsewhere         another file, device, host or boot than the record's
 *   Server.is_holder         its number is the holder's in the row
 *   Server.knows             "confirmed" is a fence that the registry forgets, if it is
 *                            put back
 *   mark                     the greatest snowflake_settled() that was given
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
 *     registry's, but after it was put back it is not behind what it showed before.
 *   - How a horizon gets to the disk, and what sessions do to each other: that is
 *     minting.pml.  Here the record is written and the horizon published in one
 *     step, and a session mints, and commits, in one step.  A session that read the
 *     horizon earlier may do no more than one that reads it now, since it only grows
 *     while a server lives; and it sees under the shard's lock whether the shard
 *     is open.
 *   - A start at which the horizon is not published yet: nothing is minted before
 *     the one that was found.
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
 *   - Fences of holders.  They tell a holder's last call from older ones, so that what
 *     is left of an old call is nothing but CALLS_REPEAT.  What else they do is for
 *     servers that nothing else tells apart, see below.
 *   - A lease that is revoked: it is a refusal.
 *   - A promoted standby, a recovered backup, a clone: each is a server that finds
 *     another one's record, and that of any earlier time.  The poller follows only to
 *     one that has what was published.
 *
 * What stays outside, because nothing can prevent it:
 *
 *   - Two servers that were one and cannot know it, as when a machine is resumed twice
 *     from an image of its memory, or when a volume is put back to a snapshot while the
 *     machine runs.  Both mint on the lease until both have called the registry, where
 *     the fence makes the second one a new holder.  And two registries.
 *   - A registry that is put back, does not notice, and is called first by a server
 *     that it has not answered since the backup.
 *   - A reservation that is forgotten, and a program on a reserved shard whose clock is
 *     behind the registry's.
 */

#ifndef TICKS
#define TICKS 3
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
#ifdef MINT_BEFORE_DURABLE
	byte published;
#define horizon published
#else
#define horizon durable
#endif

	/* the record */
	byte from;
	byte until;
	byte durable;
	bool elsewhere;

	/* the registry's, but a bit for each server */
	bool is_holder;
#ifdef REGISTRY
	bool is_in_backup;
	bool knows;			/* it was answered since the backup, or since the registry was made */
#endif

	/* for the switches of these names */
#ifdef RELEASE_WHILE_OPEN
	bool while_open;
	byte while_open_next;
#endif
	bool before_disk;
	bool below_floor;
	bool left;
#ifdef STOP_BELOW_MARK
	byte raised
#else
#define raised next
#endif
}

Server server[SERVERS];
#define me server[s]
#define other server[1 - s]

typedef Row {
	byte from;
	byte until
}

Row row;
#ifdef REGISTRY
bool is_closed;
byte not_before;		/* no lease begins */
bool was_put_back;
#else
#define is_closed false
#define not_before 0
#define was_put_back false
#endif

/* A release that may yet be executed: its server and its end. */
byte releasing = NONE;
byte releasing_until;

#ifdef REGISTRY
Row backup;
byte latest_time;		/* that the registry's clock has shown */
bool is_unproven;		/* it has lost something, and nobody called yet */
#endif
#ifdef OUTSIDE
bool is_reserved;
byte outsider;			/* the tick in which the program that has the shard may mint */
#else
#define is_reserved false
#endif

#ifdef FEED
byte followed;			/* the server that the poller reads from */
byte mark;
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
#if defined(REGISTRY) && !defined(FENCE_BEHIND)
	if
	:: was_put_back -> time = latest_time
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

#ifdef REGISTRY
#define may_call (!is_unproven || me.knows)
#define is_free (!is_reserved && row.until <= time && not_before <= time)
#ifdef RENEWS_RESERVED
#define may_renew (!is_closed)
#else
#define may_renew (!is_closed && !is_reserved)
#endif
#else
#define may_renew true
#define may_call true
#define is_free (row.until <= time)
#endif

/* What s knows and the registry does not, proves that this has lost something. */
inline prove_loss()
{
#ifdef REGISTRY
	if
	:: !was_put_back -> raise(latest_time, time)
	:: was_put_back && me.knows ->
#ifndef NOT_PROVEN
		raise(not_before, end);
		printf("server %d proves that the registry has lost something: it is fenced until %d\n", s, not_before);
#endif
		me.knows = false;
		is_unproven = false
	:: else
	fi
#else
	skip
#endif
}

/* A lease for s, a renewed one or a new one.  Gives "granted". */
inline lease()
{
	look_at_clock();
	prove_loss();
	granted = true;
	if
#ifdef REGISTRY
	:: is_closed -> granted = false
#endif
	:: may_renew && in_force -> raise(row.until, end)
	:: !is_closed && is_free ->
#ifdef FROM_ZERO
		row.from = 0;
#else
		row.from = row.until;
#ifdef REGISTRY
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
#define limit (me.open && !me.left -> me.until : TICKS)
#endif

#ifdef NO_FLOOR
#define has_floor false
#elif defined(FLOOR_OF_HOLDER)
#define has_floor (!me.elsewhere)
#else
#define has_floor true
#endif

#ifdef ANY_PLACE
#define in_place true
#else
#define in_place (!me.elsewhere)
#endif

inline mint()
{
	tick = me.next;
	raise(tick, me.from);
#ifdef STOP_BELOW_MARK
	raise(tick, me.raised);
#endif
	do
	:: tick + 1 < me.horizon -> tick++
	:: break
	od;
	if
	:: tick < me.horizon ->
		printf("server %d mints in tick %d\n", s, tick);
		assert(!(minted & (1 << tick)));
#ifndef ONLY_TWICE
		assert(me.from <= tick && tick < me.until);
		assert(tick < me.durable);
#endif
#ifdef FEED
		assert(s != followed || mark <= tick);
#endif
		minted = minted | (1 << tick);
		me.next = tick + 1
	:: else
	fi;
	tick = 0
}

/* No session mints on the shard from here on. */
inline shut() { me.open = false }

inline open_shard()
{
	me.open = true;
	me.below_floor = false
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
	:: me.next <= me.from -> end = 0
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

/* What is granted is taken from: the disk first, then the memory. */
inline take_over()
{
#ifdef REGISTRY
	me.knows = !was_put_back;
#endif
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
		:: may_open -> open_shard()
		:: true		/* it has to be renewed for longer, or has not begun yet */
		fi
	:: else ->
		if
		:: shut(); forget_lease()
		:: true		/* the lease lasts until its end */
		fi
	fi
}

inline end_server()
{
	shut();
	me.next = 0;
	me.raised = 0;
#ifdef MINT_BEFORE_DURABLE
	me.published = 0;
#endif
#ifdef RELEASE_WHILE_OPEN
	me.while_open = false;
	me.while_open_next = 0;
#endif
	me.before_disk = false;
	me.below_floor = false;
	me.left = false;
	me.up = false
}

inline start()
{
#ifdef MINT_BEFORE_DURABLE
	me.published = me.durable;
#endif
	if
	:: has_floor -> me.next = me.durable
	:: else
	fi;
	if
	:: in_place ->
#ifdef RELEASE_BELOW_FLOOR
		me.below_floor = true;
#endif
		if
		:: me.until > 0 && may_open -> open_shard()
		:: true		/* it has not begun yet, by this clock */
		fi;
		printf("server %d goes on\n", s)
#ifdef PLACES
	:: else ->
		me.is_holder = false;
#ifdef REGISTRY
		me.knows = false;
#endif
#ifndef KEEPS_OLD_LEASES
		forget_lease();
#endif
		printf("server %d begins as a new holder\n", s)
#endif
	fi;
	me.elsewhere = false;
	me.up = true
}

proctype Life(byte s)
{
	byte time, end, tick;
	bool granted;

	do
	:: atomic { me.up && me.open -> mint() }
	:: atomic { me.up && me.until > 0 && !me.open && may_open -> open_shard() }

		/* the horizon, as far as it likes in so many steps */
#ifdef MINT_BEFORE_DURABLE
	:: atomic { me.up && me.published < limit -> me.published++ }
	:: atomic { me.up && me.durable < me.published -> me.durable = me.published }
#else
	:: atomic {
		me.up && me.durable < limit ->
		me.durable++;
		printf("server %d has and publishes horizon %d\n", s, me.durable)
	}
#endif

		/* calls */
	:: atomic { me.up && may_call -> lease(); take_over(); granted = false }
	:: atomic { me.up && may_call -> lease(); granted = false }	/* no answer arrives */
	::
#if defined(RELEASE_WHILE_OPEN)
		atomic {
			me.up && me.open && !me.while_open ->
			me.while_open = true;
			choose_end();
			me.while_open_next = end;
			end = 0
		}
	:: atomic {
		me.up && me.while_open ->
		shut();
		forget_lease();
		end = me.while_open_next;
		send_release();
		me.while_open = false;
		me.while_open_next = 0
	}
#elif defined(RELEASE_BEFORE_DISK)
		atomic { me.up && me.open -> choose_end(); send_release(); shut(); me.before_disk = true }
	:: atomic { me.up && me.before_disk -> forget_lease(); me.before_disk = false }
#else
		/* the sessions first, then the disk, and then the registry */
		atomic { me.up && me.until > 0 -> choose_end(); send_release(); shut(); forget_lease() }
#endif
#ifdef CALLS_REPEAT
	:: atomic { releasing == s && me.is_holder -> execute_release() }
#else
	:: atomic { releasing == s -> execute_release() }
#endif
#ifdef LEAVES_BY_RELOAD
	:: atomic {
		me.up && me.open ->
		forget_lease();
		me.left = true;
		printf("server %d leaves the registry by a reload\n", s)
	}
#endif

		/* starts, stops and crashes */
	:: atomic { !me.up -> start() }
	:: atomic { me.up -> end_server(); printf("server %d crashes\n", s) }
#ifdef PLACES
	:: atomic {
		/* a stop without the registry: the record is lowered to the last id */
		me.up && me.open && me.next < me.durable ->
		me.durable = me.next;
		end_server();
		printf("server %d stops\n", s)
	}

		/* another boot, another host */
	:: atomic { !me.up && !me.elsewhere -> me.elsewhere = true }
	:: atomic {
		/* a clone, or a standby that is promoted */
#ifdef FEED
		s != followed;		/* else its rows are gone, too */
#endif
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
		printf("server %d is made from server %d\n", s, 1 - s);
#ifdef FEED
		if
		:: followed = s; printf("the reader follows server %d\n", s)
		:: true
		fi
#endif
	}
#endif
	od
}

/* -------------------------------------------------------------------------
 * The poller of the feed
 */

#ifdef FEED

#ifdef MARK_PAST_HORIZON
#define settled_limit TICKS
#else
#define settled_limit server[followed].horizon
#endif

proctype Poller()
{
	do
	:: atomic {
		server[followed].up && mark < settled_limit ->
		mark++;
#ifndef MARK_NOT_RAISED
		raise(server[followed].raised, mark);
#endif
		printf("the reader has read below tick %d on server %d\n", mark, followed)
	}
	od
}

#endif

/* -------------------------------------------------------------------------
 * The registry's administrator
 */

#ifdef REGISTRY

inline fence()
{
	look_at_clock();
	raise(not_before, end);
	printf("the registry is fenced until %d\n", not_before);
	time = 0;
	end = 0
}

/* A reservation that is lost has to be made again, which is for people. */
inline put_back()
{
	was_put_back = true;
	row.from = backup.from;
	row.until = backup.until;
	server[0].is_holder = server[0].is_in_backup;
	server[1].is_holder = server[1].is_in_backup;
	forget_release();
	backup.from = 0;
	backup.until = 0;
	server[0].is_in_backup = false;
	server[1].is_in_backup = false
}

proctype Administrator()
{
	byte time, end;

	if
	:: atomic {
		backup.from = row.from;
		backup.until = row.until;
		server[0].is_in_backup = server[0].is_holder;
		server[1].is_in_backup = server[1].is_holder;
		server[0].knows = false;
		server[1].knows = false;
		printf("the registry is backed up\n")
	}
		atomic {
			!is_reserved ->
			put_back();
			printf("the registry is put back\n");
#ifndef NOT_NOTICED
			if
			:: fence()		/* what it does at the first call */
			:: is_unproven = true
			fi
#endif
		}
	:: atomic {
		!is_reserved ->
		put_back();
		printf("the registry is made new\n");
#ifndef BORN_OPEN
		is_closed = true
	}
		atomic {
			is_closed = false;
#ifndef OPENED_UNFENCED
			fence()
#endif
#endif
		}
	fi
}

#endif

#ifdef OUTSIDE

#ifdef NOT_RESERVED
#define can_mint_outside true
#else
#define can_mint_outside is_reserved
#endif

/* A program that mints on a shard which is reserved; or ids for old rows. */
proctype Outsider()
{
	byte time, end;

	do
	:: atomic {
		!is_closed && !is_unproven && !is_reserved ->
		look_at_clock();
		if
#ifdef NOT_RESERVED
		:: true
#else
#ifndef RESERVE_LEASED
		:: row.until > time
#endif
#ifndef RESERVE_FENCED
		:: not_before > time
#endif
#endif
		:: else ->
			is_reserved = true;
			if
			:: was_put_back || row.until > 0 -> outsider = time
			:: else		/* it was never leased: any old row */
			fi;
			printf("the registry reserves the shard\n")
		fi;
		time = 0;
		end = 0
	}
	:: atomic {
		(can_mint_outside) && outsider < TICKS ->
		if
		:: printf("a minter outside mints in tick %d\n", outsider);
			assert(!(minted & (1 << outsider)));
			minted = minted | (1 << outsider)
		:: true
		fi;
		outsider++
	}
	od
}

#endif

init {
	atomic {
		run Life(0);
#ifdef FEED
		run Poller();
#endif
#ifdef REGISTRY
		run Administrator();
#endif
#ifdef OUTSIDE
		run Outsider();
#endif
		run Life(1)
	}
}
