/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  A client of the registry of leases.
 *
 * The registry is extension snowflake_registry in a database that all servers
 * reach.  The worker that leases shards talks to it by libpq.  Calls are minutes
 * apart, so each has a connection of its own.
 *
 * The client trusts nobody: whoever answers may be false.
 *	- Nothing here waits without a deadline, and every wait ends when the
 *	  postmaster dies.  Each host of the connection string has a deadline of its
 *	  own, so that the next one is reached; all of them together have one, too.
 *	  (One thing cannot be timed: libpq asks for the address of a host's name and
 *	  waits for the answer.)
 *	- An answer is read row by row, and checked: see registry_answer.c.  How much
 *	  memory libpq takes meanwhile is limited, since it believes whoever says
 *	  how long a message will be.
 *	- Texts lose what could do more than be read.
 *
 * A request to shut down shortens the waiting, and does not end it: what an
 * answer that is lost would say is worth some seconds.
 *
 * A failure has a class, which any user may know, and a text and a hint, which
 * name hosts, databases and roles: these are for administrators.
 *
 * All of this is private to the worker: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>
#include <unistd.h>

#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "conninfo.h"
#include "errors.h"
#include "identity.h"
#include "registry.h"
#include "settings.h"
#include "clock.h"

/* For the connection to a host, and for each call. */
#define TIMEOUT_MS 5000

/* For the connections to all hosts. */
#define HOSTS_TIMEOUT_MS 15000

/* What is left of that, in all, when the server shuts down. */
#define SHUTDOWN_MS 3000

/* libpq and the answer get no more memory, whatever is told; for each shard ... */
#define MEMORY_OF_SHARD 512

/* ... and besides. */
#define MEMORY_OF_CALL (INT64CONST(64) * 1024 * 1024)

/* It is given the rows of a result, some of all. */
typedef bool (*ReadRows)(void *reader, const PGresult *rows);

static PGconn *connection = NULL;
static char	   schema[2 * NAMEDATALEN + 3]; /* quoted; empty: unknown */
static int64   deadline_us;
static int	   allowed_ms;				   /* until then */
static int64   shutdown_us = PG_INT64_MAX; /* the deadline of all */
static int	   good_host = 0;			   /* which answered last */

/* What memory is outside. */
static struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

/* --- Memory ------------------------------------------------------------- */

/*
 * Let this process take so much memory beyond what it has, until it has
 * disconnected.  Only Linux tells how much that is, in pages, as the sixth of its
 * numbers.
 */
static void
limit_memory(void)
{
	FILE  *statm;
	rlim_t most = MEMORY_OF_CALL +
				  layout_last_shard(settings_layout()) * MEMORY_OF_SHARD;
	char		  line[256];
	char		 *at = line;
	unsigned long pages = 0;
	struct rlimit limited;

	if (getrlimit(RLIMIT_DATA, &unlimited) != 0)
		return;
	statm = AllocateFile("/proc/self/statm", "r");
	if (statm == NULL)
		return;
	if (fgets(line, sizeof(line), statm) != NULL)
	{
		for (int number = 1; number <= 6; number++)
			pages = strtoul(at, &at, 10);
		most += pages * sysconf(_SC_PAGESIZE);
		limited = unlimited;
		limited.rlim_cur = Min(unlimited.rlim_cur, most);
		(void) setrlimit(RLIMIT_DATA, &limited);
	}
	FreeFile(statm);
}

/* --- Waiting ------------------------------------------------------------ */

static void
set_deadline(int ms)
{
	allowed_ms = ms;
	deadline_us = steady_clock_us() + ms * US_PER_MS;
}

/*
 * Wait until the connection's socket is ready.  If something else wakes this process, wait
 * on: libpq would send to a host that has not accepted yet, and would wait for that without
 * a deadline.  False if it took too long.
 */
static bool
wait_for_socket(int event)
{
	int events = 0;

	while (!(events & event))
	{
		int64 now_us = steady_clock_us();
		int64 left_us;

		if (ShutdownRequestPending && shutdown_us == PG_INT64_MAX)
			shutdown_us = now_us + SHUTDOWN_MS * US_PER_MS;
		left_us = Min(deadline_us, shutdown_us) - now_us;
		if (left_us <= 0)
			return false;
		events = WaitLatchOrSocket(MyLatch,
								   WL_LATCH_SET | WL_TIMEOUT |
									   WL_EXIT_ON_PM_DEATH | event,
								   PQsocket(connection),
								   left_us / US_PER_MS + 1, PG_WAIT_EXTENSION);
		if (events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch); /* registry_disconnect() sets it again */
			CHECK_FOR_INTERRUPTS();
		}
	}
	return true;
}

/* The first line of an error of libpq's. */
static bool
note_unreachable(RegistryFailure *failure)
{
	const char *message = PQerrorMessage(connection);

	(void) registry_fail(failure, REGISTRY_AWAY,
						 "could not reach the registry: %.*s",
						 (int) strcspn(message, "\n"), message);
	if (PQconnectionNeedsPassword(connection))
		registry_hint(failure,
					  "Put the password of role \"%s\" into the file .pgpass "
					  "of this server's operating-system user, or name "
					  "another file by \"passfile\" in "
					  "\"snowflake.registry\".",
					  PQuser(connection));
	return false;
}

static bool
note_timeout(RegistryFailure *failure)
{
	return registry_fail(
		failure, REGISTRY_SILENT,
		"host \"%s\" of the registry did not answer within %.3g s",
		PQhost(connection), allowed_ms / 1000.0);
}

/* --- Statements --------------------------------------------------------- */

/* What the registry's server says of an error, and why. */
static void
note_error(const PGresult *result, RegistryFailure *failure)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	bool is_of_function = PQresultErrorField(result, PG_DIAG_CONTEXT) != NULL;

	if (message == NULL)
	{
		(void) note_unreachable(failure);
		return;
	}
	(void) registry_fail(failure, REGISTRY_REFUSED,
						 "the registry refused: %s%s%s", message,
						 detail != NULL ? ". " : "",
						 detail != NULL ? detail : "");
	if (state != NULL && strcmp(state, "42501") == 0 && !is_of_function &&
		schema[0] != '\0')
		registry_hint(failure,
					  "Run SELECT %s.snowflake_registry_grant('%s') in "
					  "database \"%s\" of the registry's server.",
					  schema, PQuser(connection), PQdb(connection));
}

static bool
send_statements(const char *statements, RegistryFailure *failure)
{
	int unsent;

	if (!PQsendQuery(connection, statements) ||
		!PQsetSingleRowMode(connection))
		return note_unreachable(failure);
	while ((unsent = PQflush(connection)) > 0)
	{
		if (!wait_for_socket(WL_SOCKET_WRITEABLE))
			return note_timeout(failure);
	}
	return unsent == 0 || note_unreachable(failure);
}

/* Wait for the next result; *result is NULL after the last one. */
static bool
next_result(PGresult **result, RegistryFailure *failure)
{
	PGnotify *notify;

	while (PQisBusy(connection))
	{
		if (!wait_for_socket(WL_SOCKET_READABLE))
			return note_timeout(failure);
		if (!PQconsumeInput(connection))
			return note_unreachable(failure);
		while ((notify = PQnotifies(connection)) != NULL)
			PQfreemem(notify);
	}
	*result = PQgetResult(connection);
	return true;
}

/* Look at one result. */
static bool
take_result(const PGresult *result, ReadRows read, void *reader,
			RegistryFailure *failure)
{
	switch (PQresultStatus(result))
	{
		case PGRES_SINGLE_TUPLE:
		case PGRES_TUPLES_OK:
			return read(reader, result);
		case PGRES_COMMAND_OK:
			return true;
		case PGRES_FATAL_ERROR:
			note_error(result, failure);
			return false;
		default:
			return registry_fail(failure, REGISTRY_INVALID,
								 INVALID_ANSWER "it is none to a query");
	}
}

/*
 * Execute statements, which have TIMEOUT_MS together, and read the rows of the one that
 * gives rows.  After a failure the connection is of no more use.
 */
static bool
execute(const char *statements, ReadRows read, void *reader,
		RegistryFailure *failure)
{
	PGresult *result = NULL;
	bool	  good;

	set_deadline(TIMEOUT_MS);
	good = send_statements(statements, failure);
	while (good && (good = next_result(&result, failure)) && result != NULL)
	{
		/* results that are there already are not waited for */
		good = steady_clock_us() < deadline_us ?
				   take_result(result, read, reader, failure) :
				   note_timeout(failure);
		PQclear(result);
	}
	return good;
}

/* --- The connection ----------------------------------------------------- */

static void
ignore_notice(void *arg, const PGresult *notice)
{
}

static bool
read_schema(void *unused, const PGresult *rows)
{
	if (PQnfields(rows) == 1 && PQntuples(rows) == 1 &&
		strlcpy(schema, PQgetvalue(rows, 0, 0), sizeof(schema)) >=
			sizeof(schema))
		schema[0] = '\0';
	return true;
}

/*
 * Find the extension, so that no other function of that name is called.  The
 * search_path may be that of whoever owns the registry's database.
 */
static bool
find_schema(RegistryFailure *failure)
{
	schema[0] = '\0';
	if (!execute("SELECT extnamespace::pg_catalog.regnamespace "
				 "FROM pg_catalog.pg_extension "
				 "WHERE extname OPERATOR(pg_catalog.=) 'snowflake_registry' "
				 "LIMIT 1",
				 read_schema, NULL, failure))
		return false;
	if (schema[0] != '\0')
		return true;
	(void) registry_fail(failure, REGISTRY_REFUSED,
						 "the registry's database \"%s\" has no extension "
						 "snowflake_registry",
						 PQdb(connection));
	registry_hint(failure,
				  "Name the registry's database by \"dbname\" in "
				  "\"snowflake.registry\". If it is \"%s\", run CREATE "
				  "EXTENSION snowflake_registry there.",
				  PQdb(connection));
	return false;
}

/* Connect to one host of the connection string. */
static bool
connect_to_host(const PQconninfoOption *options, int host, int ms,
				RegistryFailure *failure)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	set_deadline(ms);
	connection = conninfo_start_connecting(options, host, ms);
	if (connection == NULL)
		elog(ERROR, "out of memory");
	(void) PQsetNoticeReceiver(connection, ignore_notice, NULL);
	while (PQstatus(connection) != CONNECTION_BAD &&
		   status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED)
	{
		if (!wait_for_socket(status == PGRES_POLLING_READING ?
								 WL_SOCKET_READABLE :
								 WL_SOCKET_WRITEABLE))
			return note_timeout(failure);
		status = PQconnectPoll(connection);
	}
	if (PQstatus(connection) == CONNECTION_OK &&
		PQsetnonblocking(connection, 1) == 0)
		return true;
	return note_unreachable(failure);
}

/* Connect to the host that answered last, or to the next one that answers. */
static bool
connect_to_any(const PQconninfoOption *options, RegistryFailure *failure)
{
	int hosts = conninfo_count_hosts(options);

	for (int i = 0; i < hosts; i++)
	{
		int host = (good_host + i) % hosts;

		if (connect_to_host(options, host,
							Min(TIMEOUT_MS, HOSTS_TIMEOUT_MS / hosts),
							failure))
		{
			good_host = host;
			failure->kind = REGISTRY_ANSWERED;
			return true;
		}
		PQfinish(connection);
		connection = NULL;
	}
	return false;
}

bool
registry_connect(RegistryFailure *failure)
{
	PQconninfoOption *options = conninfo_parse(settings_registry());
	bool			  good;

	if (options == NULL)
		elog(ERROR, "invalid connection string of the registry");
	limit_memory();
	good = connect_to_any(options, failure);
	PQconninfoFree(options);
	return good && find_schema(failure);
}

/*
 * A signal or a session may have woken the worker while it waited here.  It looks
 * for what that means before it sleeps.
 */
void
registry_disconnect(void)
{
	PQfinish(connection);
	connection = NULL;
	(void) setrlimit(RLIMIT_DATA, &unlimited);
	SetLatch(MyLatch);
}

/* --- Calls -------------------------------------------------------------- */

/* This server, as people know it. */
static char *
name_of_server(void)
{
	char host[IDENTITY_HOST_SIZE] = "";

	(void) gethostname(host, sizeof(host) - 1);
	return cluster_name[0] == '\0' ?
			   psprintf("%s:%d", host, PostPortNumber) :
			   psprintf("%s at %s:%d", cluster_name, host, PostPortNumber);
}

static void
append_text(StringInfo arguments, const char *text)
{
	char *quoted = PQescapeLiteral(connection, text, strlen(text));

	if (quoted == NULL)
		elog(ERROR, "out of memory");
	appendStringInfo(arguments, "%s::text", quoted);
	PQfreemem(quoted);
}

/* Call a function in a transaction of its own. */
static char *
format_call(const char *function, const LeaseCaller *caller,
			const char *arguments)
{
	return psprintf("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
					"SET LOCAL search_path = pg_catalog, pg_temp; "
					"SET LOCAL statement_timeout = %d; "
					"SELECT %s FROM %s.%s(holder => '%s'::text, "
					"fence => bigint '" INT64_FORMAT
					"', next => bigint '" INT64_FORMAT
					"', confirmed => bigint '" INT64_FORMAT
					"', registry => nullif('%s', '%s')::text, %s); COMMIT",
					TIMEOUT_MS, registry_answer_columns, schema, function,
					number_text(caller->holder), caller->fence, caller->next,
					caller->confirmed, number_text(caller->registry),
					number_text(0), arguments);
}

/* What both functions are told besides who calls: which server it is. */
static void
begin_arguments(StringInfo arguments)
{
	initStringInfo(arguments);
	appendStringInfoString(arguments, "host => ");
	append_text(arguments, name_of_server());
	appendStringInfoString(arguments, ", layout => ");
	append_text(arguments, settings_layout_text());
	appendStringInfo(arguments, ", last_shard => " INT64_FORMAT,
					 layout_last_shard(settings_layout()));
}

static void
append_shards(StringInfo arguments, const char *name, const int32 *shard,
			  int count)
{
	appendStringInfo(arguments, ", %s => '{", name);
	for (int i = 0; i < count; i++)
		appendStringInfo(arguments, "%s%d", i == 0 ? "" : ",", shard[i]);
	appendStringInfoString(arguments, "}'::int[]");
}

/* The shards of leases. */
static void
append_leases(StringInfo arguments, const char *name, const Lease *lease,
			  int count)
{
	int32 *shard = palloc(count * sizeof(int32));

	for (int i = 0; i < count; i++)
		shard[i] = lease[i].shard;
	append_shards(arguments, name, shard, count);
}

/* The times of leases that are at this offset in them. */
static void
append_times(StringInfo arguments, const char *name, const Lease *lease,
			 int count, size_t offset)
{
	appendStringInfo(arguments,
					 ", %s => ARRAY(SELECT timestamptz 'epoch' + us * interval "
					 "'1 microsecond' FROM unnest('{",
					 name);
	for (int i = 0; i < count; i++)
		appendStringInfo(arguments, "%s" INT64_FORMAT, i == 0 ? "" : ",",
						 *(const TimestampTz *) ((const char *) &lease[i] +
												 offset) -
							 UNIX_EPOCH_US);
	appendStringInfoString(arguments,
						   "}'::bigint[]) WITH ORDINALITY AS t (us, "
						   "place) ORDER BY place)");
}

/*
 * Renew the leases of the shards that are held, and lease what snowflake.shards
 * asks for beyond that; with "auto", shards that are known before others.
 */
char *
registry_lease_arguments(const Lease *held, int nheld, const Lease *known,
						 int nknown)
{
	const OwnShards *asked = settings_asked_shards;
	StringInfoData	 arguments;

	begin_arguments(&arguments);
	append_leases(&arguments, "held", held, nheld);
	append_times(&arguments, "held_from", held, nheld, offsetof(Lease, from));
	append_times(&arguments, "held_until", held, nheld,
				 offsetof(Lease, until));
	if (asked->automatic > 0)
		appendStringInfo(&arguments, ", wanted => NULL::int[], auto => %d",
						 asked->automatic);
	else
	{
		append_shards(&arguments, "wanted", asked->shard, asked->count);
		appendStringInfoString(&arguments, ", auto => NULL::int");
	}
	append_leases(&arguments, "preferred", known, nknown);
	appendStringInfo(&arguments, ", lease => interval '%d ms'",
					 settings_lease_ms);
	return arguments.data;
}

/* Give leases back; each "until" is where it is to end. */
char *
registry_release_arguments(const Lease *leases, int nleases)
{
	StringInfoData arguments;

	begin_arguments(&arguments);
	append_leases(&arguments, "shards", leases, nleases);
	append_times(&arguments, "ends", leases, nleases, offsetof(Lease, until));
	return arguments.data;
}

/* Call a function, and read its answer. */
bool
registry_call(const char *function, const LeaseCaller *caller,
			  const char *arguments, RegistryAnswer *answer,
			  RegistryFailure *failure)
{
	AnswerReader reader;

	registry_answer_begin(&reader, answer,
						  layout_last_shard(settings_layout()), failure);
	if (execute(format_call(function, caller, arguments), registry_answer_read,
				&reader, failure))
		return registry_answer_end(&reader);
	if (failure->kind == REGISTRY_CLOSED)
		registry_hint(failure,
					  "Run SELECT %s.snowflake_registry_open('...') in "
					  "database \"%s\" of the registry's server, with the "
					  "longest \"snowflake.lease\" of all servers, or '0' if "
					  "no server ever leased a shard.",
					  schema, PQdb(connection));
	return false;
}
