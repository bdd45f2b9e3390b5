/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  A client of the registry of leases.
 *
 * The registry is extension snowflake_registry in a database that all servers
 * reach.  The worker that leases shards talks to it by libpq.  Calls are minutes
 * apart, so each has a connection of its own.
 *
 * Nothing here waits without a deadline, and every wait ends when the postmaster
 * dies.  (One thing cannot be timed: libpq asks for the address of a host's name
 * and waits for the answer.)  A request to shut down shortens the waiting, and
 * does not end it: what an answer that is lost would say is worth two seconds.
 *
 * All of this is private to the worker: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "lib/stringinfo.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "identity.h"
#include "layout.h"
#include "registry.h"
#include "settings.h"
#include "wait.h"

#define US_PER_MS INT64CONST(1000)

/* For the connection, and for each call. */
#define TIMEOUT_MS 5000

/* What is left of that when the server shuts down. */
#define SHUTDOWN_MS 2000

/* A Unix time in microseconds, less this, is a TimestampTz. */
#define UNIX_EPOCH_US \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

/* A TimestampTz in SQL that any registry understands, as a Unix time. */
#define MICROSECONDS(column) \
	"(extract(epoch FROM " column ") * 1000000)::bigint"

enum LeaseColumns
{
	COLUMN_STATE,
	COLUMN_SHARD,
	COLUMN_FROM,
	COLUMN_UNTIL,
	COLUMN_OTHER
};

static PGconn *connection = NULL;
static char	   schema[2 * NAMEDATALEN + 3]; /* of the extension, quoted */
static int64   deadline_us;

/*-------------------------------------------------------------------------
 * Waiting
 *-------------------------------------------------------------------------
 */

/* Wait for the connection's socket.  False if that took too long. */
static bool
wait_for_socket(int event)
{
	int64 left_us;
	int	  events;

	if (ShutdownRequestPending)
		deadline_us =
			Min(deadline_us, steady_clock_us() + SHUTDOWN_MS * US_PER_MS);
	left_us = deadline_us - steady_clock_us();
	if (left_us <= 0)
		return false;
	events = WaitLatchOrSocket(MyLatch,
							   WL_LATCH_SET | WL_TIMEOUT |
								   WL_EXIT_ON_PM_DEATH | event,
							   PQsocket(connection), left_us / US_PER_MS + 1,
							   PG_WAIT_EXTENSION);
	if (events & WL_LATCH_SET)
	{
		/* the worker looks for what it means when the call has ended */
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/* The first line of an error of libpq's. */
static char *
first_line(const char *message)
{
	return pnstrdup(message, strcspn(message, "\n"));
}

/* Note why nothing can be done, and return false. */
static bool pg_attribute_printf(3, 4)
	fail(RegistryFailure *failure, RegistryFailureKind kind,
		 const char *format, ...)
{
	va_list arguments;

	*failure = (RegistryFailure){.kind = kind};
	va_start(arguments, format);
	vsnprintf(failure->text, sizeof(failure->text), format, arguments);
	va_end(arguments);
	return false;
}

static bool
note_unreachable(RegistryFailure *failure)
{
	return fail(failure, REGISTRY_AWAY, "could not reach the registry: %s",
				first_line(PQerrorMessage(connection)));
}

static bool
note_timeout(RegistryFailure *failure)
{
	return fail(failure, REGISTRY_SILENT,
				"the registry did not answer within %d s", TIMEOUT_MS / 1000);
}

/*-------------------------------------------------------------------------
 * Statements
 *-------------------------------------------------------------------------
 */

/* What the registry's server says of an error, and why. */
static void
note_error(const PGresult *result, RegistryFailure *failure)
{
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);

	if (message == NULL)
		(void) note_unreachable(failure);
	else
		(void) fail(failure, REGISTRY_REFUSED, "the registry refused: %s%s%s",
					message, detail != NULL ? ". " : "",
					detail != NULL ? detail : "");
}

/* Wait for the next result; *result is NULL after the last one. */
static bool
next_result(PGresult **result, RegistryFailure *failure)
{
	while (PQisBusy(connection))
	{
		if (!wait_for_socket(WL_SOCKET_READABLE))
			return note_timeout(failure);
		if (!PQconsumeInput(connection))
			return note_unreachable(failure);
	}
	*result = PQgetResult(connection);
	return true;
}

static bool
send_statements(const char *statements, RegistryFailure *failure)
{
	int unsent;

	deadline_us = steady_clock_us() + TIMEOUT_MS * US_PER_MS;
	if (!PQsendQuery(connection, statements))
		return note_unreachable(failure);
	while ((unsent = PQflush(connection)) != 0)
	{
		if (unsent < 0)
			return note_unreachable(failure);
		if (!wait_for_socket(WL_SOCKET_WRITEABLE))
			return note_timeout(failure);
	}
	return true;
}

/*
 * Execute statements.  The rows of the one that gives rows are the result; NULL,
 * with the reason, if one fails, or if there is no answer.
 */
static PGresult *
execute(const char *statements, RegistryFailure *failure)
{
	PGresult *rows = NULL;
	PGresult *result = NULL;
	bool	  good = send_statements(statements, failure);

	while (good && (good = next_result(&result, failure)) && result != NULL)
	{
		switch (PQresultStatus(result))
		{
			case PGRES_TUPLES_OK:
				PQclear(rows);
				rows = result;
				break;
			case PGRES_COMMAND_OK:
				PQclear(result);
				break;
			default:
				note_error(result, failure);
				PQclear(result);
				good = false;
		}
	}
	if (good && rows != NULL)
		return rows;
	PQclear(rows);
	return NULL;
}

/* Call a function in a transaction of its own. */
static PGresult *
call_function(const char *columns, const char *call, RegistryFailure *failure)
{
	StringInfoData statements;

	initStringInfo(&statements);
	appendStringInfo(&statements,
					 "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; "
					 "SET LOCAL statement_timeout = %d; "
					 "SELECT %s FROM %s.%s; COMMIT",
					 TIMEOUT_MS, columns, schema, call);
	return execute(statements.data, failure);
}

/*-------------------------------------------------------------------------
 * The connection
 *-------------------------------------------------------------------------
 */

static void
ignore_notice(void *arg, const char *message)
{
}

/* Find the extension, so that no other function of that name is called. */
static bool
find_schema(RegistryFailure *failure)
{
	PGresult *rows = execute("SELECT pg_catalog.quote_ident(nspname) "
							 "FROM pg_catalog.pg_extension "
							 "JOIN pg_catalog.pg_namespace AS n "
							 "ON n.oid = extnamespace "
							 "WHERE extname = 'snowflake_registry'",
							 failure);
	bool	  found = rows != NULL && PQntuples(rows) == 1;

	if (found)
		strlcpy(schema, PQgetvalue(rows, 0, 0), sizeof(schema));
	else if (rows != NULL)
		(void) fail(failure, REGISTRY_REFUSED,
					"the registry's database has no extension "
					"snowflake_registry");
	PQclear(rows);
	return found;
}

bool
registry_connect(RegistryFailure *failure)
{
	/* what the connection string says comes later, and so counts */
	const char *const keywords[] = {"tcp_user_timeout",
									"fallback_application_name", "dbname",
									NULL};
	const char *const values[] = {CppAsString2(TIMEOUT_MS), "snowflake lease",
								  settings_registry(), NULL};
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;

	deadline_us = steady_clock_us() + TIMEOUT_MS * US_PER_MS;
	connection = PQconnectStartParams(keywords, values, true);
	if (connection == NULL)
		elog(ERROR, "out of memory");
	while (PQstatus(connection) != CONNECTION_BAD &&
		   status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED)
	{
		if (!wait_for_socket(status == PGRES_POLLING_READING ?
								 WL_SOCKET_READABLE :
								 WL_SOCKET_WRITEABLE))
			return note_timeout(failure);
		status = PQconnectPoll(connection);
	}
	if (PQstatus(connection) != CONNECTION_OK ||
		PQsetnonblocking(connection, 1) != 0)
		return note_unreachable(failure);
	(void) PQsetNoticeProcessor(connection, ignore_notice, NULL);
	return find_schema(failure);
}

void
registry_disconnect(void)
{
	PQfinish(connection);
	connection = NULL;
}

/*-------------------------------------------------------------------------
 * Calls
 *-------------------------------------------------------------------------
 */

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
	appendStringInfoString(arguments, quoted);
	PQfreemem(quoted);
}

/* What both functions of the registry are told first: who calls. */
static char *
format_call(const char *function, const RegistryCaller *caller,
			const char *arguments)
{
	char holder[IDENTITY_NUMBER_SIZE];

	identity_format_number(caller->holder, holder);
	return psprintf("%s('%s', " INT64_FORMAT ", " INT64_FORMAT ", %s)",
					function, holder, caller->fence, caller->next, arguments);
}

/* And then: which server it is. */
static void
begin_arguments(StringInfo arguments)
{
	const Layout *layout = settings_layout();
	char		  layout_text[LAYOUT_TEXT_SIZE];

	layout_format(layout, layout_text, sizeof(layout_text));
	initStringInfo(arguments);
	append_text(arguments, name_of_server());
	appendStringInfoString(arguments, ", ");
	append_text(arguments, layout_text);
	appendStringInfo(arguments, ", " INT64_FORMAT, layout_last_shard(layout));
}

static void
append_shards(StringInfo arguments, const int32 *shard, int count)
{
	appendStringInfoString(arguments, ", '{");
	for (int i = 0; i < count; i++)
		appendStringInfo(arguments, "%s%d", i == 0 ? "" : ",", shard[i]);
	appendStringInfoString(arguments, "}'");
}

/* The shards of leases. */
static void
append_leases(StringInfo arguments, const Lease *lease, int count)
{
	int32 *shard = palloc(Max(count, 1) * sizeof(int32));

	for (int i = 0; i < count; i++)
		shard[i] = lease[i].shard;
	append_shards(arguments, shard, count);
}

/* The times of leases that are at this offset in them. */
static void
append_times(StringInfo arguments, const Lease *lease, int count,
			 size_t offset)
{
	appendStringInfoString(arguments, ", ARRAY[");
	for (int i = 0; i < count; i++)
		appendStringInfo(arguments,
						 "%stimestamptz 'epoch' + " INT64_FORMAT
						 " * interval '1 microsecond'",
						 i == 0 ? "" : ", ",
						 *(const TimestampTz *) ((const char *) &lease[i] +
												 offset) +
							 UNIX_EPOCH_US);
	appendStringInfoString(arguments, "]::timestamptz[]");
}

static TimestampTz
time_in(const PGresult *rows, int row, int column, TimestampTz if_null)
{
	return PQgetisnull(rows, row, column) ?
			   if_null :
			   strtoll(PQgetvalue(rows, row, column), NULL, 10) -
				   UNIX_EPOCH_US;
}

static int32
shard_in(const PGresult *rows, int row)
{
	return (int32) strtol(PQgetvalue(rows, row, COLUMN_SHARD), NULL, 10);
}

/* A name of another server, with nothing in it that is not to be printed. */
static void
copy_other(char *other, const PGresult *rows, int row)
{
	strlcpy(other, PQgetvalue(rows, row, COLUMN_OTHER), HELD_OTHER_SIZE);
	for (; *other != '\0'; other++)
	{
		if (*other < ' ' || *other >= 0x7f)
			*other = '?';
	}
}

static void
read_refusal(RegistryAnswer *answer, const PGresult *rows, int row,
			 RefusalKind kind)
{
	Refusal *refusal = &answer->refusal[answer->refusals];

	if (answer->refusals == HELD_MAX_REFUSALS)
		return;
	answer->refusals++;
	refusal->kind = kind;
	refusal->shard =
		PQgetisnull(rows, row, COLUMN_SHARD) ? HELD_ANY : shard_in(rows, row);
	refusal->until = time_in(rows, row, COLUMN_UNTIL, DT_NOEND);
	copy_other(refusal->other, rows, row);
}

static void
read_lease(RegistryAnswer *answer, const PGresult *rows, int row)
{
	answer->lease[answer->held++] =
		(Lease){.shard = shard_in(rows, row),
				.from = time_in(rows, row, COLUMN_FROM, DT_NOEND),
				.until = time_in(rows, row, COLUMN_UNTIL, DT_NOBEGIN)};
}

static void
read_row(RegistryAnswer *answer, const PGresult *rows, int row)
{
	static const char *const refusals[] = {
		[REFUSED_TAKEN] = "taken",
		[REFUSED_FENCED] = "fenced",
		[REFUSED_RESERVED] = "reserved",
		[REFUSED_EXHAUSTED] = "exhausted",
	};
	const char *row_state = PQgetvalue(rows, row, COLUMN_STATE);

	for (size_t kind = 0; kind < lengthof(refusals); kind++)
	{
		if (strcmp(row_state, refusals[kind]) == 0)
		{
			read_refusal(answer, rows, row, (RefusalKind) kind);
			return;
		}
	}
	if (strcmp(row_state, "held") == 0)
		read_lease(answer, rows, row);
	else
	{
		answer->now = time_in(rows, row, COLUMN_UNTIL, 0);
		answer->is_clone = strcmp(row_state, "clone") == 0;
		copy_other(answer->clone, rows, row);
	}
}

/*
 * Renew the leases of the shards that are held, and lease what snowflake.shards
 * asks for beyond that.
 */
char *
registry_lease_arguments(const Lease *held, int nheld, const int32 *preferred,
						 int npreferred)
{
	const OwnShards *asked = settings_asked_shards;
	StringInfoData	 arguments;

	begin_arguments(&arguments);
	append_leases(&arguments, held, nheld);
	append_times(&arguments, held, nheld, offsetof(Lease, from));
	append_times(&arguments, held, nheld, offsetof(Lease, until));
	if (asked->automatic > 0)
		appendStringInfo(&arguments, ", NULL, %d", asked->automatic);
	else
	{
		append_shards(&arguments, asked->shard, asked->count);
		appendStringInfoString(&arguments, ", NULL");
	}
	append_shards(&arguments, preferred, npreferred);
	appendStringInfo(&arguments, ", '%d ms'", settings_lease_ms());
	return arguments.data;
}

/* The leases are of shards of this layout, each once, in ascending order. */
static bool
check_leases(const RegistryAnswer *answer, RegistryFailure *failure)
{
	int32 before = -1;

	for (int i = 0; i < answer->held; i++)
	{
		int32 shard = answer->lease[i].shard;

		if (shard <= before || shard > layout_last_shard(settings_layout()))
		{
			return fail(failure, REGISTRY_INVALID,
						"the registry's answer is not valid: "
						"it leases shard %d after shard %d",
						shard, before);
		}
		before = shard;
	}
	return true;
}

/*
 * Call one of the two functions.  The registry does not tell its number, what it
 * lost, and what it reserved.
 */
static bool
call_registry(const char *function, const RegistryCaller *caller,
			  const char *arguments, RegistryAnswer *answer,
			  RegistryFailure *failure, const char *columns)
{
	PGresult *rows =
		call_function(columns, format_call(function, caller, arguments),
					  failure);

	if (rows == NULL)
		return false;
	memset(answer, 0, sizeof(*answer));
	answer->lease = palloc(PQntuples(rows) * sizeof(Lease));
	for (int row = 0; row < PQntuples(rows); row++)
		read_row(answer, rows, row);
	PQclear(rows);
	return check_leases(answer, failure);
}

bool
registry_lease(const RegistryCaller *caller, const char *arguments,
			   RegistryAnswer *answer, RegistryFailure *failure)
{
	return call_registry(
		"snowflake_registry_lease", caller, arguments, answer, failure,
		"state, shard, " MICROSECONDS("lease_from") ", " MICROSECONDS(
			"lease_until") ", other");
}

/* Give leases back; each "until" is where it is to end. */
char *
registry_release_arguments(const Lease *leases, int nleases)
{
	StringInfoData arguments;

	begin_arguments(&arguments);
	append_leases(&arguments, leases, nleases);
	append_times(&arguments, leases, nleases, offsetof(Lease, until));
	return arguments.data;
}

bool
registry_release(const RegistryCaller *caller, const char *arguments,
				 RegistryAnswer *answer, RegistryFailure *failure)
{
	return call_registry(
		"snowflake_registry_release", caller, arguments, answer, failure,
		"CASE WHEN snowflake_registry_release THEN 'accepted' ELSE 'clone' END, NULL, NULL, NULL, ''");
}
