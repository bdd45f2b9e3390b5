/*-------------------------------------------------------------------------
 *
 * mark_model.h
 *	  What is above mark.c, for mark_cases.c and mark_ring_cases.c: sessions, their
 *	  transactions and snapshots; and what the mark is by the truth.
 *
 * The truth is what the head of mark.c says: the least tick at which a transaction holds the
 * mark, of those that run, or that the snapshot does not see.  And no row is missed.
 *
 *-------------------------------------------------------------------------
 */
#include "mark_system.h"

#include "common/pg_prng.h"

/* --- Sessions ---------------------------------------------------------------------- */

/* What a session is about to do: the parts of an end, between which others act. */
typedef enum Phase
{
	RUNS,
	BEFORE_COMMIT,
	COMMITTED, /* for all to see, but not for mark.c */
	ABORTED,
	BEFORE_PREPARE,
	BEFORE_END_OF_PREPARED,
	ENDED_PREPARED
} Phase;

typedef struct Session
{
	Process		 process;
	bool		 knows_prepared; /* what it has as i_know_prepared, */
	bool		 has_imported;	 /* and as has_imported */
	Phase		 phase;
	bool		 is_foreign; /* its snapshot, by the truth */
	Transaction *transaction;
	Transaction *ends; /* which was prepared */
} Session;

static Session	sessions[PROCESSES];
static Session *current;
static bool		loaded_knows; /* what a new process has */
static bool		loaded_imported;
static int		last_pid;

static void
turn_to(Session *session)
{
	if (current)
	{
		current->knows_prepared = i_know_prepared;
		current->has_imported = has_imported;
	}
	current = session;
	i_know_prepared = session->knows_prepared;
	has_imported = session->has_imported;
	my_transaction = session->transaction;
	become(&session->process);
}

static void
tell(XactEvent event)
{
	at_end(event, NULL);
}

/* The first transaction of a process finds its database. */
static void
begin_session(int i)
{
	Session *session = &sessions[i];

	turn_to(session);
	*session =
		(Session){.process = new_process(i, ++last_pid, i == 3 ? 5 : OID_MAX),
				  .knows_prepared = loaded_knows,
				  .has_imported = loaded_imported};
	current = NULL;
	me = NULL;
	turn_to(session);
	tell(XACT_EVENT_PRE_COMMIT);
	tell(XACT_EVENT_COMMIT);
}

/* --- Snapshots --------------------------------------------------------------------- */

typedef struct Seen
{
	Session		 *owner;
	SnapshotData  data;
	TransactionId xip[MOST_TRANSACTIONS];
	int64		  taken_at;
	bool		  is_foreign; /* then it sees what it does not hide: */
	bool		  hides[MOST_TRANSACTIONS];
	int			  known;		/* transactions there were */
	int64		  floor[LISTS]; /* the marks that there were */
} Seen;

#define MOST_SEEN 5

static Seen	 seens[MOST_SEEN];
static int	 next_seen;
static int64 promised[2][LISTS]; /* the greatest marks, by database; */
static int64 floors[2][LISTS];	 /* those of snapshots that are not foreign */
static pg_prng_state random_state;

static int
random_below(int count)
{
	return pg_prng_uint64_range(&random_state, 0, count - 1);
}

static int
database_of(const Session *session)
{
	return session->process.database == OID_MAX;
}

static bool
sees(const Seen *seen, const Transaction *transaction)
{
	int i = transaction - all;

	if (seen->is_foreign)
		return i < seen->known && !seen->hides[i];
	return !runs(transaction) && transaction->ended_at < seen->taken_at;
}

/* A snapshot that sees all before "limit", but what it hides. */
static void
fill_snapshot(Seen *seen, FullTransactionId limit)
{
	SnapshotData	 *data = &seen->data;
	FullTransactionId first = limit;

	memset(data, 0, sizeof(*data));
	data->snapshot_type = SNAPSHOT_MVCC;
	data->xip = seen->xip;
	data->xmax = XidFromFullTransactionId(limit);
	for (int i = 0; i < all_count; i++)
	{
		if (!FullTransactionIdIsValid(all[i].xid) || !seen->hides[i] ||
			!FullTransactionIdPrecedes(all[i].xid, limit))
			continue;
		data->xip[data->xcnt++] = XidFromFullTransactionId(all[i].xid);
		if (FullTransactionIdPrecedes(all[i].xid, first))
			first = all[i].xid;
	}
	data->xmin = XidFromFullTransactionId(first);
	seen->known = all_count;
}

static void
take_snapshot(Seen *seen, Session *session)
{
	FullTransactionId limit = completed;

	FullTransactionIdAdvance(&limit);
	seen->owner = session;
	seen->taken_at = ++moment;
	seen->is_foreign = false;
	for (int i = 0; i < all_count; i++)
		seen->hides[i] = runs(&all[i]);
	fill_snapshot(seen, limit);
	memcpy(seen->floor, floors[database_of(session)], sizeof(seen->floor));
}

/* It may see what still runs, and may not see what has ended. */
static void
import_snapshot(Seen *seen, Session *session)
{
	FullTransactionId limit = next_xid;
	int				  which = random_below(all_count + 1);

	if (which < all_count && FullTransactionIdIsValid(all[which].xid))
		limit = all[which].xid;
	seen->owner = session;
	seen->is_foreign = true;
	for (int i = 0; i < all_count; i++)
		seen->hides[i] = !FullTransactionIdIsValid(all[i].xid) ||
						 !FullTransactionIdPrecedes(all[i].xid, limit) ||
						 random_below(3) == 0 ||
						 (runs(&all[i]) && random_below(3) == 0);
	fill_snapshot(seen, limit);
}

static void
drop_snapshots(const Session *session)
{
	for (int i = 0; i < MOST_SEEN; i++)
	{
		if (session == NULL || seens[i].owner == session)
			seens[i].owner = NULL;
	}
}

/* --- The mark ------------------------------------------------------------------------ */

static int64
expected_mark(const Seen *seen, int list)
{
	int64 first = latest_tick();

	for (int i = 0; i < all_count; i++)
	{
		const Transaction *one = &all[i];

		if (one->hold.tick == NO_TICK ||
			one->database != seen->owner->process.database ||
			(!one->in_slot && (!one->is_noted || sees(seen, one))))
			continue;
		first = Min(first, one->hold.shard == ALL_SHARDS ||
								   list_has(list, one->hold.shard) ?
							   one->hold.tick :
							   one->hold.others_tick);
	}
	return first;
}

/* No row is missed; of what ended without an xid there is none. */
static void
check_rows(const Seen *seen, int list, int64 mark)
{
	for (int i = 0; i < all_count; i++)
	{
		bool has_rows = FullTransactionIdIsValid(all[i].xid) || runs(&all[i]);

		if (!has_rows || all[i].is_aborted || sees(seen, &all[i]) ||
			all[i].database != seen->owner->process.database)
			continue;
		for (int shard = 0; shard < SHARDS; shard++)
			CHECK(!list_has(list, shard) || all[i].first[shard] >= mark);
	}
}

static void
check_mark(Seen *seen)
{
	int database = database_of(seen->owner);

	turn_to(seen->owner);
	for (int list = 0; list < LISTS; list++)
	{
		int64 mark = mark_unsettled_tick(&seen->data, list_at(list));

		CHECK(latest_tick() >= present);
		CHECK(mark == expected_mark(seen, list));
		check_rows(seen, list, mark);
		promised[database][list] = Max(promised[database][list], mark);
		if (seen->is_foreign)
			continue;
		CHECK(mark >= seen->floor[list]);
		floors[database][list] = Max(floors[database][list], mark);
	}
	CHECK(held == NULL && spinning == 0);
}

static void
check_marks(void)
{
	static Seen fresh;

	for (int i = 0; i < MOST_SEEN; i++)
	{
		if (seens[i].owner)
			check_mark(&seens[i]);
	}
	for (int i = 2; i < PROCESSES; i++)
	{
		if (sessions[i].is_foreign)
			continue;
		take_snapshot(&fresh, &sessions[i]);
		check_mark(&fresh);
	}
}

/* --- What sessions do ------------------------------------------------------------------ */

static Transaction *
own_transaction(void)
{
	Transaction *new;

	if (my_transaction)
		return my_transaction;
	CHECK(all_count < MOST_TRANSACTIONS);
	new = &all[all_count++];
	*new = (Transaction){.database = current->process.database,
						 .hold = {.tick = NO_TICK, .others_tick = NO_TICK},
						 .first = {NO_TICK, NO_TICK}};
	return current->transaction = my_transaction = new;
}

/* As mint.c does, before its first id. */
static void
hold_mark(int32 shard)
{
	if (my_slot == NULL)
		session_begin();
	if (latest_tick() == 0)
		horizon_begin_present_tick();
	session_hold_mark(shard);
	own_transaction()->hold =
		(Hold){.shard = shard, .tick = latest_tick(), .others_tick = NO_TICK};
	my_transaction->in_slot = true;
}

static bool
has_id(const Transaction *transaction)
{
	return transaction->first[0] != NO_TICK ||
		   transaction->first[1] != NO_TICK;
}

/* As mint.c does.  "held_for" is the shard that it holds the mark for, or ALL_SHARDS. */
static void
mint(int32 shard, int32 held_for)
{
	Hold *hold = &own_transaction()->hold;
	int64 tick;

	if (!has_id(my_transaction) &&
		(hold->tick == NO_TICK ||
		 (hold->shard != held_for && hold->shard >= 0)))
		hold_mark(held_for);
	else if (has_id(my_transaction) && hold->shard != shard &&
			 hold->shard >= 0 && hold->others_tick == NO_TICK)
	{
		session_hold_mark_for_all();
		hold->others_tick = latest_tick();
	}
	(void) bounds_raise(&bounds->latest, present);
	if (!has_id(my_transaction))
	{
		session_note_first_id(latest_tick(), latest_tick());
		hold->tick = latest_tick();
	}
	tick = latest_tick();
	my_transaction->first[shard] = Min(my_transaction->first[shard], tick);
	for (int list = 0; list < LISTS; list++)
		CHECK(!list_has(list, shard) ||
			  latest_tick() >= promised[database_of(current)][list]);
}

/* A transaction ends, for all to see. */
static void
end(Transaction *transaction, bool aborts)
{
	if (transaction == NULL)
		return;
	transaction->ended_at = ++moment;
	transaction->is_aborted = aborts;
	if (FullTransactionIdIsValid(transaction->xid) &&
		FullTransactionIdFollows(transaction->xid, completed))
		completed = transaction->xid;
}

/* What has to be so when a session has told of its end. */
static void
leave_transaction(bool is_noted)
{
	if (my_transaction)
	{
		my_transaction->in_slot = false;
		my_transaction->is_noted |=
			is_noted && my_transaction->hold.tick != NO_TICK &&
			FullTransactionIdIsValid(my_transaction->xid);
	}
	my_transaction = current->transaction = NULL;
	current->phase = RUNS;
	current->is_foreign = false;
	drop_snapshots(current);
}

/* Who has no xid has no rows, and does not enter the ring. */
static void
commit(void)
{
	uint64 tickets = pg_atomic_read_u64(&shared->tickets);
	bool   enters = my_transaction && my_transaction->in_slot &&
				  FullTransactionIdIsValid(my_transaction->xid);

	switch (current->phase)
	{
		case RUNS:
			tell(XACT_EVENT_PRE_COMMIT);
			current->phase = BEFORE_COMMIT;
			break;
		case BEFORE_COMMIT:
			end(my_transaction, false);
			current->phase = COMMITTED;
			break;
		default:
			tell(XACT_EVENT_COMMIT);
			CHECK((pg_atomic_read_u64(&shared->tickets) > tickets) == enters);
			leave_transaction(true);
	}
}

static void
roll_back(void)
{
	if (current->phase != ABORTED)
	{
		end(my_transaction, true);
		current->phase = ABORTED;
		return;
	}
	tell(XACT_EVENT_ABORT);
	leave_transaction(false);
}

static void
prepare_transaction(void)
{
	if (current->phase == RUNS)
	{
		give_xid(own_transaction());
		tell(XACT_EVENT_PRE_PREPARE);
		my_transaction->is_noted = my_transaction->hold.tick != NO_TICK;
		current->phase = BEFORE_PREPARE;
		return;
	}
	tell(XACT_EVENT_PREPARE);
	my_transaction->is_prepared = true;
	leave_transaction(false);
}

static bool
begin_utility(TransactionStmtKind kind)
{
	TransactionStmt statement = {.type = T_TransactionStmt, .kind = kind};

	return mark_begin_utility((Node *) &statement);
}

/* Somebody ends one that is prepared. */
static void
end_prepared(bool commits)
{
	if (current->phase == RUNS)
	{
		for (int i = random_below(all_count);; i = (i + 1) % all_count)
		{
			if (!all[i].is_prepared || !runs(&all[i]))
				continue;
			current->ends = &all[i];
			break;
		}
		for (int i = 0; i < PROCESSES; i++)
		{
			if (&sessions[i] != current && sessions[i].ends == current->ends)
			{
				current->ends = NULL; /* it is locked */
				return;
			}
		}
		CHECK(begin_utility(commits ? TRANS_STMT_COMMIT_PREPARED :
									  TRANS_STMT_ROLLBACK_PREPARED));
		current->phase = BEFORE_END_OF_PREPARED;
	}
	else if (current->phase == BEFORE_END_OF_PREPARED)
	{
		end(current->ends, !commits);
		current->phase = ENDED_PREPARED;
	}
	else
	{
		mark_end_prepared();
		current->ends = NULL;
		current->phase = RUNS;
		tell(XACT_EVENT_PRE_COMMIT);
		tell(XACT_EVENT_COMMIT);
		leave_transaction(false);
	}
}

static void
import(void)
{
	VariableSetStmt statement = {.type = T_VariableSetStmt,
								 .kind = VAR_SET_MULTI,
								 .name = "TRANSACTION SNAPSHOT"};

	CHECK(!mark_begin_utility((Node *) &statement));
	current->is_foreign = true;
	import_snapshot(&seens[next_seen++ % MOST_SEEN], current);
}

/* --- Starts -------------------------------------------------------------------------- */

static Size begins_at; /* its shared memory */

/* The postmaster starts, and sessions begin. */
static void
start_server(Fill fill)
{
	if (fill != OLD)
		begins_at = 8 * random_below(8);
	begin_room(fill, begins_at, false);
	sessions_shmem_startup();
	mark_shmem_startup();
	CHECK(made == 4 * PROCESSES + 1 + ring_size());
	pg_atomic_write_u64(&bounds->latest, 0);
	pg_atomic_write_u64(&bounds->horizon, PG_INT64_MAX);
	pg_atomic_write_u64(&bounds->renew, PG_INT64_MAX);
	at_end = NULL;
	fills = 0;
	mark_install_callback();
	drop_snapshots(NULL);
	memset(sessions, 0, sizeof(sessions));
	current = NULL;
	me = NULL;
	for (int i = 0; i < PROCESSES; i++)
		begin_session(i);
}

/* A server with no history. */
static void
start_anew(Fill fill, int can_be_prepared)
{
	all_count = 0;
	most_prepared = can_be_prepared;
	in_recovery = false;
	present++;
	start_server(fill);
}

/* Of all that runs only what is prepared is left, if it came so far. */
static void
restart(Fill fill, bool recovers)
{
	int kept = 0;

	for (int i = 0; i < all_count; i++)
	{
		Transaction *one = &all[i];

		if (!runs(one) ||
			!(one->is_prepared || (one->lock_count > 0 && random_below(2))))
			continue;
		one->is_prepared = one->is_recovered = true;
		one->is_awaited = recovers && random_below(2);
		one->in_slot = false;
		all[kept++] = *one;
	}
	all_count = kept;
	completed = next_xid;
	FullTransactionIdRetreat(&completed);
	in_recovery = recovers;
	start_server(fill);
}

static void
end_recovery(void)
{
	for (int i = 0; i < all_count; i++)
		all[i].is_awaited = false;
	in_recovery = false;
}

static void
begin_model(void)
{
	loaded_knows = i_know_prepared;
	loaded_imported = has_imported;
	most_prepared = 5; /* at most */
	room_size = mark_shmem_size() + sessions_shmem_size() + 4 * GUARD;
	room = (char *) TYPEALIGN(8, palloc(room_size + 8));
	pg_prng_seed(&random_state, 3);
	next_xid.value = UINT64CONST(0x3000003e8);
	completed.value = next_xid.value - 1;
}
