/*-------------------------------------------------------------------------
 *
 * lease_wait_system.h
 *	  What is below and above lease_wait.c, for lease_wait_cases.c: a table of leases, a
 *	  worker that ends attempts when it is told to, and errors with all their words.
 *
 *-------------------------------------------------------------------------
 */
#include "lease_system.h"

/* --- Settings, and who calls ------------------------------------------------- */

int				   settings_clock_tolerance_ms;
const OwnShards	  *settings_asked_shards;
static const char *registry;
static bool		   needs_leases = true;
static bool		   in_recovery;
static bool		   is_admin;
static TimestampTz statement_at;

const char *
settings_registry(void)
{
	return registry;
}

bool
settings_ask_for(int32 shard)
{
	const OwnShards *asked = settings_asked_shards;

	for (int i = 0; i < asked->count; i++)
	{
		if (asked->shard[i] == shard)
			return true;
	}
	return asked->count == 0;
}

bool
positions_need_leases(void)
{
	return needs_leases;
}

#define SESSION_USER 77

/* It is the user of the session that counts. */
static bool
our_has_privs(Oid member, Oid role)
{
	CHECK(member == SESSION_USER && role == ROLE_PG_MONITOR);
	return is_admin;
}

#define has_privs_of_role(member, role) our_has_privs(member, role)
#define GetSessionUserId() SESSION_USER
#define RecoveryInProgress() in_recovery
#define GetCurrentStatementStartTimestamp() statement_at

/* --- The table ------------------------------------------------------------------ */

static union
{
	LeaseTable table;
	char	   bytes[32768];
} memory;

static LeaseTable *const table = &memory.table;
static Reservation		 reserved[4];

StaticAssertDecl(sizeof(LeaseTable) + 5 * sizeof(HeldLease) <= sizeof(memory),
				 "there is room for the table");

/* Behind the last lease there is one that nobody must see. */
LeaseTable *
leases_copy(void)
{
	return memcpy(palloc(sizeof(memory)), &memory, sizeof(memory));
}

char *
leases_text(const int32 *shard, int count)
{
	StringInfo text = makeStringInfo();

	for (int i = 0; i < count; i++)
		appendStringInfo(text, "<%d>", shard[i]);
	return text->data;
}

const OwnShards *
leases_own_shards(void)
{
	return NULL;
}

Reservation
leases_reservation(int32 shard)
{
	return reserved[shard];
}

Worker *
leases_worker(void)
{
	return &table->worker;
}

/* --- What is done, in this order ------------------------------------------------ */

static StringInfo events;
static int		  waits;
static int		  waits_for_bounds;	 /* so many waits until they are known */
static int		  waits_for_attempt; /* ... until an attempt has ended */
static void (*then)(void);			 /* and then this is done */

static void
begin(void)
{
	begin_case();
	events = makeStringInfo();
	waits = 0;
}

static bool
is_done(const char *expected)
{
	return strcmp(events->data, expected) == 0;
}

static void
count_wait(void)
{
	if (++waits > 100)
		elog(ERROR, "it waits for ever: %s", what_is_tried);
}

const Layout *
server_layout(void)
{
	appendStringInfo(events, "layout ");
	return &the_layout;
}

void
horizon_wait(WorkerWait *wait, int64 tick)
{
	count_wait();
	CHECK(tick == HORIZON_OPEN_ONLY);
	appendStringInfo(events, "horizon ");
	if (waits >= waits_for_bounds)
		pg_atomic_write_u32(&bounds->are_known, 1);
}

bool
worker_begin_wait(Worker *worker, WorkerWait *wait)
{
	CHECK(worker == &table->worker);
	if (wait->begun)
		return false;
	wait->begun = true;
	wait->attempts = pg_atomic_read_u64(&worker->attempts);
	appendStringInfo(events, "begin ");
	return true;
}

void
leases_ask(void)
{
	appendStringInfo(events, "ask ");
}

void
worker_wait(Worker *worker, WorkerWait *wait, WaitName *event)
{
	count_wait();
	CHECK(worker == &table->worker);
	CHECK(strcmp(event->name, "SnowflakeLease") == 0);
	appendStringInfo(events, "wait ");
	wait->waited_us += USECS_PER_SEC;
	steady_us += USECS_PER_SEC;
	if (waits != waits_for_attempt)
		return;
	pg_atomic_fetch_add_u64(&worker->attempts, 1);
	table->ended_us = 1;
	if (then != NULL)
		then();
}

int64
worker_end_wait(const WorkerWait *wait)
{
	appendStringInfo(events, "end ");
	return wait->waited_us;
}

void
worker_check(Worker *worker, bool patient)
{
	CHECK(worker == &table->worker);
	appendStringInfo(events, "worker %d ", patient);
}

void
worker_register(const char *name, const char *function)
{
	appendStringInfo(events, "register %s %s ", name, function);
}

/* --- Errors ----------------------------------------------------------------------- */

/* Texts that tell each value from the next one. */
char *
time_text(TimestampTz time)
{
	return psprintf("[time " INT64_FORMAT "]", time);
}

char *
duration_text(int64 us)
{
	return psprintf("[" INT64_FORMAT " us]", us < 0 ? -us : us);
}

/* An error, or none if it has no message. */
typedef struct Told
{
	int			code;
	const char *message;
	const char *detail;
	const char *detail_log; /* NULL: as the detail */
	const char *hint;
} Told;

static bool
is_same_text(const char *one, const char *other)
{
	return one == other ||
		   (one != NULL && other != NULL && strcmp(one, other) == 0);
}

/* Call a function, and compare the error that it raises with what it has to be. */
static void
check_error(void (*function)(void), const Told *expected)
{
	ErrorData *error = raised_by(function);

	tried++;
	if (!is_same_text(error ? error->message : NULL, expected->message))
		elog(ERROR, "%s: it says \"%s\", and not \"%s\"", what_is_tried,
			 error ? error->message : "nothing",
			 expected->message ? expected->message : "nothing");
	check_signs();
	if (error == NULL)
		return;
	CHECK(error->elevel == ERROR && error->sqlerrcode == expected->code);
	CHECK(is_same_text(error->detail, expected->detail));
	CHECK(is_same_text(error->detail_log, expected->detail_log));
	CHECK(is_same_text(error->hint, expected->hint));
}
