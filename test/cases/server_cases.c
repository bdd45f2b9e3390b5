/*-------------------------------------------------------------------------
 *
 * server_cases.c
 *	  All that a server can find in its records, and what it makes of it.
 *
 * server_cases() calls the functions of server.c, and with them those of identity.c and
 * settings.c, with records of our own below them.  It tries all cases, compares each with
 * what the head of server.c says, and returns how many it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "server_system.h"

PG_MODULE_MAGIC;

/* --- The cases ------------------------------------------------------------ */

#define OURS_TEXT "ours"
#define OTHER_TEXT "another, with a longer text"

static Identity here; /* this place */

static Stored
stored(const char *layout, int changes, TimestampTz horizon)
{
	Stored it = {RECORD_FOUND};

	strlcpy(it.record.layout, layout, sizeof(it.record.layout));
	it.record.layout_changes = changes;
	it.record.horizon = horizon;
	return it;
}

/* A record of the layout: missing, unreadable, ours, or another one that is later. */
static Stored
layout_case(int i)
{
	return i < 2 ? (Stored){i == 0 ? RECORD_MISSING : RECORD_UNREADABLE} :
		   i < 3 ? stored(OURS_TEXT, 1, DT_NOBEGIN) :
				   stored(OTHER_TEXT, 2, DT_NOBEGIN);
}

enum
{
	FILE_MISSING,
	FILE_UNREADABLE,
	FILE_OURS,
	FILE_OTHER,
	FILE_OLD,
	FILE_COPIED,
	FILE_OF_STANDBY,
	FILE_OF_CLONE,
	FILE_FROM_BACKUP,
	FILE_CASES
};

static Stored
file_case(int i)
{
	Stored	  it = i == FILE_MISSING	 ? (Stored){RECORD_MISSING} :
				   i == FILE_UNREADABLE	 ? (Stored){RECORD_UNREADABLE} :
				   i == FILE_OTHER		 ? stored(OTHER_TEXT, 2, 5) :
				   i == FILE_OLD		 ? stored(OTHER_TEXT, 0, 5) :
				   i == FILE_FROM_BACKUP ? stored("", 0, DT_NOBEGIN) :
										   stored(OURS_TEXT, 1, 5);
	Identity *writer = &it.record.writer;

	*writer = here;
	writer->incarnation = i == FILE_FROM_BACKUP ? 0 : 5;
	writer->changes = 7;
	if (i == FILE_COPIED)
		writer->born++;
	if (i == FILE_OF_STANDBY)
		writer->standby = 1;
	if (i == FILE_OF_CLONE)
		writer->clone_of = 3;
	if (i == FILE_OF_CLONE || i == FILE_FROM_BACKUP)
		strlcpy(writer->evidence, "it was found before",
				sizeof(writer->evidence));
	return it;
}

/* The horizon's page: as many as 2 + 2 * 3 * 3. */
static Stored
page_case(int i)
{
	Stored	  it;
	Identity *writer = &it.record.writer;

	if (i < 2)
		return layout_case(i);
	i -= 2;
	it = stored(i % 2 ? OTHER_TEXT : OURS_TEXT, 1 + i % 2, 4 + i / 2 % 3);
	*writer = here;
	writer->incarnation = 5;
	writer->changes = 6 + i / 6;
	writer->born++; /* who wrote it was elsewhere */
	writer->clone_of = 4;
	strlcpy(writer->evidence, "it is a clone by its page",
			sizeof(writer->evidence));
	return it;
}

#define PAGE_CASES 20

/* What all that is found tells together. */
static void
merge(const Stored *it, Record *known)
{
	if (it->result != RECORD_FOUND)
		return;
	if (it->record.layout[0] != '\0' &&
		(known->layout[0] == '\0' ||
		 it->record.layout_changes > known->layout_changes ||
		 (it->record.layout_changes == known->layout_changes &&
		  it->record.horizon >= known->horizon)))
	{
		memset(known->layout, 0, sizeof(known->layout));
		strcpy(known->layout, it->record.layout);
		known->layout_changes = it->record.layout_changes;
	}
	if (it->record.horizon > known->horizon)
		known->horizon = it->record.horizon;
}

static void
check_known(const Record *expected)
{
	Record known;

	server_known(&known);
	CHECK(strcmp(known.layout, expected->layout) == 0);
	CHECK(known.layout_changes == expected->layout_changes);
	CHECK(known.horizon == expected->horizon);
	CHECK(server_horizon() == expected->horizon);
	CHECK(memcmp(&known.writer, &expected->writer, sizeof(Identity)) == 0);
	CHECK(server_is_clone() == identity_is_clone(&expected->writer));
	CHECK(held == 0);
}

/* The postmaster starts: what it knows then, and whether that is on disk. */
static bool
try_start(Record *known)
{
	const Stored *file = &files[HORIZON_RECORD];
	bool		  is_unsaved = false;
	int			  expected_writes = 0;
	int			  expected_reports = 0;

	memset(known, 0, sizeof(*known));
	known->horizon = DT_NOBEGIN;
	known->writer = here;
	merge(&files[LAYOUT_RECORD], known);
	merge(file, known);
	if (file->result == RECORD_FOUND)
	{
		identity_recognise(&known->writer, &file->record.writer,
						   file->record.writer.incarnation == 0 ?
							   START_FROM_BACKUP :
							   start_mode);
		is_unsaved = memcmp(&known->writer, &file->record.writer,
							sizeof(Identity)) != 0;
	}

	memset(memory, 0, sizeof(memory));
	memset(logged, 0, sizeof(logged));
	reports = writes = logged_files = 0;
	server_shmem_startup();
	check_known(known);
	CHECK(!server_knows_layout() && !server_layout_differs());
	CHECK(logged[LOGS_LAYOUT] == 1);
	CHECK(logged[LOGS_MISSING] ==
		  (file->result == RECORD_MISSING && known->layout[0] != '\0'));
	CHECK(logged[LOGS_CLONE] == identity_is_clone(&known->writer));
	CHECK(logged[LOGS_DIFFERS] == 0);

	/* a file is written where recovery removes what it tells */
	if (is_unsaved ||
		(file->result == RECORD_MISSING && start_mode != START_AS_PRIMARY))
		expected_writes = 1;
	CHECK(writes == expected_writes);
	if (writes > 0)
	{
		Record expected = *known;

		if (file->result == RECORD_MISSING)
			identity_note_start(&expected.writer, start_mode);
		CHECK(memcmp(&written, &expected, sizeof(written)) == 0);
	}
	if (file->result == RECORD_UNREADABLE)
		expected_reports++;
	if (files[LAYOUT_RECORD].result == RECORD_UNREADABLE &&
		known->layout[0] == '\0')
		expected_reports++;
	if (is_full)
		expected_reports += writes;
	CHECK(reports == expected_reports);
	CHECK(logged_files == (files[LAYOUT_RECORD].result == RECORD_UNREADABLE &&
						   known->layout[0] != '\0'));
	return !is_unsaved;
}

/* Why the pages do not tell the layout; NULL: they do, or there are none. */
static const char *
fault_of_pages(void)
{
	RecordResult horizon = pages[HORIZON_RECORD].result;
	RecordResult layout = pages[LAYOUT_RECORD].result;

	if (horizon == RECORD_FOUND || layout == RECORD_FOUND)
		return NULL;
	return horizon == RECORD_UNREADABLE ? "page 0" :
		   layout == RECORD_UNREADABLE	? "page 1" :
										  NULL;
}

/* The worker reads on; gives whether it can. */
static bool
try_worker(Record *known, bool *is_saved)
{
	const Stored *page = &pages[HORIZON_RECORD];
	TimestampTz	  in_file = known->horizon;
	Record		  found = *known;
	Trouble		  trouble = {0};
	const char	 *fault;
	bool		  good;

	merge(&pages[LAYOUT_RECORD], &found);
	merge(page, &found);
	fault = files[HORIZON_RECORD].result == RECORD_UNREADABLE ? "file 0" :
			fault_of_pages()				  ? fault_of_pages() :
			page->result == RECORD_UNREADABLE ? "page 0" :
			found.layout[0] == '\0' &&
					files[LAYOUT_RECORD].result == RECORD_UNREADABLE ?
												"file 1" :
												NULL;
	file_reads = 0;
	good = server_read_records(&trouble);
	/* a file that was read is not read again: who it is was found out then */
	CHECK(file_reads == (files[HORIZON_RECORD].result == RECORD_UNREADABLE));
	CHECK(good == (fault == NULL));
	CHECK(good || strcmp(trouble.reason, fault) == 0);
	if (!good)
	{
		check_known(known);
		CHECK(trouble.record ==
			  (fault[5] == '1' ? LAYOUT_RECORD : HORIZON_RECORD));
		return false;
	}
	if (page->result == RECORD_FOUND)
	{
		const Identity *writer = &page->record.writer;
		Identity		unplaced = *writer;

		if (found.writer.standby && writer->changes > found.writer.changes)
		{
			found.writer.changes = writer->changes;
			found.writer.clone_of = writer->clone_of;
			memcpy(found.writer.evidence, writer->evidence,
				   sizeof(writer->evidence));
		}
		else if (found.writer.incarnation == 0)
		{
			identity_forget_place(&unplaced);
			identity_recognise(&found.writer, &unplaced,
							   files[HORIZON_RECORD].result == RECORD_FOUND ?
								   START_FROM_BACKUP :
								   start_mode);
		}
		if (page->record.horizon > in_file)
			*is_saved = false;
	}
	*known = found;
	check_known(known);

	/* a state that lasts is logged once */
	for (int i = 0; i < 3; i++)
		server_compare_layout();
	CHECK(server_knows_layout() == (known->layout[0] != '\0'));
	CHECK(server_layout_differs() == (strcmp(known->layout, OTHER_TEXT) == 0));
	CHECK(logged[LOGS_DIFFERS] == server_layout_differs());
	return true;
}

/* What the worker stores for what sessions accept. */
static void
try_change(Record *known, bool *is_saved, bool *has_stored_layout,
		   uint32 accepts)
{
	bool is_new = known->writer.incarnation == 0 || known->writer.standby != 0;
	bool is_first = known->layout[0] == '\0';
	bool stores_layout = !*has_stored_layout || (accepts & 1);
	bool stores_record = is_new || is_first || accepts || !*is_saved;
	ServerChange change;
	ServerChange again;
	Record		 expected = *known;

	if (is_new)
	{
		expected.writer.changes++;
		expected.writer.standby = 0;
		expected.writer.incarnation = 99;
	}
	if (accepts & 2)
	{
		expected.writer.changes++;
		expected.writer.clone_of = 0;
		memset(expected.writer.evidence, 0, sizeof(expected.writer.evidence));
	}
	if (accepts & 1)
		expected.layout_changes++;
	if (is_first || (accepts & 1))
	{
		memset(expected.layout, 0, sizeof(expected.layout));
		strcpy(expected.layout, OURS_TEXT);
	}
	server_accept(accepts & 1, true);
	server_accept(accepts & 2, true);
	CHECK(server_has_change(&change) == (stores_layout || stores_record));
	CHECK(change.accepts == accepts);
	CHECK(change.stores_layout == stores_layout);
	CHECK(change.stores_record == stores_record);
	CHECK(memcmp(&change.record, &expected, sizeof(expected)) == 0);
	if (stores_layout || stores_record)
	{
		server_note_change(&change);
		*known = expected;
		*is_saved = *has_stored_layout = true;
	}
	check_known(known);
	CHECK(server_knows_layout());
	CHECK(server_layout_differs() == (strcmp(known->layout, OTHER_TEXT) == 0));
	CHECK(!server_has_change(&again));
	CHECK(again.accepts == 0);
}

static void
call_check(void)
{
	(void) server_layout();
}

/* A call looks at the records itself, as long as the worker has not. */
static void
try_session(const Record *known)
{
	Record		found = *known;
	const char *fault = fault_of_pages();
	const char *error;
	bool		waits_long = false;
	const char *told;

	merge(&pages[LAYOUT_RECORD], &found);
	merge(&pages[HORIZON_RECORD], &found);
	if (!fault && found.layout[0] == '\0' &&
		files[LAYOUT_RECORD].result == RECORD_UNREADABLE)
		fault = "file 1";
	if (fault)
		error =
			in_recovery ?
				psprintf("cannot tell the layout of the primary server: %s",
						 fault) :
				fault;
	else if (found.layout[0] == '\0')
	{
		error = in_recovery ? "the layout of the primary server is not known" :
							  "the layout of this server is not recorded yet";
		waits_long = !in_recovery && under_postmaster;
	}
	else
		error = strcmp(found.layout, OURS_TEXT) == 0 ?
					"" :
					"this server has another layout than \"snowflake.layout\"";

	waits = 0;
	told = message_of(call_check);
	CHECK(strcmp(told, error) == 0);
	CHECK(waits_long ? waits * RECORD_POLL_US >= RECORD_PATIENCE_US :
					   waits == 0);
	check_known(known);

	/* what agreed is looked at again when something was replayed */
	reads = 0;
	if (error[0] == '\0')
	{
		CHECK(message_of(call_check)[0] == '\0' && reads == 0);
		replay_end++;
		CHECK(message_of(call_check)[0] == '\0' && reads == 2);
	}
	replay_end++;
}

static void
try_records(void)
{
	for (int i = 0; i < 3 * 4 * FILE_CASES * 4 * PAGE_CASES * 2; i++)
	{
		int	   rest = i;
		Record known;
		bool   is_saved;
		bool   has_stored_layout = false;
		int	   part[6];
		int	   sizes[6] = {3, 4, FILE_CASES, 4, PAGE_CASES, 2};

		for (int n = 0; n < lengthof(part); n++)
		{
			part[n] = rest % sizes[n];
			rest /= sizes[n];
		}
		snprintf(what_is_tried, sizeof(what_is_tried),
				 "start %d, files %d %d, pages %d %d", part[0], part[1],
				 part[2], part[3], part[4]);
		start_mode = part[0];
		files[LAYOUT_RECORD] = layout_case(part[1]);
		files[HORIZON_RECORD] = file_case(part[2]);
		pages[LAYOUT_RECORD] = layout_case(part[3]);
		pages[HORIZON_RECORD] = page_case(part[4]);
		is_full = part[5];
		is_saved = try_start(&known);
		for (int server_is = 0; server_is < 4; server_is++)
		{
			in_recovery = server_is & 1;
			under_postmaster = server_is & 2;
			try_session(&known);
		}
		in_recovery = false;
		under_postmaster = true;
		logged[LOGS_CLONE] = identity_is_clone(&known.writer);
		if (!try_worker(&known, &is_saved))
		{
			/* given back, the file is read */
			if (files[HORIZON_RECORD].result == RECORD_UNREADABLE &&
				!fault_of_pages() &&
				pages[HORIZON_RECORD].result != RECORD_UNREADABLE)
			{
				Trouble trouble = {0};

				files[HORIZON_RECORD] = file_case(FILE_OURS);
				CHECK(server_read_records(&trouble));
				CHECK(server_horizon() >= 5);
				CHECK(server->known.writer.incarnation != 0);
			}
			continue;
		}
		try_change(&known, &is_saved, &has_stored_layout, 0);
		CHECK(message_of(call_check)[0] ==
			  (server_layout_differs() ? 't' : '\0'));
		CHECK(logged[LOGS_CLONE] <= 1);
		if (identity_is_clone(&known.writer))
			CHECK(logged[LOGS_CLONE] == 1);
		try_change(&known, &is_saved, &has_stored_layout, ACCEPTS_CLONE);
		try_change(&known, &is_saved, &has_stored_layout, ACCEPTS_LAYOUT);
		CHECK(message_of(call_check)[0] == '\0');
		try_change(&known, &is_saved, &has_stored_layout,
				   ACCEPTS_CLONE | ACCEPTS_LAYOUT);
	}
}

/* Of two that say the same, the later one counts: pages are read after files. */
static void
try_same_changes(void)
{
	Stored first = stored(OURS_TEXT, 1, 5);
	Stored second = stored(OTHER_TEXT, 1, 5);

	for (int horizon = 4; horizon <= 6; horizon++)
	{
		Record known = first.record;

		second.record.horizon = horizon;
		merge_record(&second.record, &known);
		CHECK(strcmp(known.layout, horizon >= 5 ? OTHER_TEXT : OURS_TEXT) ==
			  0);
		CHECK(known.horizon == Max(horizon, 5));
	}
}

/* --- Calls beside -------------------------------------------------------- */

static void
try_clone_guard(void)
{
	for (int i = 0; i < 8; i++)
	{
		bool is_clone = i & 1;
		bool has_evidence = i & 2;

		settings_refuse_clone = i & 4;
		pg_atomic_write_u32(&server->is_clone, is_clone);
		memset(&server->known.writer, 0, sizeof(Identity));
		if (has_evidence)
			strcpy(server->known.writer.evidence, "it was found");
		touched = 0;
		CHECK((message_of(server_check_clone)[0] != '\0') ==
			  (is_clone && has_evidence && settings_refuse_clone));

		/* each call that mints asks this: no lock where there is no clone */
		CHECK(touched == (is_clone && settings_refuse_clone));
	}
}

static void
try_expiry(Layout *layout)
{
	TimestampTz last = layout_time_of_tick(layout, layout->last_mint_tick);

	for (int i = 0; i < 6; i++)
	{
		int	   after = i / 2 - 1;
		Record record = {.horizon = last - USECS_PER_DAY * 2 * 365 + after};
		Record made;

		may_log = i % 2;
		logged[LOGS_EXPIRY] = 0;
		server_note_renewal(&record);
		CHECK(server_horizon() == record.horizon && held == 0);
		CHECK(logged[LOGS_EXPIRY] == (may_log && after > 0));
		server_make_record(&made, 77);
		CHECK(made.horizon == 77);
		CHECK(memcmp(&made.writer, &server->known.writer, sizeof(Identity)) ==
			  0);
		CHECK(strcmp(made.layout, server->known.layout) == 0);
	}
}

static void
try_settings(void)
{
	OwnShards *own = palloc0(offsetof(OwnShards, shard) + 8 * sizeof(int32));

	/* behind the last one there is what was there before */
	for (int count = 0; count < 8; count++)
	{
		own->count = count;
		for (int i = 0; i < 8; i++)
			own->shard[i] = 2 * i + 1;
		settings_asked_shards = own;
		for (int shard = 0; shard < 18; shard++)
		{
			bool is_there = shard % 2 == 1 && shard < 2 * count;

			CHECK(index_of_shard(own, shard) == Min(shard / 2, count));
			CHECK(has_shard(own, shard) == is_there);
			CHECK(settings_name_shard(shard) == is_there);
			CHECK(settings_ask_for(shard) == (is_there || count == 0));
		}
	}
	for (int i = 0; i < 18; i++)
	{
		registry_in_use = i % 3 == 0 ? NULL : i % 3 == 1 ? "" : "host=r";
		registry_text = i / 3 % 2 ? "host=r" : "";
		own->automatic = i / 6;
		CHECK(strcmp(settings_registry(), i % 3 == 2 ? "host=r" : "") == 0);
		CHECK(settings_leave_registry() == (i % 3 != 0 && i / 3 % 2 == 0));
		CHECK(settings_want_leases() == (i % 3 == 2 || i / 6 > 0));
	}
	registry_in_use = NULL;
}

PG_FUNCTION_INFO_V1(server_cases);
Datum
server_cases(PG_FUNCTION_ARGS)
{
	emit_log_hook_type hook = emit_log_hook;
	bool			   refuses = settings_refuse_clone;
	Layout layout = {.tick_us = 1000, .last_mint_tick = INT64CONST(1) << 41};

	tried = 0;
	emit_log_hook = count_log;
	setting_layout = &layout;
	strlcpy(layout_in_full, OURS_TEXT, sizeof(layout_in_full));
	identity_look_around(&here);
	here.born = here.born ? here.born : 1;
	PG_TRY();
	{
		try_records();
		try_same_changes();
		try_clone_guard();
		try_expiry(&layout);
		try_settings();
	}
	PG_FINALLY();
	{
		emit_log_hook = hook;
		settings_refuse_clone = refuses;
	}
	PG_END_TRY();
	PG_RETURN_INT64(tried);
}
