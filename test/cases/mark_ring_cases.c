/*-------------------------------------------------------------------------
 *
 * mark_ring_cases.c
 *	  The ring when it goes round, snapshots of all kinds, a table without room, and what
 *	  others see at each barrier.
 *
 * mark_ring_cases() calls the functions of mark.c as mark_cases.c does, which has the orders
 * of what transactions do.  It compares what it finds with what the head of mark.c says, and
 * returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "mark_model.h"

PG_MODULE_MAGIC;

/* --- Transactions that come and go ------------------------------------------------- */

/* Session 1 commits one that minted in a tick of its own. */
static int64
commit_quickly(void)
{
	static Transaction quick;

	quick = (Transaction){.hold.tick = NO_TICK};
	turn_to(&sessions[1]);
	my_transaction = &quick;
	give_xid(&quick);
	present++;
	if (my_slot == NULL)
		session_begin();
	session_hold_mark(ALL_SHARDS);
	(void) bounds_raise(&bounds->latest, present);
	session_note_first_id(present, present);
	completed = quick.xid;
	tell(XACT_EVENT_COMMIT);
	return present;
}

static void
commit_many(int count)
{
	for (int i = 0; i < count; i++)
		(void) commit_quickly();
}

/* One of the model, whose parts of an end a case may see. */
static Transaction *
begin_and_mint(Session *session)
{
	turn_to(session);
	give_xid(own_transaction());
	present++;
	mint(0, ALL_SHARDS);
	return my_transaction;
}

static Transaction *
commit_one(Session *session)
{
	Transaction *one = begin_and_mint(session);

	for (int part = 0; part < 3; part++)
		commit();
	return one;
}

static void
prepare_one(Session *session)
{
	(void) begin_and_mint(session);
	prepare_transaction();
	prepare_transaction();
}

/* --- The mark ------------------------------------------------------------------------ */

static Seen	 asked;
static int64 mark;

static void
ask(void)
{
	mark = mark_unsettled_tick(&asked.data, NULL);
}

/* Session 2 asks for the mark of a snapshot. */
static void
check_answer(bool is_old, int64 expected)
{
	ErrorData *error;

	turn_to(&sessions[2]);
	error = raised_by(ask);
	CHECK((error != NULL) == is_old);
	if (!is_old)
	{
		CHECK(mark == expected);
		return;
	}
	CHECK(error->sqlerrcode == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
	CHECK(strcmp(error->message, "the snapshot is too old to tell which ids "
								 "are settled") == 0);
	CHECK(strcmp(error->hint,
				 "Call snowflake_settled() in the first statement of a "
				 "transaction, and soon after that statement begins.") == 0);
	CHECK(strcmp(error->detail,
				 psprintf("More than %d transactions that minted ids have "
						  "ended since the snapshot was taken.",
						  ring_size())) == 0);
	FreeErrorData(error);
}

static void
check_fresh(void)
{
	present++;
	take_snapshot(&asked, &sessions[2]);
	check_answer(false, present);
}

/* So many end before a snapshot, and so many after it. */
static void
try_round(int before, int after)
{
	int	  size = ring_size();
	int64 first;

	snprintf(what_is_tried, sizeof(what_is_tried), "%d before, %d after",
			 before, after);
	start_anew(ONES, most_prepared);
	commit_many(before);
	take_snapshot(&asked, &sessions[2]);
	first = present + (after > 0);
	commit_many(after);
	/* that one is seen whose number is less than what was complete then */
	check_answer(before + after > size && (before < 2 || after + 2 > size),
				 first);
	check_fresh();
}

/* A snapshot that was imported: it does not see one that ended before others. */
static void
try_foreign_round(int before, int after)
{
	int			 size = ring_size();
	Transaction *hidden;

	snprintf(what_is_tried, sizeof(what_is_tried), "foreign, %d and %d",
			 before, after);
	start_anew(ONES, most_prepared);
	commit_many(before);
	hidden = commit_one(&sessions[0]);
	commit_many(after);
	asked.owner = &sessions[2];
	asked.hides[0] = true;
	fill_snapshot(&asked, next_xid);
	turn_to(&sessions[2]);
	has_imported = true;
	check_answer(before + 1 + after > size && (before < 1 || after + 2 > size),
				 hidden->hold.tick);
}

static void
try_rounds(void)
{
	for (most_prepared = 0; most_prepared < 3; most_prepared += 2)
	{
		int size =
			RING_SIZE +
			2 * (PROCESSES + (most_prepared ? most_prepared + PROCESSES : 0));

		CHECK(ring_size() == size);
		CHECK(mark_shmem_size() ==
			  sizeof(MarkState) + size * sizeof(RingEntry) +
				  (size - RING_SIZE - 2 * PROCESSES) / 2 * sizeof(Minted));
		for (int before = 0; before < 4; before++)
		{
			for (int after = -3; after < 3; after++)
			{
				try_round(before, after + (after < 0 ? size : 0));
				try_foreign_round(before, after + (after < 0 ? size : 0));
			}
			try_round(before, size);
			try_round(before, size + 1);
			try_foreign_round(before, size);
		}
	}
}

/* --- Kinds of snapshots ----------------------------------------------------------------- */

static bool
is_known_foreign(int way)
{
	turn_to(&sessions[2]);
	has_imported = way & 1;
	is_walsender = way & 2;
	has_one_snapshot = way & 4;
	return (way & 1) || (way & 6) == 6;
}

/* What is known of a snapshot that is another's, and of one that is not. */
static void
try_kinds(void)
{
	Transaction *first;

	start_anew(ZEROS, 0);
	commit_many(3);
	first = commit_one(&sessions[0]);
	commit_many(5);
	asked.owner = &sessions[2];
	asked.hides[0] = true;
	fill_snapshot(&asked, next_xid);
	for (int way = 0; way < 8; way++)
	{
		if (is_known_foreign(way))
			check_answer(false, first->hold.tick);
	}

	/* what ran before all others tells nothing of a snapshot's age, unless it is foreign */
	turn_to(&sessions[0]);
	give_xid(own_transaction());
	commit_many(ring_size());
	take_snapshot(&asked, &sessions[2]);
	commit_many(1);
	for (int way = 0; way < 8; way++)
	{
		snprintf(what_is_tried, sizeof(what_is_tried), "kind %d", way);
		check_answer(is_known_foreign(way), present);
	}

	/* a standby's sessions noted nothing of what ended there */
	start_anew(ZEROS, 0);
	take_snapshot(&asked, &sessions[2]);
	for (int way = 0; way < 32; way++)
	{
		bool	   is_foreign = is_known_foreign(way);
		bool	   is_of_standby = (way & 8) || (is_foreign && (way & 16));
		ErrorData *error;

		asked.data.takenDuringRecovery = way & 8;
		began_in_recovery = way & 16;
		error = raised_by(ask);
		CHECK((error != NULL) == is_of_standby);
		CHECK(!error || strcmp(error->detail, "The snapshot was taken during "
											  "recovery.") == 0);
	}
	(void) is_known_foreign(0);
	began_in_recovery = false;
}

/* --- Utility statements ------------------------------------------------------------------- */

static void
try_statements(void)
{
	static const char *const names[] = {"TRANSACTION SNAPSHOT", "TRANSACTION",
										"SESSION CHARACTERISTICS", NULL};

	start_anew(ZEROS, 2);
	turn_to(&sessions[0]);
	for (int kind = TRANS_STMT_BEGIN; kind <= TRANS_STMT_ROLLBACK_PREPARED;
		 kind++)
	{
		bool ends = kind == TRANS_STMT_COMMIT_PREPARED ||
					kind == TRANS_STMT_ROLLBACK_PREPARED;
		TransactionStmt other = {.type = T_VacuumStmt, .kind = kind};

		i_know_prepared = false;
		CHECK(!mark_begin_utility((Node *) &other) && !i_know_prepared);
		CHECK(begin_utility(kind) == ends && i_know_prepared == ends);
	}
	for (int i = 0; i < 2 * 6 * lengthof(names); i++)
	{
		VariableSetStmt statement = {.type = i % 2 ? T_VariableSetStmt :
													 T_VariableShowStmt,
									 .kind = (VariableSetKind) (i / 2 % 6),
									 .name = (char *) names[i / 12]};

		/* only RESET ALL has no name */
		if ((statement.name == NULL) != (statement.kind == VAR_RESET_ALL))
			continue;
		has_imported = false;
		CHECK(!mark_begin_utility((Node *) &statement));
		CHECK(has_imported ==
			  (i % 2 && statement.kind == VAR_SET_MULTI && i / 12 == 0));
	}
	for (int event = XACT_EVENT_COMMIT; event <= XACT_EVENT_PRE_PREPARE;
		 event++)
	{
		has_imported = true;
		tell((XactEvent) event);
		CHECK(has_imported == (event == XACT_EVENT_PRE_COMMIT));
	}
	has_imported = false;
}

/* --- Barriers ------------------------------------------------------------------------------ */

static char		kinds[20]; /* of the first barriers that were met */
static int		met;
static Session *stopped;  /* who meets them */
static int		stops_at; /* the number of one; 0: none */
static void (*meanwhile)(void);

static void
look(char kind)
{
	if (current != stopped)
		return;
	if (met < sizeof(kinds) - 1)
		kinds[met] = kind;
	if (++met == stops_at && meanwhile)
	{
		meanwhile();
		turn_to(stopped);
	}
}

static void
stop(Session *session, int number, void (*others)(void))
{
	memset(kinds, 0, sizeof(kinds));
	met = 0;
	stopped = session;
	stops_at = number;
	meanwhile = others;
	at_barrier = look;
}

static Transaction *entering; /* the ring, at the first ticket */

static void
see_nothing_yet(void)
{
	CHECK(pg_atomic_read_u64(&ring[0].state) == UNDER_WAY(0));
	CHECK(ring[0].completed.value == PG_UINT64_MAX);
	CHECK(ring[0].transaction.hold.tick == -1);
}

static void
see_all_but_state(void)
{
	CHECK(pg_atomic_read_u64(&ring[0].state) == UNDER_WAY(0));
	CHECK(FullTransactionIdEquals(ring[0].completed, completed));
	CHECK(FullTransactionIdEquals(ring[0].transaction.xid, entering->xid));
	CHECK(ring[0].transaction.hold.tick == entering->hold.tick);
}

/* What leaves a slot, or the table, has entered the ring. */
static void
see_it_twice(void)
{
	CHECK(pg_atomic_read_u64(&ring[0].state) == WRITTEN(0));
	CHECK(entering->is_prepared ?
			  pg_atomic_read_u32(&shared->prepared_count) == 1 :
			  session_hold().tick == entering->hold.tick);
}

static void
see_no_lock(void)
{
	CHECK(latest_tick() == present && spins == 0 && takes[LW_SHARED] == 0);
}

static void
see_slots_read(void)
{
	CHECK(spins == 1 && takes[LW_SHARED] == 0);
}

static void
see_table_read(void)
{
	CHECK(takes[LW_SHARED] == (most_prepared > 0));
}

static void
try_barriers(void)
{
	static void (*const looks[])(void) = {see_nothing_yet, see_all_but_state,
										  see_it_twice};
	static void (*const reads[])(void) = {see_no_lock, see_slots_read,
										  see_table_read};

	for (int i = 0; i < 2 * lengthof(looks); i++)
	{
		bool prepares = i % 2;

		start_anew(ONES, prepares ? 2 : 0);
		if (prepares)
		{
			prepare_one(&sessions[0]);
			entering = &all[0];
			for (int part = 0; part < 2; part++)
				end_prepared(true);
		}
		else
		{
			entering = begin_and_mint(&sessions[0]);
			commit();
			commit();
		}
		stop(current, i / 2 + 1, looks[i / 2]);
		if (prepares)
			mark_end_prepared();
		else
			commit();
		CHECK(strcmp(kinds, "www") == 0);
		at_barrier = NULL;
		CHECK(pg_atomic_read_u32(&shared->prepared_count) == 0);
	}

	/* a reader takes a lock only where something is prepared */
	for (int i = 0; i < 2 * lengthof(reads); i++)
	{
		start_anew(ONES, i % 2 ? 2 : 0);
		if (i % 2)
			prepare_one(&sessions[1]);
		take_snapshot(&asked, &sessions[2]);
		commit_many(2);
		present++;
		turn_to(&sessions[2]);
		memset(takes, 0, sizeof(takes));
		spins = 0;
		stop(current, i / 2 + 1, reads[i / 2]);
		ask();
		CHECK(strcmp(kinds, "mrrrrrr") == 0);
		at_barrier = NULL;
		CHECK(mark == present - 2 - i % 2);
		CHECK(takes[LW_SHARED] == i % 2 && takes[LW_EXCLUSIVE] == 0);
		mark_end_prepared();
		CHECK(takes[LW_EXCLUSIVE] == i % 2 && held == NULL);
	}
}

/* --- Who is stopped while the ring goes round ------------------------------------------------ */

static int	 others_commit;
static Seen	 late[3]; /* snapshots of before the last ones */
static int64 late_ticks[3];
static Seen	 early; /* of before the first ones */
static int64 early_tick;

static void
let_others_commit(void)
{
	Session *before = current;

	for (int i = others_commit; i > 0; i--)
	{
		if (i <= lengthof(late))
			take_snapshot(&late[i - 1], &sessions[2]);
		if (i <= lengthof(late))
			late_ticks[i - 1] = commit_quickly();
		else
			(void) commit_quickly();
	}
	/* older ones are not passed over with the one that is under way */
	asked = early;
	asked.data.xip = asked.xip;
	check_answer(others_commit >= ring_size() - 5, early_tick);
	turn_to(before);
}

/* A session is stopped when it has drawn a ticket, or at one of its two barriers then. */
static void
try_stopped(int where, int count)
{
	snprintf(what_is_tried, sizeof(what_is_tried),
			 "stopped at %d, others commit %d", where, count);
	start_anew(ONES, 0);
	commit_many(3);
	take_snapshot(&early, &sessions[2]);
	early_tick = commit_quickly();
	commit_many(3);
	(void) begin_and_mint(&sessions[0]);
	commit();
	commit();
	others_commit = count;
	after_draw = where == 0 ? let_others_commit : NULL;
	stop(&sessions[0], where, let_others_commit);
	commit();
	at_barrier = NULL;
	for (int i = 0; i < Min(count, lengthof(late)); i++)
	{
		asked = late[i];
		asked.data.xip = asked.xip;
		check_answer(false, late_ticks[i]);
	}
	check_fresh();
}

/* A reader is stopped at one of its barriers: it finds all, or says that it cannot. */
static void
commit_meanwhile(void)
{
	commit_many(others_commit);
}

static void
try_stopped_reader(int where, int count)
{
	int64 first;

	snprintf(what_is_tried, sizeof(what_is_tried),
			 "reader at %d, others commit %d", where, count);
	start_anew(ONES, 0);
	commit_many(3);
	take_snapshot(&asked, &sessions[2]);
	first = commit_quickly();
	others_commit = count;
	turn_to(&sessions[2]);
	stop(current, where, commit_meanwhile);
	check_answer(count >= ring_size(), first);
	CHECK(met >= where);
	at_barrier = NULL;
}

static void
try_all_stopped(void)
{
	for (int where = 0; where < 3; where++)
	{
		for (int count = -2; count < 3; count++)
		{
			try_stopped(where, RING_SIZE + 2 * PROCESSES + count);
			try_stopped(where, count + 2);
		}
	}
	for (int where = 1; where <= 5; where++)
	{
		try_stopped_reader(where, RING_SIZE + 2 * PROCESSES);
		try_stopped_reader(where, 1);
	}
}

/* --- The table --------------------------------------------------------------------------------- */

static void
fail_to_prepare(void)
{
	prepare_transaction();
}

/* What can be prepared, and one for each session that is about to; no more. */
static void
try_whole_table(void)
{
	start_anew(ONES, 1);
	for (int i = 0; i < 1 + PROCESSES; i++)
		prepare_one(&sessions[0]);
	(void) begin_and_mint(&sessions[0]);
	CHECK(strcmp(message_of(fail_to_prepare),
				 "no room for a prepared transaction that has minted ids") ==
		  0);
	held = NULL; /* as the server does after an error */
	roll_back();
	roll_back();

	/* who ends one may fail to say so: who prepares finds it */
	for (int i = 0; i < 10; i++)
	{
		if (i == 1 + PROCESSES) /* that one failed */
			continue;
		end(&all[i], false);
		prepare_one(&sessions[0]);
		check_marks();
	}
	check_guards();
}

/* What is left in the table is of an xid that is in the future, but for its epoch. */
static void
try_old_table(void)
{
	start_anew(ONES, 1);
	prepare_one(&sessions[0]);
	end(&all[0], false);
	next_xid.value += (UINT64CONST(1) << 31) + 10;
	completed.value = next_xid.value - 1;
	check_fresh();
}

/* Where nothing can be prepared the server refuses it, and no lock is taken for it. */
static void
try_no_table(void)
{
	memset(takes, 0, sizeof(takes));
	start_anew(ONES, 0);
	CHECK(takes[LW_EXCLUSIVE] == 0);
	(void) begin_and_mint(&sessions[0]);
	tell(XACT_EVENT_PRE_PREPARE);
	CHECK(my_transaction->lock_count == 0 && takes[LW_EXCLUSIVE] == 0);
	check_guards();
}

/* Shared memory that is there stays as it is. */
static void
try_later_process(void)
{
	start_anew(ONES, 2);
	prepare_one(&sessions[0]);
	(void) commit_one(&sessions[1]);
	(void) begin_and_mint(&sessions[3]);
	begin_room(OLD, begins_at, true);
	sessions_shmem_startup();
	mark_shmem_startup();
	CHECK(made == 0);
	CHECK(pg_atomic_read_u64(&shared->tickets) == 1);
	CHECK(pg_atomic_read_u32(&shared->prepared_count) == 1);
	check_marks();
}

/* A time that the layout does not have is before all. */
static void
try_other_layout(void)
{
	for (int i = 0; i < 2; i++)
	{
		start_anew(ONES, 2);
		prepare_one(&sessions[0]);
		has_other_layout = i;
		restart(ZEROS, false);
		take_snapshot(&asked, &sessions[2]);
		check_answer(false, i ? 0 : all[0].hold.tick);
	}
	has_other_layout = false;
}

/* The mark does not pass what is on disk: the greater of two bounds. */
static void
try_disk(void)
{
	start_anew(ONES, 0);
	take_snapshot(&asked, &sessions[2]);
	present = 0;
	for (int i = 0; i < 27; i++)
	{
		int latest = 3 + i % 3;
		int renew = 3 + i / 3 % 3;
		int horizon = 3 + i / 9;

		pg_atomic_write_u64(&bounds->latest, latest);
		pg_atomic_write_u64(&bounds->renew, renew);
		pg_atomic_write_u64(&bounds->horizon, horizon);
		check_answer(false, Min(latest, Max(renew, horizon)));
	}
}

PG_FUNCTION_INFO_V1(mark_ring_cases);
Datum
mark_ring_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	begin_model();
	try_rounds();
	try_kinds();
	try_statements();
	try_barriers();
	try_all_stopped();
	try_whole_table();
	try_old_table();
	try_no_table();
	try_later_process();
	try_other_layout();
	try_disk();
	PG_RETURN_INT64(tried);
}
