/*
 * order.pml -- one order for all sessions of a server, for spin
 *
 * A model of what the head of src/mint.c says of order: sessions mint on the first of
 * their shards that has room in the tick, while the lower of two shards is opened and
 * closed.  spin runs through every interleaving of their steps and finds that each call
 * gets a greater id than every call that had taken one before it began.
 *
 * model.pl shows that the model can fail: with each of the switches below, a step left
 * out or moved, a call gets a lesser id.
 *
 *   OPEN_FROM_TICK     a shard is opened from the latest tick on, not after it
 *   READ_BEFORE_LOCK   the latest tick is read before the lock of the shard is taken
 *   OPEN_BEFORE_NOTED  a shard is opened, and then the change of the list is noted
 *   LISTED_IF_OPEN     a list has only shards that are open already
 *   NO_LOOK            a session looks for a change only where all is exhausted
 *   LOOK_BEFORE_TICK   it looks, and then raises the latest tick
 *   APART              a session may begin with any of its shards
 *
 *
 * What is what
 *
 *   here                in src/
 *   latest              Bounds.latest, in positions.h
 *   last                ShardState.last, as a tick; a tick has one id
 *   listed              HeldLease.is_counted, of the lower shard
 *   changes             LeaseTable.changes, in lease_table.c
 *   Minter              mint_on_own()
 *   Worker              leases_publish()
 *
 *
 * What is left out, and why nothing is lost by it
 *
 *   - The horizon, and waiting: a call that would wait ends without an id.
 *   - More ids in a tick, and more shards: a shard that has room left stays the first.
 *   - The clock: it may show any tick from the latest on.
 *   - The order in which a processor's memory operations show to others: there are full
 *     barriers between a session's tick and its look, and between the worker's change
 *     and what it reads.
 */

#ifndef TICKS
#define TICKS 4
#endif
#define MINTERS 2
#define NEVER 15

byte latest;
byte last[2];			/* of each shard, the tick of its last id; NEVER: closed */
bool listed;
byte changes;
byte highest;			/* of all ids that were taken */

#define id_of(tick, shard) (2 * (tick) + (shard) + 1)

inline raise(bound, to)
{
	if
	:: bound < to -> bound = to
	:: else
	fi
}

/* The session finds its shards. */
inline find_shards()
{
	atomic { my_changes = changes };
#ifdef LISTED_IF_OPEN
	atomic { has_lower = listed && last[0] != NEVER }
#else
	atomic { has_lower = listed }
#endif
}

inline take(shard)
{
	atomic {
		if
		:: last[shard] == NEVER || last[shard] == tick -> skip	/* NO_ROOM */
		:: last[shard] != NEVER && last[shard] > tick -> goto over	/* STALE */
		:: last[shard] < tick ->
			last[shard] = tick;
			printf("a minter takes an id of tick %d on shard %d\n", tick, shard);
			assert(id_of(tick, shard) > floor);
			raise(highest, id_of(tick, shard));
			my_tick = tick;
			goto over
		fi
	}
}

proctype Minter()
{
	byte floor, tick, my_tick, my_changes;
	bool has_lower;

	find_shards();
end:
	do
	::
		atomic { floor = highest; tick = latest };

		/* read_tick() and begin_tick() */
		atomic {
			do
			:: tick + 1 < TICKS -> tick++
			:: break
			od
		};
#ifndef LOOK_BEFORE_TICK
		atomic { raise(latest, tick) };
#endif
#ifndef NO_LOOK
		if
		:: atomic { tick > my_tick && my_changes != changes -> skip }; find_shards()
		:: atomic { !(tick > my_tick && my_changes != changes) -> skip }
		fi;
#endif
#ifdef LOOK_BEFORE_TICK
		atomic { raise(latest, tick) };
#endif
		if
		:: has_lower -> take(0)
		:: else
#ifdef APART
		:: true
#endif
		fi;
		take(1);

		/* wait_for_room_on() */
		if
		:: atomic { my_changes != changes -> skip }; find_shards()
		:: atomic { my_changes == changes -> skip }
		fi;
over:
		atomic { floor = 0; tick = 0 }
	od
}

/* Opens the lower shard. */
inline open()
{
#ifdef READ_BEFORE_LOCK
	atomic { seen = latest };
#endif
	atomic {
#ifndef READ_BEFORE_LOCK
		seen = latest;
#endif
#ifdef OPEN_FROM_TICK
		seen = (seen > 0 -> seen - 1 : 0);
#endif
		last[0] = seen;
		seen = 0;
		printf("the lower shard is opened after tick %d\n", last[0])
	}
}

proctype Worker()
{
	byte seen, rounds;

	do
	:: rounds < 2 ->
		rounds++;
		atomic { listed = true };
#ifdef OPEN_BEFORE_NOTED
		open();
#endif
		atomic { changes++ };
#ifndef OPEN_BEFORE_NOTED
		open();
#endif
		atomic { last[0] = NEVER };
		atomic { listed = false };
		atomic { changes++ }
	:: break
	od
}

init {
	atomic {
		last[0] = NEVER;
		run Minter();
		run Minter();
		run Worker()
	}
}
