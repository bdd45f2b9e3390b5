/*-------------------------------------------------------------------------
 *
 * registry_libpq.h
 *	  A libpq below registry.c, for registry_cases.c: hosts and servers do what the cases
 *	  tell them, and each use of libpq is compared with what its documentation allows.
 *
 *-------------------------------------------------------------------------
 */
#include "registry_system.h"

/* --- libpq: what hosts and servers do -------------------------------------- */

typedef struct Host
{
	const char *name;

	/* what PQconnectPoll() gives: reading, writing, ok, failed; "": it fails at once */
	const char *steps;
	int64		step_us;
	bool		fills_time; /* all steps take what it has, and step_us */
	bool		is_vague;	/* only PQconnectPoll() says that it failed */
	bool		is_blocking;
	bool		needs_password;
	const char *message;

	/* what is told of it then; NULL: it answers */
	const char *text;
	const char *hint;
} Host;

struct pg_result
{
	ExecStatusType status;
	int			   columns;
	int			   rows;
	const char	  *cell[5];
	const char	  *message;
	const char	  *detail;
	const char	  *state;
	const char	  *context;
};

/* What a server does with statements. */
typedef struct Talk
{
	bool			is_refused; /* PQsendQuery() fails */
	bool			is_whole;	/* it will not give row by row */
	int				flushes;	/* it takes so many more to send */
	bool			breaks_sending;
	int				count;
	const PGresult *result;
	bool			repeats; /* the first result again and again */
	int				pieces;	 /* of each result, and of the end */
	int64			piece_us;
	int64			cost_us;   /* to get a result that is there */
	int				breaks_at; /* this result, counted from 1 */
	int				notifies;  /* with each piece */
} Talk;

struct pg_conn
{
	bool			 is_open;
	const Host		*host;
	int				 step;
	int64			 step_us;
	ConnStatusType	 status;
	PQnoticeReceiver receiver;
	const Talk		*talk;
	int				 talks;
	int				 flushes;
	int				 results;
	int				 pieces;
	int				 notifies;
	bool			 is_single;
	const char		*message;
};

#define MAX_HOSTS 16

static struct pg_conn connections[2 * MAX_HOSTS];
static int			  connects; /* so far */
static int			  asked[2 * MAX_HOSTS];
static int			  open_connections;
static int			  open_results;
static int			  allocated; /* by libpq */
static int			  uses;
static bool			  is_unparsed; /* the connection string */
static bool			  has_no_memory;
static int			  host_count;
static const Host	 *host_at[MAX_HOSTS];
static int			  host_ms;	  /* each host is to have */
static const Talk	 *talk_at[2]; /* about the schema, and the call */
static char			  sent[2][8192];

static PQconninfoOption option;
static int				open_options;

PQconninfoOption *
conninfo_parse(const char *text)
{
	CHECK(strcmp(text, "the connection string") == 0);
	open_options += !is_unparsed;
	return is_unparsed ? NULL : &option;
}

void
PQconninfoFree(PQconninfoOption *options)
{
	CHECK(options == &option);
	open_options--;
}

int
conninfo_count_hosts(const PQconninfoOption *options)
{
	CHECK(options == &option);
	return host_count;
}

static void
await(int event, int64 us)
{
	awaited = event;
	ready_us = now_us + us;
}

PGconn *
conninfo_start_connecting(const PQconninfoOption *options, int host, int ms)
{
	PGconn *conn = &connections[connects];

	CHECK(options == &option && open_options == 1);
	CHECK(host >= 0 && host < host_count && connects < lengthof(connections));
	CHECK(ms == host_ms);
	CHECK(open_connections == 0);
	if (has_no_memory)
		return NULL;
	*conn = (PGconn){.is_open = true, .host = host_at[host]};
	asked[connects++] = host;
	open_connections++;
	end_us = now_us + ms * INT64CONST(1000);
	conn->step_us = conn->host->step_us;
	if (conn->host->fills_time)
		conn->step_us = (ms * INT64CONST(1000) + conn->host->step_us) /
						(int) strlen(conn->host->steps);
	conn->message = conn->host->message ? conn->host->message : "";
	conn->status =
		conn->host->steps[0] == '\0' ? CONNECTION_BAD : CONNECTION_STARTED;
	await(WL_SOCKET_WRITEABLE, conn->step_us);
	return conn;
}

/* Nothing is asked of a connection that is not there, and nothing for ever. */
static PGconn *
used(const PGconn *conn)
{
	CHECK(conn != NULL && conn->is_open && ++uses < 20000);
	return (PGconn *) conn;
}

void
PQfinish(PGconn *conn)
{
	if (conn == NULL)
		return;
	used(conn)->is_open = false;
	open_connections--;
}

PostgresPollingStatusType
PQconnectPoll(PGconn *conn)
{
	char step = used(conn)->host->steps[conn->step++];

	CHECK(conn->status == CONNECTION_STARTED && step != '\0');
	CHECK(now_us >= ready_us);
	CHECK(conn->receiver != NULL); /* or notices would go to stderr */
	conn->receiver(NULL, NULL);
	await(step == 'r' ? WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE,
		  conn->step_us);
	if (step == 'o')
		conn->status = CONNECTION_OK;
	if (step == 'f' && !conn->host->is_vague)
		conn->status = CONNECTION_BAD;
	return step == 'r' ? PGRES_POLLING_READING :
		   step == 'w' ? PGRES_POLLING_WRITING :
		   step == 'o' ? PGRES_POLLING_OK :
						 PGRES_POLLING_FAILED;
}

ConnStatusType
PQstatus(const PGconn *conn)
{
	return used(conn)->status;
}

int
PQsocket(const PGconn *conn)
{
	return used(conn)->status == CONNECTION_BAD ? -1 : OUR_SOCKET;
}

int
PQsetnonblocking(PGconn *conn, int set)
{
	CHECK(set == 1);
	return used(conn)->host->is_blocking ? -1 : 0;
}

PQnoticeReceiver
PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver receiver, void *arg)
{
	used(conn)->receiver = receiver;
	return NULL;
}

char *
PQerrorMessage(const PGconn *conn)
{
	return (char *) used(conn)->message;
}

int
PQconnectionNeedsPassword(const PGconn *conn)
{
	return used(conn)->host->needs_password;
}

char *
PQhost(const PGconn *conn)
{
	return (char *) used(conn)->host->name;
}

char *
PQuser(const PGconn *conn)
{
	used(conn);
	return "ids";
}

char *
PQdb(const PGconn *conn)
{
	used(conn);
	return "leases";
}

/* --- libpq: statements and results ----------------------------------------- */

#define BROKEN "server closed the connection unexpectedly"

static int
breaks(PGconn *conn, int result)
{
	conn->message = BROKEN "\n\tThe server terminated abnormally.\n";
	return result;
}

int
PQsendQuery(PGconn *conn, const char *statements)
{
	CHECK(used(conn)->status == CONNECTION_OK);
	CHECK(conn->talks < lengthof(talk_at));
	strlcpy(sent[conn->talks], statements, sizeof(sent[0]));
	conn->talk = talk_at[conn->talks++];
	conn->flushes = conn->talk->flushes;
	conn->results = 0;
	conn->pieces = conn->talk->pieces;
	conn->is_single = false;
	end_us = now_us + 5 * SECOND;
	return conn->talk->is_refused ? breaks(conn, 0) : 1;
}

int
PQsetSingleRowMode(PGconn *conn)
{
	conn->is_single = !used(conn)->talk->is_whole;
	return conn->is_single ? 1 : breaks(conn, 0);
}

int
PQflush(PGconn *conn)
{
	if (used(conn)->flushes == 0)
		return conn->talk->breaks_sending ? breaks(conn, -1) : 0;
	CHECK(conn->flushes == conn->talk->flushes || now_us >= ready_us);
	conn->flushes--;
	await(WL_SOCKET_WRITEABLE, conn->talk->piece_us);
	return 1;
}

int
PQisBusy(PGconn *conn)
{
	CHECK(used(conn)->is_single && conn->flushes == 0);
	if (conn->pieces > 0)
		await(WL_SOCKET_READABLE, conn->talk->piece_us);
	return conn->pieces > 0;
}

int
PQconsumeInput(PGconn *conn)
{
	CHECK(used(conn)->pieces > 0 && now_us >= ready_us);
	conn->pieces--;
	conn->notifies = conn->talk->notifies;
	conn->receiver(NULL, NULL);
	if (conn->talk->breaks_at == conn->results + 1)
		return breaks(conn, 0);
	return 1;
}

PGnotify *
PQnotifies(PGconn *conn)
{
	if (used(conn)->notifies == 0)
		return NULL;
	conn->notifies--;
	allocated++;
	return malloc(sizeof(PGnotify));
}

PGresult *
PQgetResult(PGconn *conn)
{
	const Talk	   *talk = used(conn)->talk;
	const PGresult *result;

	CHECK(conn->pieces == 0);
	CHECK(open_results == 0); /* or the memory is not limited */
	CHECK(conn->notifies == 0);
	now_us += talk->cost_us;
	if (conn->results == talk->count)
		return NULL;
	result = &talk->result[talk->repeats ? 0 : conn->results];
	conn->pieces = talk->pieces;
	conn->results++;
	open_results++;
	if (result->status == PGRES_FATAL_ERROR)
		breaks(conn, 0);
	return (PGresult *) result;
}

void
PQclear(PGresult *result)
{
	open_results -= result != NULL;
}

ExecStatusType
PQresultStatus(const PGresult *result)
{
	CHECK(result == NULL || now_us < end_us); /* else it comes too late */
	return result != NULL ? result->status : PGRES_FATAL_ERROR;
}

char *
PQresultErrorField(const PGresult *result, int field)
{
	return (char *) (result == NULL					  ? NULL :
					 field == PG_DIAG_MESSAGE_PRIMARY ? result->message :
					 field == PG_DIAG_MESSAGE_DETAIL  ? result->detail :
					 field == PG_DIAG_SQLSTATE		  ? result->state :
					 field == PG_DIAG_CONTEXT		  ? result->context :
														NULL);
}

int
PQntuples(const PGresult *result)
{
	return result->rows;
}

int
PQnfields(const PGresult *result)
{
	return result->columns;
}

char *
PQgetvalue(const PGresult *result, int row, int column)
{
	CHECK(row < result->rows && column < result->columns);
	return (char *) (result->cell[column] ? result->cell[column] : "");
}

int
PQgetisnull(const PGresult *result, int row, int column)
{
	return result->cell[column] == NULL;
}

int
PQgetlength(const PGresult *result, int row, int column)
{
	return strlen(PQgetvalue(result, row, column));
}

int
PQfformat(const PGresult *result, int column)
{
	return 0;
}

/* How a text is quoted, libpq alone knows. */
char *
PQescapeLiteral(PGconn *conn, const char *text, size_t length)
{
	char *quoted = NULL;

	CHECK(length == strlen(text));
	used(conn);
	if (!has_no_memory && asprintf(&quoted, "<%s>", text) >= 0)
		allocated++;
	return quoted;
}

void
PQfreemem(void *memory)
{
	allocated -= memory != NULL;
	free(memory);
}

/* --- Hosts and servers that there can be --------------------------------------------- */

#define AWAY(why) "could not reach the registry: " why

static const Host hosts[] = {
	{"good", "rrwro", 1000},
	{"silent", "o", MINUTE},
	{"slow", "ro", -2, .fills_time = true},
	{"late", "wo", 4000, .fills_time = true},
	{"down", "", .message = "connection refused\n\tIs it running?\n",
	 .text = AWAY("connection refused"), .hint = ""},
	{"standby", "rwrf", 1000, .message = "server is in hot standby mode\n",
	 .text = AWAY("server is in hot standby mode"), .hint = ""},
	{"blocking", "o", 1000, .is_blocking = true,
	 .message = "could not set it\n", .text = AWAY("could not set it"),
	 .hint = ""},
	{"vague", "rf", 1000, .is_vague = true, .needs_password = true,
	 .message = "no password supplied", .text = AWAY("no password supplied"),
	 .hint = "Put the password of role \"ids\" into the file .pgpass of this "
			 "server's operating-system user, or name another file by "
			 "\"passfile\" in \"snowflake.registry\"."},
};

#define HOST_CASES 8
#define GOOD (&hosts[0])
#define SILENT (&hosts[1])

#define SCHEMA "\"the schema\""

#define ASKS_SCHEMA                                 \
	"SELECT extnamespace::pg_catalog.regnamespace " \
	"FROM pg_catalog.pg_extension "                 \
	"WHERE extname OPERATOR(pg_catalog.=) 'snowflake_registry' LIMIT 1"

static const PGresult schema_results[] = {{PGRES_SINGLE_TUPLE, 1, 1, {SCHEMA}},
										  {PGRES_TUPLES_OK, 1, 0}};

static const Talk tells_schema = {.count = 2, .result = schema_results};

static const PGresult accepted[] = {
	{PGRES_COMMAND_OK},
	{PGRES_SINGLE_TUPLE,
	 5,
	 1,
	 {"accepted", NULL, NULL, "1000", "00000000000000ab"}},
	{PGRES_SINGLE_TUPLE, 5, 1, {"held", "7", "1", "2000", NULL}},
	{PGRES_TUPLES_OK, 5, 0},
	{PGRES_COMMAND_OK}};

static const Talk accepts = {.count = lengthof(accepted), .result = accepted};

/* --- What is included ------------------------------------------------------- */

#include "../../src/lease/registry_answer.c"

bool
shards_parse(const char *text, int64 last_shard, bool *mine,
			 LayoutError *error)
{
	elog(ERROR, "no answer has a list of shards");
}

#undef CHECK_FOR_INTERRUPTS
#define CHECK_FOR_INTERRUPTS() (interrupts++)
#define WaitLatchOrSocket(latch, events, socket, timeout_ms, event) \
	our_wait(latch, events, socket, timeout_ms)
#define SetLatch(latch) (is_latch_set = (latch) == MyLatch)
#define ResetLatch(latch) (is_latch_set = (latch) != MyLatch)
#define ShutdownRequestPending is_stopping
#define getrlimit(what, found) our_getrlimit(what, found)
#define setrlimit(what, set) our_setrlimit(what, set)
#define sysconf(name) ((name) == _SC_PAGESIZE ? PAGE_SIZE_HERE : -1)
#define AllocateFile(name, mode) our_allocate_file(name, mode)
#define FreeFile(file) our_free_file(file)
#define gethostname(name, size) our_gethostname(name, size)
#define cluster_name name_of_cluster
#define PostPortNumber 5433
#define palloc(size) our_palloc(size)

#include "../../src/lease/registry.c"
