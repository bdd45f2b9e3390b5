/*-------------------------------------------------------------------------
 *
 * registry_cases.c
 *	  All that hosts and servers can do to a client of the registry.
 *
 * registry_cases() calls the functions of registry.c, and with them those of
 * registry_answer.c, with a libpq of our own below them.  It compares what is sent, how long
 * it waits, and which failure it tells, with what the head of registry.c says, sees that
 * nothing is left open, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "registry_libpq.h"

PG_MODULE_MAGIC;

static RegistryFailure	 failure;
static RegistryAnswer	 answer;
static const LeaseCaller caller = {.holder = 1, .fence = 2, .next = 3};

/* --- What is the same in each case ------------------------------------------- */

/* What time each host is to have, where there are so many. */
static const struct
{
	int			ms;
	const char *text;
} shares[] = {{0},			 {5000, "5"},	 {5000, "5"},
			  {5000, "5"},	 {3750, "3.75"}, {3000, "3"},
			  {2500, "2.5"}, {2142, "2.14"}};

/* Each case begins at a whole minute, with so many good hosts. */
static void
begin(int count)
{
	now_us = (now_us / MINUTE + 1) * MINUTE;
	end_us = 0;
	stop_at_us = stop_end_us = shutdown_us = NEVER;
	wake_every_us = 0;
	is_stopping = false;
	wakes = interrupts = looks = waits = uses = connects = 0;
	is_unparsed = has_no_memory = false;
	host_count = count;
	host_ms = shares[count].ms;
	for (int i = 0; i < count; i++)
		host_at[i] = GOOD;
	talk_at[0] = &tells_schema;
	talk_at[1] = &accepts;
	memset(&failure, 0, sizeof(failure));
	sent[0][0] = sent[1][0] = '\0';
}

/* To disconnect again does nothing. */
static void
end(void)
{
	for (int i = 0; i < 2; i++)
	{
		is_latch_set = false;
		registry_disconnect();
		CHECK(is_latch_set);
		CHECK(open_connections == 0 && open_results == 0 && allocated == 0);
		CHECK(open_options == 0 && open_files == 0);
		CHECK(limit.rlim_cur == RLIM_INFINITY);
	}
	CHECK(interrupts == wakes);
}

static void
check_failure(RegistryFailureKind kind, const char *text, const char *hint)
{
	CHECK(failure.kind == kind);
	CHECK(strcmp(failure.text, text) == 0);
	CHECK(strcmp(failure.hint, hint) == 0);
}

static void
check_silence(const char *host, const char *seconds)
{
	check_failure(REGISTRY_SILENT,
				  psprintf("host \"%s\" of the registry did not answer within "
						   "%s s",
						   host, seconds),
				  "");
}

static bool
calls(void)
{
	return registry_call("f", &caller, "more", &answer, &failure);
}

/* --- Hosts -------------------------------------------------------------------- */

/* So long a host takes to answer, or to fail. */
static int64
time_of(const Host *host)
{
	return host->fills_time ? host_ms * INT64CONST(1000) + host->step_us :
							  (int64) strlen(host->steps) * host->step_us;
}

/*
 * Connect, where the server is asked to shut down after "stop_us".  The host that
 * answered last is asked first, and then the others, one by one.
 */
static void
try_connecting(int *answered, int64 stop_us)
{
	int64		began_us = now_us;
	int64		stop_end = stop_us == NEVER ? NEVER : stop_us + 3 * SECOND;
	int64		time = 0;
	bool		is_late = false;
	bool		has_connected;
	int			index = -1;
	int			i;
	const Host *host = NULL;

	stop_at_us = stop_us == NEVER ? NEVER : now_us + stop_us;
	is_stopping = stop_us == 0;
	has_connected = registry_connect(&failure);
	for (i = 0; i < host_count; i++)
	{
		int64 left_us = Min(host_ms * INT64CONST(1000), stop_end - time);

		index = (*answered + i) % host_count;
		host = host_at[index];
		CHECK(asked[i] == index);
		is_late = time_of(host) > 0 && time_of(host) >= left_us;
		time += is_late ? left_us : time_of(host);
		if (!is_late && host->text == NULL)
			break;
	}
	CHECK(has_connected == (i < host_count));
	CHECK(connects == (has_connected ? i + 1 : host_count));

	/* a wait may end a millisecond later */
	CHECK(now_us - began_us >= time);
	CHECK(now_us - began_us <= time + host_count * 1000);
	CHECK(now_us - began_us <= 15 * SECOND + host_count * 1000);
	if (has_connected)
	{
		*answered = index;
		CHECK(failure.kind == REGISTRY_ANSWERED);
		CHECK(strcmp(sent[0], ASKS_SCHEMA) == 0);
	}
	else if (is_late)
		check_silence(host->name, shares[host_count].text);
	else
		check_failure(REGISTRY_AWAY, host->text, host->hint);
	end();
}

/* All hosts that there can be, each first, in a server that is asked to shut down or not. */
static void
try_hosts(void)
{
	static const int64 stops[] = {NEVER, 0, SECOND, 6 * SECOND};

	for (int count = 1, all = HOST_CASES; count <= 4;
		 count++, all *= HOST_CASES)
	{
		for (int i = 0; i < all * count * 8; i++)
		{
			int64 stop_us = stops[i / all / count % 4];
			bool  wakes_us = i / all / count / 4;
			int	  answered = good_host = i / all % count;

			snprintf(what_is_tried, sizeof(what_is_tried),
					 "%d hosts, %o, %d answered, case %d", count, i % all,
					 answered, i / all / count);
			for (int n = 0; n < (stop_us == NEVER ? 2 : 1); n++)
			{
				begin(count);
				for (int k = 0, rest = i; k < count; k++, rest /= HOST_CASES)
					host_at[k] = &hosts[rest % HOST_CASES];
				wake_every_us = wakes_us ? 1250000 : 0; /* also at the end */
				try_connecting(&answered, stop_us);
			}
		}
	}
}

/* Of many hosts each has less time; there were more of them before, or fewer. */
static void
try_many_hosts(void)
{
	for (int count = 1; count < lengthof(shares); count++)
	{
		for (int good = 0; good <= count; good++)
		{
			int answered = good_host = good + 3;

			begin(count);
			for (int i = 0; i < count; i++)
				host_at[i] = i == good ? GOOD : SILENT;
			wake_every_us = 333333;
			try_connecting(&answered, NEVER);
		}
	}
}

/* --- The schema ---------------------------------------------------------------- */

#define NO_EXTENSION \
	"the registry's database \"leases\" has no extension snowflake_registry"
#define NO_EXTENSION_HINT                                                    \
	"Name the registry's database by \"dbname\" in \"snowflake.registry\". " \
	"If it is \"leases\", run CREATE EXTENSION snowflake_registry there."

static void
try_schemas(void)
{
	char name[200];

	/* a name of 63 characters that are quoted, and doubled, has 128 */
	for (int length = 0; length < 140; length++)
	{
		for (int i = 0; i < 9; i++)
		{
			PGresult results[] = {
				{PGRES_SINGLE_TUPLE, i % 3, i / 3, {name, name, name, name}},
				{PGRES_TUPLES_OK, 1, 0}};
			Talk talk = {.count = 2, .result = results};
			bool is_found = i == 4 && length > 0 && length <= 130;

			memset(name, 'x', sizeof(name));
			name[length] = '\0';
			begin(1);
			talk_at[0] = &talk;
			CHECK(registry_connect(&failure) == is_found);
			if (!is_found)
				check_failure(REGISTRY_REFUSED, NO_EXTENSION,
							  NO_EXTENSION_HINT);
			else
			{
				CHECK(calls());
				CHECK(strstr(sent[1], psprintf(" FROM %s.f(", name)));
			}
			end();
		}
	}
}

/* --- Statements ------------------------------------------------------------------ */

/* What it tells of a talk, in which each result comes, one by one. */
static RegistryFailureKind
kind_of_talk(const Talk *talk)
{
	int64 time = 0;

	if (talk->is_refused || talk->is_whole)
		return REGISTRY_AWAY;
	for (int i = 0; i < talk->flushes; i++)
	{
		if ((time += talk->piece_us) >= 5 * SECOND)
			return REGISTRY_SILENT;
	}
	if (talk->breaks_sending)
		return REGISTRY_AWAY;
	for (int result = 1; result <= talk->count + 1; result++)
	{
		for (int i = 0; i < talk->pieces; i++)
		{
			if ((time += talk->piece_us) >= 5 * SECOND)
				return REGISTRY_SILENT;
			if (talk->breaks_at == result)
				return REGISTRY_AWAY;
		}
		if ((time += talk->cost_us) >= 5 * SECOND && result <= talk->count)
			return REGISTRY_SILENT;
	}
	return REGISTRY_ANSWERED;
}

/* Look for the schema, or call a function, with a server that does as it is told. */
static void
try_talk(Talk talk, int place)
{
	RegistryFailureKind kind;
	int64				began_us;
	bool				good;

	talk.count = talk.repeats ? 10000 : talk_at[place]->count;
	talk.result = talk_at[place]->result;
	talk_at[place] = &talk;
	kind = kind_of_talk(&talk);
	began_us = now_us;
	good = registry_connect(&failure);
	CHECK(good == (place == 1 || kind == REGISTRY_ANSWERED));
	if (place == 1)
	{
		began_us = now_us;
		good = calls();
	}
	CHECK(good == (kind == REGISTRY_ANSWERED));
	if (good)
		CHECK(failure.kind == REGISTRY_ANSWERED);
	else if (kind == REGISTRY_SILENT)
		check_silence("good", "5");
	else
		check_failure(REGISTRY_AWAY, AWAY(BROKEN), "");
	CHECK(now_us - began_us <= 5 * SECOND + 10000);
	end();
}

static void
try_talks(void)
{
	static const int64 pieces[] = {1000, 2 * SECOND, 1100 * 1000, MINUTE};

	for (int i = 0; i < 4 * 3 * 2 * 3 * 4 * 4 * 2; i++)
	{
		int	 rest = i;
		int	 part[7];
		int	 sizes[7] = {4, 3, 2, 3, 4, 4, 2};
		Talk talk = {0};

		for (int n = 0; n < lengthof(part); n++)
		{
			part[n] = rest % sizes[n];
			rest /= sizes[n];
		}
		talk.is_refused = part[0] == 1;
		talk.is_whole = part[0] == 2;
		talk.notifies = part[0];
		talk.flushes = part[1];
		talk.breaks_sending = part[2];
		talk.pieces = part[3];
		talk.piece_us = pieces[part[4]];
		talk.breaks_at = part[5];
		snprintf(what_is_tried, sizeof(what_is_tried),
				 "talk %d %d %d %d %d %d, place %d", part[0], part[1], part[2],
				 part[3], part[4], part[5], part[6]);
		for (int wake = 0; wake < 2; wake++)
		{
			begin(1);
			wake_every_us = wake ? 333333 : 0;
			try_talk(talk, part[6]);
		}
	}

	/* results that are there already are not waited for, and do not come for ever */
	for (int place = 0; place < 2; place++)
	{
		begin(1);
		try_talk((Talk){.repeats = true, .cost_us = 1000}, place);
		CHECK(connections[0].results == 5000);
	}
}

/* Each status that a result can have, but that of an error. */
static void
try_statuses(void)
{
	for (int status = 0; status <= PGRES_PIPELINE_ABORTED + 2; status++)
	{
		PGresult results[] = {accepted[0], {status, 5, 0}, accepted[1]};
		Talk	 talk = {.count = 3, .result = results};
		bool	 is_good = status == PGRES_COMMAND_OK ||
					   status == PGRES_TUPLES_OK ||
					   status == PGRES_SINGLE_TUPLE;

		if (status == PGRES_FATAL_ERROR)
			continue;
		begin(1);
		talk_at[1] = &talk;
		CHECK(registry_connect(&failure));
		CHECK(calls() == is_good);
		if (!is_good)
			check_failure(REGISTRY_INVALID,
						  "the registry's answer is not valid: it is none to a "
						  "query",
						  "");
		end();
	}
}

/* Errors of both statements; the schema is known of the second one. */
static void
try_errors(void)
{
	static const char *const messages[] = {NULL, "no\x1b way"};
	static const char *const details[] = {NULL, "It is so"};
	static const char *const states[] = {NULL,	  "",	  "42501", "42500",
										 "42502", "4250", "42P01", "XX000"};

	for (int i = 0; i < 2 * 2 * 2 * lengthof(states) * 2; i++)
	{
		int		 place = i % 2;
		bool	 is_of_function = i / 2 % 2;
		bool	 has_message = i / 4 % 2;
		bool	 has_detail = i / 8 % 2;
		int		 state = i / 16;
		PGresult results[] = {{PGRES_FATAL_ERROR,
							   .message = messages[has_message],
							   .detail = details[has_detail],
							   .state = states[state],
							   .context = is_of_function ? "in f()" : NULL},
							  accepted[1]};
		Talk	 talk = {.count = 2, .result = results};

		snprintf(what_is_tried, sizeof(what_is_tried), "error %d", i);
		begin(1);
		talk_at[place] = &talk;
		CHECK(registry_connect(&failure) == place);
		CHECK(place == 0 || !calls());
		if (has_message)
			check_failure(REGISTRY_REFUSED,
						  has_detail ?
							  "the registry refused: no? way. It is so" :
							  "the registry refused: no? way",
						  place == 1 && state == 2 && !is_of_function ?
							  "Run SELECT " SCHEMA
							  ".snowflake_registry_grant('ids') in database "
							  "\"leases\" of the registry's server." :
							  "");
		else
			check_failure(REGISTRY_AWAY, AWAY(BROKEN), "");
		end();
	}
}

/* --- What is sent ----------------------------------------------------------------- */

/* Times count from 2000; the last one is behind those that are sent. */
static const Lease leases[] = {{0, 5, 7},
							   {INT64CONST(-946684800000000), 1000000, 9},
							   {-1, INT64CONST(946684800000000), 1023},
							   {77, 88, 99}};

static const char *const shards_text[] = {"", "7", "7,9", "7,9,1023"};
static const char *const from_text[] = {"", "946684800000000",
										"946684800000000,0",
										"946684800000000,0,946684799999999"};
static const char *const until_text[] = {
	"", "946684800000005", "946684800000005,946684801000000",
	"946684800000005,946684801000000,1893369600000000"};

#define TIMES                                                                \
	"ARRAY(SELECT timestamptz 'epoch' + us * interval '1 microsecond' FROM " \
	"unnest('{%s}'::bigint[]) WITH ORDINALITY AS t (us, place) ORDER BY place)"

static void
check_guard(void)
{
	for (int i = 0; i < GUARD_SIZE; i++)
		CHECK(guard[i] == GUARD);
}

static void
try_arguments(void)
{
	OwnShards *own = palloc0(offsetof(OwnShards, shard) + 4 * sizeof(int32));
	char	   long_name[200];

	memset(long_name, 'h', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	for (int i = 0; i < 4; i++)
		own->shard[i] = leases[i].shard;
	settings_asked_shards = own;
	begin(1);
	CHECK(registry_connect(&failure));
	for (int i = 0; i < 4 * 4 * 4 * 3 * 2 * 2; i++)
	{
		int	  held = i % 4;
		int	  known = i / 4 % 4;
		bool  is_long = i / 192 % 2;
		char *server;
		char *expected;

		own->count = i / 16 % 4;
		own->automatic = i / 64 % 3;
		host_name = is_long ? long_name : "host";
		name_of_cluster = i / 384 ? "paris" : "";
		settings_lease_ms = 60000 + i;
		layout.shard_bits = 10 + i % 3;
		uses = 0;

		/* the name of a host is cut to 71 characters */
		server = psprintf("host => <%s%s%.71s:5433>::text, layout => "
						  "<a layout>::text, last_shard => %s",
						  name_of_cluster, name_of_cluster[0] ? " at " : "",
						  host_name,
						  i % 3 == 0 ? "1023" :
						  i % 3 == 1 ? "2047" :
									   "4095");
		expected =
			psprintf("%s, held => '{%s}'::int[], held_from => " TIMES
					 ", held_until => " TIMES
					 ", wanted => %s, auto => %s, preferred => '{%s}'::int[], "
					 "lease => interval '%d ms'",
					 server, shards_text[held], from_text[held],
					 until_text[held],
					 own->automatic ?
						 "NULL::int[]" :
						 psprintf("'{%s}'::int[]", shards_text[own->count]),
					 own->automatic == 0 ? "NULL::int" :
					 own->automatic == 1 ? "1" :
										   "2",
					 shards_text[known], 60000 + i);
		CHECK(strcmp(registry_lease_arguments(leases, held, leases, known),
					 expected) == 0);
		check_guard();
		expected = psprintf("%s, shards => '{%s}'::int[], ends => " TIMES,
							server, shards_text[held], until_text[held]);
		CHECK(strcmp(registry_release_arguments(leases, held), expected) == 0);
		check_guard();
	}
	end();
}

static void
try_callers(void)
{
	static const struct
	{
		LeaseCaller caller;
		const char *text;
	} callers[] = {
		{{0},
		 "holder => '#0'::text, fence => bigint '0', next => bigint '0', "
		 "confirmed => bigint '0', registry => nullif('#0', '#0')::text"},
		{{.holder = 1,
		  .fence = 2,
		  .next = 3,
		  .call = 4,
		  .confirmed = 5,
		  .registry = 6},
		 "holder => '#1'::text, fence => bigint '2', next => bigint '3', "
		 "confirmed => bigint '5', registry => nullif('#6', '#0')::text"},
		{{.holder = PG_UINT64_MAX,
		  .fence = PG_INT64_MAX,
		  .next = PG_INT64_MIN,
		  .confirmed = -1,
		  .registry = PG_UINT64_MAX - 1},
		 "holder => '#ffffffffffffffff'::text, "
		 "fence => bigint '9223372036854775807', "
		 "next => bigint '-9223372036854775808', confirmed => bigint '-1', "
		 "registry => nullif('#fffffffffffffffe', '#0')::text"}};

	for (int i = 0; i < lengthof(callers); i++)
	{
		begin(1);
		layout.shard_bits = 10;
		CHECK(registry_connect(&failure));
		CHECK(registry_call("f", &callers[i].caller, "more => 1", &answer,
							&failure));
		CHECK(
			strcmp(sent[1],
				   psprintf(
					   "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
					   "SET LOCAL search_path = pg_catalog, pg_temp; "
					   "SET LOCAL statement_timeout = 5000; "
					   "SELECT state, shard, "
					   "(extract(epoch FROM lease_from) * 1000000)::bigint, "
					   "(extract(epoch FROM lease_until) * 1000000)::bigint, "
					   "other FROM " SCHEMA ".f(%s, more => 1); COMMIT",
					   callers[i].text)) == 0);
		CHECK(answer.registry == 0xab && answer.held == 1);
		CHECK(answer.lease[0].shard == 7);
		end();
	}
}

/* --- Answers that are failures ------------------------------------------------------ */

static void
try_answers(void)
{
	PGresult	results[] = {{PGRES_SINGLE_TUPLE, 5, 1, {"closed"}},
							 {PGRES_SINGLE_TUPLE, 5, 1, {"unknown"}},
							 {PGRES_TUPLES_OK, 5, 0}};
	const char *texts[] = {
		"the registry is not open",
		"the registry's answer is not valid: row 1 has no known state",
		"the registry's answer is not valid: it has no row"};

	for (int i = 0; i < lengthof(results); i++)
	{
		Talk talk = {.count = 1, .result = &results[i]};

		begin(1);
		talk_at[1] = &talk;
		CHECK(registry_connect(&failure));
		CHECK(!calls());
		check_failure(i == 0 ? REGISTRY_CLOSED : REGISTRY_INVALID, texts[i],
					  i > 0 ? "" :
							  "Run SELECT " SCHEMA
							  ".snowflake_registry_open('...') in database "
							  "\"leases\" of the registry's server, with the "
							  "longest \"snowflake.lease\" of all servers, or "
							  "'0' if no server ever leased a shard.");
		end();
	}
}

/* --- Memory -------------------------------------------------------------------------- */

static void
connect_here(void)
{
	(void) registry_connect(&failure);
}

/* Where it is not known how much memory there is, and may be, there is no limit. */
static void
try_memory(void)
{
	static const char *const statms[] = {NULL, "",
										 "1001 502 103 54 0 777 9\n"};

	for (int i = 0; i < 17 * 3 * 5 * 2; i++)
	{
		rlim_t before;
		rlim_t most;
		bool   is_known;

		begin(1);
		layout.shard_bits = i % 17;
		statm = statms[i / 17 % 3];
		has_limit = i / 255;
		is_known = has_limit && i / 17 % 3 == 2;

		/* 64 MiB, 512 bytes for each shard but one, and the 777 pages there are */
		most = 67108864 + 777 * PAGE_SIZE_HERE +
			   512 * ((1 << layout.shard_bits) - 1);
		before = i / 51 % 5 == 0 ? RLIM_INFINITY :
				 i / 51 % 5 == 4 ? 1000 :
								   most - 2 + i / 51 % 5;
		limit = (struct rlimit){before, RLIM_INFINITY - 1};
		CHECK(registry_connect(&failure));
		CHECK(limit.rlim_cur == (is_known && before > most ? most : before));
		CHECK(limit.rlim_max == RLIM_INFINITY - 1);
		registry_disconnect();
		if (has_limit)
			CHECK(limit.rlim_cur == before &&
				  limit.rlim_max == RLIM_INFINITY - 1);
		unlimited = limit = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
		end();
	}
}

static void
call_lease_arguments(void)
{
	(void) registry_lease_arguments(leases, 0, leases, 0);
}

static void
try_no_memory(void)
{
	begin(1);
	is_unparsed = true;
	CHECK(strcmp(message_of(connect_here),
				 "invalid connection string of the registry") == 0);
	CHECK(connects == 0);
	end();
	begin(1);
	has_no_memory = true;
	CHECK(strcmp(message_of(connect_here), "out of memory") == 0);
	open_options = 0;
	end();
	begin(1);
	CHECK(registry_connect(&failure));
	has_no_memory = true;
	CHECK(strcmp(message_of(call_lease_arguments), "out of memory") == 0);
	end();
}

PG_FUNCTION_INFO_V1(registry_cases);
Datum
registry_cases(PG_FUNCTION_ARGS)
{
	int fd = first_free_fd();

	tried = 0;
	host_name = "host";
	name_of_cluster = "";
	layout.shard_bits = 10;
	try_memory();
	try_hosts();
	try_many_hosts();
	try_schemas();
	try_talks();
	try_statuses();
	try_errors();
	try_arguments();
	try_callers();
	try_answers();
	try_no_memory();
	CHECK(first_free_fd() == fd);
	PG_RETURN_INT64(tried);
}
