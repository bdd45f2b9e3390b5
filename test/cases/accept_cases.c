/*-------------------------------------------------------------------------
 *
 * accept_cases.c
 *	  How a layout or a clone is accepted, whatever happens meanwhile.
 *
 * accept_cases() calls the functions of accept.c, with a server and a worker of our own
 * below them.  It compares what they call, and how they end, with what the head of accept.c
 * says, and returns how many conditions it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "storage/condition_variable.h"
#include "utils/guc.h"

#include "calls.h"

#include "horizon.h"
#include "server.h"
#include "settings.h"

PG_MODULE_MAGIC;

/* --- What is below accept.c ------------------------------------------------------ */

static bool is_preloaded;
static bool in_recovery;
static int	waits;		   /* so far */
static int	knows_after;   /* so many waits, the server knows its layout */
static int	fails_at;	   /* this wait */
static int	taken_back_at; /* this wait, by another session that fails */
static int
	stored_after; /* so many attempts of the worker; 0: nothing is pending */
static bool is_accepted;
static int	notices;

const Layout *
settings_layout(void)
{
	if (!is_preloaded)
		elog(ERROR, "it is not preloaded");
	return NULL;
}

bool
server_knows_layout(void)
{
	return waits >= knows_after;
}

bool
server_layout_differs(void)
{
	return stored_after > 0;
}

bool
server_is_clone(void)
{
	return stored_after > 0;
}

void
server_accept(uint32 what, bool accept)
{
	called(" %s %d", accept ? "accept" : "refuse", what);
	is_accepted = accept;
}

/* An attempt of the worker ends; it stores what is accepted. */
void
horizon_wait(WorkerWait *wait, int64 tick)
{
	bool is_first = waits == 0 || waits == knows_after;

	CHECK(tick == HORIZON_OPEN_ONLY);
	CHECK(wait->begun == !is_first);
	wait->begun = true;
	called(" wait");
	if (++waits == fails_at)
		elog(ERROR, "cancelled");
	if (is_accepted)
		stored_after--;
	if (waits == taken_back_at)
		is_accepted = false;
}

#define RecoveryInProgress() in_recovery
#define ConditionVariableCancelSleep() called(" cancel")

#include "../../src/accept.c"

/* --- Cases -------------------------------------------------------------------- */

static void
accept_layout(void)
{
	(void) snowflake_store_layout(NULL);
}

static void
accept_clone(void)
{
	(void) snowflake_accept_clone(NULL);
}

static const struct
{
	void (*accept)(void);
	int			what;
	const char *recovery;
	const char *nothing;
} kinds[] = {{accept_layout, ACCEPTS_LAYOUT,
			  "25006: cannot accept a layout during recovery",
			  "the layout has not changed"},
			 {accept_clone, ACCEPTS_CLONE,
			  "25006: cannot accept a clone during recovery",
			  "this server is not a clone"}};

static int kind;

static void
count_notice(ErrorData *error)
{
	if (error->elevel != NOTICE)
		return;
	CHECK(strcmp(error->message, kinds[kind].nothing) == 0);
	notices++;
	error->output_to_server = error->output_to_client = false;
}

/* What a call does: until it waits no more, or fails. */
static const char *
expect_calls(int attempts)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int wait = 1; wait <= knows_after + attempts; wait++)
	{
		if (wait > knows_after)
			appendStringInfo(&text, " accept %d", kinds[kind].what);
		appendStringInfoString(&text, " wait");
		if (wait != fails_at)
			continue;
		if (wait > knows_after)
			appendStringInfo(&text, " refuse %d", kinds[kind].what);
		return text.data;
	}
	appendStringInfoString(&text, " cancel");
	return text.data;
}

static void
try_case(int attempts)
{
	const char *error;
	const char *expected = !is_preloaded ? "XX000: it is not preloaded" :
						   in_recovery	 ? kinds[kind].recovery :
						   fails_at > 0 && fails_at <= knows_after + attempts ?
										 "XX000: cancelled" :
										 "";

	snprintf(what_is_tried, sizeof(what_is_tried),
			 "%d: layout known after %d, stored after %d, failing at %d, "
			 "taken back at %d",
			 kind, knows_after, attempts, fails_at, taken_back_at);
	waits = notices = 0;
	stored_after = attempts;
	is_accepted = false;
	error = error_of(kinds[kind].accept);
	CHECK(strcmp(error, expected) == 0);
	CHECK(notices == (expected[0] == '\0' && attempts == 0));
	CHECK_CALLS(is_preloaded && !in_recovery ? expect_calls(attempts) : "");
	CHECK(stored_after == 0 || expected[0] != '\0');
}

static void
try_cases(void)
{
	for (int i = 0; i < 2 * 2 * 2 * 3 * 6 * 6 * 4; i++)
	{
		int rest = i / 8;

		kind = i % 2;
		is_preloaded = i / 2 % 2;
		in_recovery = i / 4 % 2;
		knows_after = rest % 3;
		fails_at = rest / 3 % 6;
		taken_back_at = rest / 18 % 6;
		try_case(rest / 108);
	}
}

PG_FUNCTION_INFO_V1(accept_cases);
Datum
accept_cases(PG_FUNCTION_ARGS)
{
	emit_log_hook_type hook = emit_log_hook;

	tried = 0;
	forget_calls();
	emit_log_hook = count_notice;
	SetConfigOption("log_min_messages", "notice", PGC_SUSET, PGC_S_SESSION);
	PG_TRY();
	{
		try_cases();
	}
	PG_FINALLY();
	{
		emit_log_hook = hook;
	}
	PG_END_TRY();
	PG_RETURN_INT64(tried);
}
