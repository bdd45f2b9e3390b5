/*
 * settled.pml -- reading what is new, for spin
 *
 * A model of the protocol at the head of src/mark.c: transactions that mint and
 * commit in any order, and a poller that reads, again and again, the rows that its
 * snapshot sees below the mark of snowflake_settled().  spin runs through every
 * interleaving of their steps and finds that at any time each committed row below
 * the last mark has been read, and that no mark is before the last one.
 *
 * Four configurations:
 *
 *   (none)      transactions commit or roll back
 *   -DSHARDS    they may mint elsewhere first, and the mark is that of some shards
 *   -DPREPARED  they may also be prepared, and somebody else ends them
 *   -DIMPORTED  the reader's snapshot was imported: it sees what is visible, or only
 *               some of that
 *
 * model.pl runs them, and shows that the model can fail: with each of the switches
 * below, a step left out or moved, a row must be missed.
 *
 *   NO_SLOTS             the reader does not look at the slots
 *   NO_RING              nor at the ring
 *   NO_RAISE             it does not raise the latest tick to the present one
 *   MINT_BEFORE_HOLD     a minter reads the latest tick before it fills its slot
 *   NO_LOCK              and does not fill that in one step: the mark goes back
 *   RING_BEFORE_SLOTS    the reader looks at the ring, and then at the slots
 *   CLEAR_BEFORE_RING    a transaction clears its slot, and then enters the ring
 *   RING_BEFORE_VISIBLE  it enters the ring, and then becomes visible
 *   NO_REACH             the reader does not ask how far back the ring reaches
 *   TICKETS_BEFORE_SLOTS it looks at the tickets, at the slots, and then at the entries
 *   COMPLETED_BEFORE_TICKET
 *                        who enters reads the latest completed xid, and then draws a
 *                        ticket
 *   WRITTEN_BEFORE_FILLED
 *                        it marks an entry as written, and then fills it
 *   FILLED_BEFORE_UNDER_WAY
 *                        it fills an entry, and then marks it as under way
 *   NO_CLAIM             it writes to an entry that another one is writing to
 *   NO_SECOND_LOOK       the reader does not look whether an entry has changed
 *   TRUSTS_IMPORTED      the reader takes an imported snapshot for the server's own
 *                        (with IMPORTED)
 *   NOT_HELD_ANEW        a transaction that has minted elsewhere holds no mark of these
 *                        shards when it mints on one of them (with SHARDS)
 *   HELD_SINCE_FIRST     it holds it where it minted elsewhere: the mark goes back (with
 *                        SHARDS)
 *   NO_TABLE             a transaction that is prepared clears its slot, and that
 *                        is all (with PREPARED)
 *   TABLE_BEFORE_RING    if a prepared transaction has ended, it leaves the table, and
 *                        then enters the ring (with PREPARED)
 *   TABLE_TO_NOWHERE     if a prepared transaction has ended, it leaves the table
 *                        and does not enter the ring (with PREPARED)
 *
 *
 * What is what
 *
 *   here                in src/
 *   latest              Bounds.latest, in positions.h
 *   slot                SessionSlot.mark_tick, in sessions.c
 *   Writer              session_hold_mark(), read_tick(), at_transaction_event()
 *   completed           the server's latest completed xid, plus one
 *   ring, prepared      MarkState, in mark.c
 *   Reader              snowflake_settled() and the query that calls it
 *
 * The slot, the ring and the table have what counts for the shards of the reader: with
 * SHARDS that is the hold for a transaction's first shard, or that for all others.  Of
 * rows on other shards there is only that they raise the latest tick.
 *
 * A transaction is its xid.  A row is a bit of ids[xid], its tick: more ids in a
 * tick would be read and missed together.  With ONCE a transaction has one row: so
 * there is memory for three of them.  What a transaction mints later is in the same
 * tick or in a later one, and the slot does not change: two are enough for that.
 *
 *
 * What is left out, and why nothing is lost by it
 *
 *   - The clock.  It may show any tick from the latest on: a minter with a clock
 *     that is behind waits, and the reader raises nothing then.
 *   - The horizon and Bounds.renew.  They keep the reader from raising the latest
 *     tick, and each reader may raise it as little as it likes.
 *   - Shards and sequence numbers: two ids of one tick are both below a mark or
 *     neither.
 *   - Transactions without an xid, which write no rows, and subtransactions, which
 *     become visible with their transaction.
 *   - The lock of the table: what happens under it is one step.
 *   - Tickets without end: who would draw one more is stopped, and holds the mark.
 *   - More readers.  They share nothing with each other but the latest tick; and one
 *     that reads twice is two, of which the second begins when the first has ended.
 *   - Restarts: a crash ends all transactions but those that are prepared, and
 *     these are found again by their locks, before a snapshot that is used.
 */

#ifndef TICKS
#define TICKS 2
#endif
#ifndef XIDS
#define XIDS 2			/* transactions in all */
#endif
#define WRITERS 2
#ifndef POLLS
#define POLLS 1
#endif
#ifndef RING
#define RING 1			/* the transactions that it holds */
#endif
#ifndef TICKETS
#define TICKETS 3
#endif
#define NONE 15

#define below(tick) ((1 << (tick)) - 1)

byte latest;
byte slot[WRITERS];

/* The server's transactions */
byte next_xid;
byte completed;
byte ids[XIDS];			/* what they wrote, a bit for each tick */
byte first[XIDS];		/* the tick that they held when they ended */
bool visible[XIDS];
#ifdef PREPARED
bool prepared[XIDS];		/* can be ended by somebody else */
bool table[XIDS];
#endif

/* The ring */
#define under_way(ticket) (2 * (ticket) + 1)
#define written(ticket) (2 * (ticket) + 2)

byte tickets;
byte state[RING];
byte ring_xid[RING];
byte ring_after[RING];

/* What the poller has */
byte got[XIDS];
byte mark;

inline raise(bound, to)
{
	if
	:: bound < to -> bound = to
	:: else
	fi
}

/* Its rows can be seen from now on: each is read later, or has been missed. */
inline become_visible(xid)
{
	visible[xid] = true;
	raise(completed, xid + 1);
	printf("transaction %d becomes visible\n", xid);
	assert((ids[xid] & below(mark)) == 0)
}

/* May an entry be written to, with this ticket? */
#if defined(NO_CLAIM)
#define is_free(ticket) (state[(ticket) % RING] < under_way(ticket))
#else
#define is_free(ticket) (state[(ticket) % RING] < under_way(ticket) && state[(ticket) % RING] % 2 == 0)
#endif

/* Each line is a step. */
inline enter_ring(xid)
{
#ifdef COMPLETED_BEFORE_TICKET
	atomic { after = completed };
#endif
	do
	:: atomic { tickets == TICKETS -> goto end_stopped }
	::
		atomic { tickets < TICKETS -> ticket = tickets; tickets++ };
#ifdef FILLED_BEFORE_UNDER_WAY
		atomic { ring_xid[ticket % RING] = xid };
#endif
		atomic {
			if
			:: is_free(ticket) -> state[ticket % RING] = under_way(ticket); break
			:: else
			fi
		}
	od;
#ifdef NO_CLAIM
	/* a step of its own only here: else nobody looks at the entry meanwhile */
	atomic { after = completed };
#endif
#ifdef WRITTEN_BEFORE_FILLED
	atomic { state[ticket % RING] = written(ticket) };
#endif
	atomic {
#if !defined(COMPLETED_BEFORE_TICKET) && !defined(NO_CLAIM)
		after = completed;
#endif
		ring_after[ticket % RING] = after;
		after = 0
	};
#ifndef FILLED_BEFORE_UNDER_WAY
	atomic { ring_xid[ticket % RING] = xid };
#endif
#ifndef WRITTEN_BEFORE_FILLED
	atomic { state[ticket % RING] = written(ticket); ticket = 0; printf("transaction %d has entered the ring\n", xid) }
#else
	atomic { ticket = 0 }
#endif
}

proctype Writer(byte me)
{
	byte tick, xid, ticket, after;

end:
	do
	:: atomic {
		next_xid < XIDS ->
		xid = next_xid;
		next_xid++;
#if defined(NO_LOCK) || defined(MINT_BEFORE_HOLD)
		tick = latest
#endif
	};

#ifdef SHARDS
		/* nextval(shard), elsewhere */
		atomic { tick = latest; first[xid] = NONE };
		if
		:: atomic {
			do
			:: tick + 1 < TICKS -> tick++
			:: break
			od;
			raise(latest, tick);
			printf("transaction %d mints elsewhere in tick %d\n", xid, tick)
		};
		:: skip
		fi;
#endif
		/* session_hold_mark(), and then what read_tick() sees */
#if defined(NOT_HELD_ANEW)
		skip;
#elif defined(HELD_SINCE_FIRST)
		atomic { slot[me] = tick; first[xid] = tick };
#elif defined(NO_LOCK)
		atomic { slot[me] = tick; first[xid] = tick };
#else
		atomic { slot[me] = latest; first[xid] = latest };
#endif
#ifndef MINT_BEFORE_HOLD
		atomic { tick = latest };
#endif
		do
		::
			/* read_tick(): the clock; begin_tick() and take() */
			atomic {
				do
				:: tick + 1 < TICKS -> tick++
				:: break
				od;
				raise(latest, tick);
				ids[xid] = ids[xid] | (1 << tick);
				printf("transaction %d mints in tick %d\n", xid, tick)
			}
			if
#ifndef ONCE
			:: atomic { tick = latest }		/* it mints once more */
#endif
			:: break
			fi
		od;

		/* at_transaction_event() */
		if
		::
			atomic { raise(completed, xid + 1); printf("transaction %d rolls back\n", xid) }
#ifdef PREPARED
		::
#ifndef NO_TABLE
			atomic { table[xid] = true };
#endif
			atomic { prepared[xid] = true; printf("transaction %d is prepared\n", xid) }
#endif
		::
#ifdef RING_BEFORE_VISIBLE
			enter_ring(xid);
			atomic { become_visible(xid) }
#else
			atomic { become_visible(xid) };
#ifdef CLEAR_BEFORE_RING
			atomic { slot[me] = NONE };
#endif
			enter_ring(xid)
#endif
		fi;
		atomic { slot[me] = NONE; tick = 0; xid = 0 }
	od;
end_stopped:
	false
}

#ifdef PREPARED

/* Somebody ends what is prepared, and makes room in the table. */
proctype Finisher(byte xid)
{
	byte ticket, after;

end:
	atomic {
		prepared[xid] ->
		if
		:: become_visible(xid)
		:: raise(completed, xid + 1)
		fi
	};
#ifndef NO_TABLE
#ifdef TABLE_BEFORE_RING
	atomic { table[xid] = false };
#endif
#ifndef TABLE_TO_NOWHERE
	enter_ring(xid);
#endif
	atomic { table[xid] = false }
#endif
	goto end_finished;
end_stopped:
	false;
end_finished:
	skip
}

#endif

/* What the snapshot does not see holds the mark. */
inline hold(xid)
{
	if
	:: !(sees & (1 << (xid))) && first[xid] < found -> found = first[xid]
	:: else
	fi
}

inline look_at_slots()
{
	x = 0;
	do
	:: x < WRITERS ->
		atomic {
			if
			:: slot[x] < found -> found = slot[x]
			:: else
			fi;
			x++
		}
	:: else -> break
	od;
	x = 0
}

inline look_at_table()
{
#ifdef PREPARED
	atomic {
		x = 0;
		do
		:: x < XIDS && table[x] -> hold(x); x++
		:: x < XIDS && !table[x] -> x++
		:: x == XIDS -> x = 0; break
		od
	}
#else
	skip
#endif
}

inline look_at_tickets()
{
	atomic { last = tickets }
}

/* From the last ticket back to a transaction before which the snapshot sees all. */
inline look_at_ring()
{
	x = 0;
	do
	:: x == last -> break
	:: x < last && x >= RING ->
#ifndef NO_REACH
		too_old = true;
#endif
		break
	:: x < last && x < RING ->
		atomic { at = last - 1 - x; was = state[at % RING]; x++ };
		if
		:: was < written(at)
		:: else ->
			atomic { unseen = ring_xid[at % RING]; after = ring_after[at % RING] };
			atomic {
#ifdef NO_SECOND_LOOK
				if
				:: was != written(at) -> too_old = true; break
#else
				if
				:: state[at % RING] != written(at) -> too_old = true; break
#endif
				:: else
				fi;
				if
				:: after < xmax -> break
				:: else -> hold(unseen)
				fi
			}
		fi
	od;
	atomic { x = 0; at = 0; was = 0; unseen = 0; after = 0 }
}

proctype Reader()
{
	byte polls, x, found, sees, xmax, last, at, was, unseen, after;
	bool too_old;

	do
	:: polls < POLLS ->
		polls++;

		/* the snapshot */
		atomic {
			x = 0;
			do
			:: x < XIDS ->
				if
				:: visible[x] -> sees = sees | (1 << x)
#ifdef IMPORTED
				:: visible[x]
#endif
				:: else
				fi;
				x++
			:: else -> break
			od;
			x = 0;
			xmax = completed
#if defined(IMPORTED) && !defined(TRUSTS_IMPORTED)
			/* the least xid that it does not see and that may be visible */
			; xmax = 0;
			do
			:: xmax < next_xid && (sees & (1 << xmax)) -> xmax++
			:: else -> break
			od;
			xmax++
#endif
		}

		/* snowflake_settled() */
		atomic {
			found = latest;
			do
			:: found + 1 < TICKS -> found++
			:: break
			od;
#ifndef NO_RAISE
			raise(latest, found)
#endif
		}
#if defined(RING_BEFORE_SLOTS) || defined(TICKETS_BEFORE_SLOTS)
		look_at_tickets();
#endif
#ifdef RING_BEFORE_SLOTS
		look_at_table();
		look_at_ring();
#endif
#ifndef NO_SLOTS
		look_at_slots();
#endif
#ifndef RING_BEFORE_SLOTS
		look_at_table();
#ifndef TICKETS_BEFORE_SLOTS
		look_at_tickets();
#endif
#ifndef NO_RING
		look_at_ring();
#endif
#endif

		/* the rows */
		atomic {
#ifndef IMPORTED
			assert(too_old || found >= mark);
#endif
			if
			:: !too_old && found > mark ->
				mark = found;
				printf("the reader reads below tick %d\n", mark)
			:: else
			fi;
			x = 0;
			do
			:: x < XIDS ->
				if
				:: !too_old && (sees & (1 << x)) -> got[x] = got[x] | (ids[x] & below(found))
				:: else
				fi;
				assert(!visible[x] || (ids[x] & below(mark) & ~got[x]) == 0);
				x++
			:: else -> break
			od;
			x = 0; found = 0; sees = 0; xmax = 0; last = 0; too_old = false
		}
	:: else -> break
	od
}

init {
	byte xid;

	atomic {
		slot[0] = NONE;
		slot[1] = NONE;
		run Writer(0);
		run Writer(1);
#ifdef PREPARED
		xid = 0;
		do
		:: xid < XIDS -> run Finisher(xid); xid++
		:: else -> break
		od;
		xid = 0;
#endif
		run Reader()
	}
}
