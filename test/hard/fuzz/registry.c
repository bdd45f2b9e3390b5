/*-------------------------------------------------------------------------
 *
 * registry.c
 *	  Feed src/lease/registry.c and src/lease/registry_answer.c what a false registry says.
 *
 * libpq is made up: it says and answers what the input's bytes tell.  Whatever
 * that is, a call ends, and ends in a failure that can be printed or in an answer
 * of which all that registry.h promises holds.  A result ends in memory where the
 * sanitizer sees a step beyond it.
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lease/registry.c"
#include "../../../src/lease/registry_answer.c"
#include "../../../src/shards.c"

#define FUZZ_ERRORS
#define palloc server_palloc
#include "server.h"
#undef palloc

#define MAX_BLOCKS 10000

/*-------------------------------------------------------------------------
 * The input
 *-------------------------------------------------------------------------
 */

static const uint8 *input;
static const uint8 *input_end;

static int
next_byte(void)
{
	return input < input_end ? *input++ : 0;
}

/* One of so many: 0, once the input has ended. */
static int
choose(int count)
{
	return next_byte() % count;
}

/*-------------------------------------------------------------------------
 * A server
 *-------------------------------------------------------------------------
 */

static Layout	 layout;
static OwnShards asked = {.automatic = 2};
static int64	 clock_us;
static void		*blocks[MAX_BLOCKS];
static int		 nblocks;

volatile sig_atomic_t ShutdownRequestPending;
volatile sig_atomic_t InterruptPending;
struct Latch		 *MyLatch;
char				 *cluster_name;
int					  PostPortNumber;
const OwnShards		 *settings_asked_shards = &asked;
int					  settings_lease_ms = 600000;

void *
palloc(Size size)
{
	must(nblocks < MAX_BLOCKS && size < 100 * 1024 * 1024);
	return blocks[nblocks++] = malloc(size);
}

void *
palloc0(Size size)
{
	return memset(palloc(size), 0, size);
}

void
pfree(void *block)
{
	for (int i = 0; i < nblocks; i++)
	{
		if (blocks[i] == block)
			blocks[i] = NULL;
	}
	free(block);
}

void *
repalloc_huge(void *block, Size size)
{
	for (int i = 0; i < nblocks; i++)
	{
		if (blocks[i] == block)
			return blocks[i] = realloc(block, size);
	}
	abort();
}

char *
psprintf(const char *format, ...)
{
	va_list arguments;
	char   *text = palloc(100000);

	va_start(arguments, format);
	must(vsnprintf(text, 100000, format, arguments) < 100000);
	va_end(arguments);
	return text;
}

void
initStringInfo(StringInfo text)
{
	*text = (StringInfoData){.data = palloc0(100000), .maxlen = 100000};
}

void
appendStringInfo(StringInfo text, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	text->len += vsnprintf(text->data + text->len, text->maxlen - text->len,
						   format, arguments);
	va_end(arguments);
	must(text->len < text->maxlen);
}

void
appendStringInfoString(StringInfo text, const char *more)
{
	appendStringInfo(text, "%s", more);
}

const Layout *
settings_layout(void)
{
	return &layout;
}

const char *
settings_registry(void)
{
	return "";
}

const char *
settings_layout_text(void)
{
	return "twitter";
}

char *
layout_quote(const char *start, const char *end, char *quote)
{
	snprintf(quote, LAYOUT_QUOTE_SIZE, "%.*s", (int) (end - start), start);
	return quote;
}

char *
number_text(uint64 number)
{
	return psprintf("%016" INT64_MODIFIER "x", number);
}

/* Nobody's time stands still. */
int64
steady_clock_us(void)
{
	return clock_us += 50 * US_PER_MS;
}

int
WaitLatchOrSocket(Latch *latch, int events, pgsocket sock, long timeout,
				  uint32 wait_event)
{
	must(timeout > 0 && timeout <= TIMEOUT_MS + 1);
	clock_us += choose(8) == 7 ? timeout * US_PER_MS : 0;
	return events & (choose(2) ? WL_LATCH_SET : ~WL_LATCH_SET);
}

void
ResetLatch(Latch *latch)
{
	ShutdownRequestPending |= choose(16) == 15;
}

void
SetLatch(Latch *latch)
{
}

void
ProcessInterrupts(void)
{
}

FILE *
AllocateFile(const char *name, const char *mode)
{
	return NULL;
}

int
FreeFile(FILE *file)
{
	return 0;
}

/*-------------------------------------------------------------------------
 * A libpq
 *-------------------------------------------------------------------------
 */

struct pg_conn
{
	int nothing;
};

struct pg_result
{
	ExecStatusType status;
	int			   columns;
	int			   rows;
	int			   format;
	char		  *cell[4][8]; /* NULL: it is NULL */
	char		  *field;	   /* of an error */
	char		   state[6];
};

static PGconn one_connection;
static int	  results_left;
static bool	  is_first_row;

/* A text of memory of its own: of those that an answer has, or any bytes. */
static char *
make_text(void)
{
	static const char *const words[] = {
		"accepted",
		"held",
		"taken",
		"fenced",
		"reserved",
		"exhausted",
		"lost",
		"set_aside",
		"clone",
		"closed",
		"5",
		"6",
		"1023",
		"1024",
		"2000000000",
		"4294967301",
		"-1",
		"1795000000000000",
		"1795000600000000",
		"4611686018427387904",
		"9223372036854775807",
		"-9223372036854775808",
		"e9bd8ad7e43cbd5c",
		"0000000000000000",
		"900-903,1000",
		"",
	};
	int	  which = choose(lengthof(words) + 4);
	int	  length;
	char *text;

	if (which < (int) lengthof(words))
		return strdup(words[which]);
	if (which == lengthof(words))
		return NULL;
	length = which == lengthof(words) + 1 ? 9000 : choose(40);
	text = malloc(length + 1);
	for (int i = 0; i < length; i++)
		text[i] = input < input_end ? next_byte() : 'x';
	text[length] = '\0';
	return text;
}

/* A row as a registry sends it, but for a cell perhaps; or no such row. */
static void
make_row(char **cell, int columns)
{
	static const char *const rows[][5] = {
		{"held", "", "1795000000000000", "1795000600000000", NULL},
		{"taken", "", NULL, "1795000600000000", "lima\033"},
		{"fenced", "", NULL, "1795000600000000", NULL},
		{"reserved", "", NULL, NULL, "the importer"},
		{"exhausted", NULL, NULL, "1795000600000000", NULL},
		{"lost", "", "1795000000000000", NULL, "it does not know it"},
		{"set_aside", NULL, NULL, NULL, "0-1"},
		{"accepted", NULL, NULL, "1795000000000000", "e9bd8ad7e43cbd5c"},
	};
	int which = choose(lengthof(rows) + 2);
	int odd = choose(16);

	if (is_first_row)
		which = Max(which, lengthof(rows) - 1);
	is_first_row = false;
	for (int column = 0; column < columns; column++)
	{
		const char *text =
			which < (int) lengthof(rows) ? rows[which][column % 5] : NULL;
		char shard[12];

		snprintf(shard, sizeof(shard), "%d", choose(8));
		if (which >= (int) lengthof(rows) || column == odd)
			cell[column] = make_text();
		else if (text != NULL)
			cell[column] = strdup(text[0] == '\0' ? shard : text);
	}
}

PGresult *
PQgetResult(PGconn *conn)
{
	static const ExecStatusType kinds[] = {
		PGRES_SINGLE_TUPLE, PGRES_TUPLES_OK, PGRES_COMMAND_OK,
		PGRES_FATAL_ERROR,	PGRES_COPY_OUT,	 PGRES_EMPTY_QUERY};
	PGresult *result;

	if (results_left-- <= 0)
		return NULL;
	result = calloc(1, sizeof(PGresult));
	result->status = kinds[choose(4) == 3 ? choose(lengthof(kinds)) : 0];
	if (result->status == PGRES_FATAL_ERROR)
	{
		result->field = make_text();
		strlcpy(result->state, choose(2) ? "42501" : "XX000", 6);
	}
	if (result->status > PGRES_TUPLES_OK &&
		result->status != PGRES_SINGLE_TUPLE)
		return result;
	result->columns = choose(10) == 9 ? choose(8) : 5;
	result->rows = choose(5);
	result->format = choose(32) == 31;
	for (int row = 0; row < result->rows; row++)
		make_row(result->cell[row], result->columns);
	return result;
}

void
PQclear(PGresult *result)
{
	for (int i = 0; result != NULL && i < 32; i++)
		free(result->cell[i / 8][i % 8]);
	if (result != NULL)
		free(result->field);
	free(result);
}

static bool
is_cell(const PGresult *result, int row, int column)
{
	return row >= 0 && row < result->rows && column >= 0 &&
		   column < result->columns;
}

/* As libpq does, which gives nothing for a cell that there is not. */
char *
PQgetvalue(const PGresult *result, int row, int column)
{
	if (!is_cell(result, row, column))
		return NULL;
	return result->cell[row][column] != NULL ? result->cell[row][column] : "";
}

int
PQgetisnull(const PGresult *result, int row, int column)
{
	return !is_cell(result, row, column) || result->cell[row][column] == NULL;
}

int
PQgetlength(const PGresult *result, int row, int column)
{
	return PQgetisnull(result, row, column) ?
			   0 :
			   (int) strlen(result->cell[row][column]);
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

int
PQfformat(const PGresult *result, int column)
{
	must(column < result->columns);
	return result->format;
}

ExecStatusType
PQresultStatus(const PGresult *result)
{
	return result->status;
}

char *
PQresultErrorField(const PGresult *result, int field)
{
	return field == PG_DIAG_SQLSTATE ? (char *) result->state : result->field;
}

char *
PQerrorMessage(const PGconn *conn)
{
	return "\033[2Jno more than\none line";
}

ConnStatusType
PQstatus(const PGconn *conn)
{
	return choose(16) == 15 ? CONNECTION_BAD : CONNECTION_OK;
}

PostgresPollingStatusType
PQconnectPoll(PGconn *conn)
{
	static const PostgresPollingStatusType polls[] = {PGRES_POLLING_OK,
													  PGRES_POLLING_READING,
													  PGRES_POLLING_WRITING,
													  PGRES_POLLING_FAILED};

	return polls[choose(lengthof(polls))];
}

int
PQsendQuery(PGconn *conn, const char *query)
{
	results_left = choose(64);
	is_first_row = true;
	return choose(32) != 31;
}

int
PQflush(PGconn *conn)
{
	return choose(16) == 15 ? choose(3) - 1 : 0;
}

/* Busy for so long that a deadline has to end it, once the input has ended. */
int
PQisBusy(PGconn *conn)
{
	return choose(4) == 3;
}

int
PQconsumeInput(PGconn *conn)
{
	return choose(32) != 31;
}

PGnotify *
PQnotifies(PGconn *conn)
{
	return choose(4) == 3 ? calloc(1, sizeof(PGnotify)) : NULL;
}

void
PQfreemem(void *memory)
{
	free(memory);
}

char *
PQescapeLiteral(PGconn *conn, const char *text, size_t length)
{
	return strdup("'x'");
}

PQnoticeReceiver
PQsetNoticeReceiver(PGconn *conn, PQnoticeReceiver receiver, void *arg)
{
	return NULL;
}

/* clang-format off */
int PQsetSingleRowMode(PGconn *conn) { return 1; }
int PQsetnonblocking(PGconn *conn, int on) { return 0; }
int PQsocket(const PGconn *conn) { return 3; }
int PQconnectionNeedsPassword(const PGconn *conn) { return choose(2); }
char *PQhost(const PGconn *conn) { return "\001host"; }
char *PQdb(const PGconn *conn) { return "db\n"; }
char *PQuser(const PGconn *conn) { return "ids"; }
void PQfinish(PGconn *conn) { }
void PQconninfoFree(PQconninfoOption *options) { }
PQconninfoOption *conninfo_parse(const char *text) { static PQconninfoOption none; return &none; }
int conninfo_count_hosts(const PQconninfoOption *options) { return 1 + choose(5); }
PGconn *conninfo_start_connecting(const PQconninfoOption *options, int host, int ms) { return &one_connection; }
/* clang-format on */

/*-------------------------------------------------------------------------
 * What must hold
 *-------------------------------------------------------------------------
 */

static void
check_text(const char *text, size_t size)
{
	must(memchr(text, '\0', size) != NULL);
	for (; *text != '\0'; text++)
		must(*text >= ' ' && *text < 0x7f);
}

static void
check_time(TimestampTz time)
{
	must(time >= UNIX_EPOCH_US && time < END_OF_TIME_US);
}

static void
check_failure(const RegistryFailure *failure)
{
	must(failure->kind > REGISTRY_ANSWERED &&
		 failure->kind < REGISTRY_UNSTORED);
	must(failure->text[0] != '\0');
	check_text(failure->text, sizeof(failure->text));
	check_text(failure->hint, sizeof(failure->hint));
}

static void
check_answer(const RegistryAnswer *answer)
{
	int32 last = (int32) layout_last_shard(&layout);

	check_time(answer->now);
	check_text(answer->clone, sizeof(answer->clone));
	must(!answer->is_clone ||
		 (answer->held == 0 && answer->refusals == 0 && answer->losses == 0));
	for (int i = 0; i < answer->held; i++)
	{
		const Lease *lease = &answer->lease[i];

		must(lease->shard <= last &&
			 lease->shard > (i == 0 ? -1 : lease[-1].shard));
		must(lease->from < lease->until);
		check_time(lease->from);
		check_time(lease->until);
	}
	must(answer->refusals <= LEASE_MAX_REFUSALS);
	for (int i = 0; i < answer->refusals; i++)
	{
		const Refusal *refusal = &answer->refusal[i];

		must(refusal->shard >= ANY_SHARD && refusal->shard <= last);
		must((refusal->shard == ANY_SHARD) ==
			 (refusal->kind == REFUSED_EXHAUSTED));
		if (refusal->until != DT_NOEND)
			check_time(refusal->until);
		check_text(refusal->other, sizeof(refusal->other));
		for (int j = 0; j < answer->held; j++)
			must(answer->lease[j].shard != refusal->shard);
	}
	must(answer->losses <= LEASE_MAX_LOSSES);
	for (int i = 0; i < answer->losses; i++)
	{
		must(answer->loss[i].lease.shard >= ANY_SHARD &&
			 answer->loss[i].lease.shard <= last);
		check_text(answer->loss[i].what, sizeof(answer->loss[i].what));
	}
	for (int i = 0; answer->reserved != NULL && i <= last; i++)
		must(answer->reserved[i] <= 1);
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	static const Lease lease = {0, 1, 5, HELD_HERE};
	const LeaseCaller  caller = {1, 2, 3, 0, 2, 4};
	RegistryAnswer	   answer;
	RegistryFailure	   failure = {0};
	char			  *arguments;

	input = data;
	input_end = data + size;
	ShutdownRequestPending = false;
	shutdown_us = PG_INT64_MAX;
	cluster_name = "";
	layout.shard_bits = 3 + choose(10);
	if (registry_connect(&failure))
	{
		must(failure.kind == REGISTRY_ANSWERED);
		arguments = choose(2) ?
						registry_lease_arguments(&lease, 1, &lease, 1) :
						registry_release_arguments(&lease, 1);
		if (registry_call("snowflake_registry_lease", &caller, arguments,
						  &answer, &failure))
			check_answer(&answer);
		else
			check_failure(&failure);
	}
	else
		check_failure(&failure);
	registry_disconnect();
	while (nblocks > 0)
		free(blocks[--nblocks]);
	return 0;
}
