/*-------------------------------------------------------------------------
 *
 * lease_worker_system.h
 *	  What is around lease_worker.c, for lease_worker_cases.c: its record, what sessions
 *	  see, the clock and the latch.
 *
 * All that the worker does is written down, line by line, in "happened".  What it may not
 * do at all is looked at here, when it does it.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <setjmp.h>

#include "common/hashfn.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "../../src/lease/lease_table.h"
#include "../../src/lease/registry.h"

#include "cases.h"

/* --- What happens, and what is to happen ---------------------------------- */

typedef struct Story
{
	int	 length;
	char text[8000];
} Story;

static Story happened;
static Story expected;

static void tell(Story *story, const char *format, ...)
	pg_attribute_printf(2, 3);

static void
tell(Story *story, const char *format, ...)
{
	int		room = sizeof(story->text) - story->length;
	va_list arguments;

	va_start(arguments, format);
	story->length +=
		vsnprintf(story->text + story->length, room, format, arguments);
	va_end(arguments);
	if (story->length >= sizeof(story->text))
		elog(ERROR, "a long story: %s", story->text);
}

static void
tell_leases(Story *story, const char *what, const Lease *lease, int count,
			bool all)
{
	tell(story, "%s", what);
	for (int i = 0; i < count; i++)
	{
		if (all || lease[i].kind != NOT_HELD)
			tell(story, " %d:%d:%lld:%lld", lease[i].shard, lease[i].kind,
				 (long long) lease[i].from, (long long) lease[i].until);
	}
	tell(story, "\n");
}

static void
tell_log(Story *story, int level, const char *message, const char *detail,
		 const char *hint)
{
	tell(story, "%s: %s (%s) (%s)\n", level == WARNING ? "warning" : "log",
		 message, detail ? detail : "", hint ? hint : "");
}

static void
hear_log(ErrorData *error)
{
	if (error->elevel >= ERROR)
		return;
	tell_log(&happened, error->elevel, error->message, error->detail,
			 error->hint);
	error->output_to_server = error->output_to_client = false;
}

/* --- What the world does ---------------------------------------------------- */

#define SHARDS 3

/* Behind the last entry of a list there is one of this shard, or of the world's. */
#define NO_SHARD 77

/* No answer of the registry says this. */
#define NOTHING_LOST 99

typedef enum Reply
{
	ACCEPTED,
	CLONE,
	LOST /* it has arrived, or it has not */
} Reply;

typedef enum Saying
{
	SAYS_NOTHING,
	GRANTS,
	TAKEN,
	FENCED
} Saying;

typedef struct World
{
	int			named;	   /* shards of snowflake.shards, as bits */
	int			automatic; /* or "auto" with so many */
	const char *registry_text;

	/* an attempt */
	bool				connects;
	int					full_after; /* so many calls, the disk is full */
	Reply				release;
	Reply				lease[2];	 /* the first call, and further ones */
	RegistryFailureKind failure;	 /* of those that are lost */
	int					end[SHARDS]; /* minted: 0: nothing, 1: half, 2: all */

	/* an answer */
	uint64		registry;
	TimestampTz now;
	Saying		says[SHARDS];
	bool		has_none; /* for "auto" */
	int			loses;	  /* a shard, ANY_SHARD, or NOTHING_LOST */
	int			behind;	  /* a shard in what is behind the end of lists */
} World;

static World world;

static int64	   now_us; /* by the steady clock */
static bool		   is_connected;
static int		   calls; /* in this attempt */
static int		   lease_calls;
static const char *activity;
static uint64	   drawn; /* the last random number */
static int		   draws;
static bool		   set_aside[SHARDS];

/* On disk; and why the record there does not count. */
static LeaseRecord stored;
static Lease	   stored_lease[SHARDS + 1];
static Lease	   room[SHARDS + 1]; /* of the worker's record */
static const char *reason;
static uint64	   incarnation;

/* What sessions see. */
static bool is_open[SHARDS];
static bool has_begun_to_hold[SHARDS]; /* by the clock */
static bool need_leases;
static bool want_leases;
static bool leave_registry;
static bool are_known;
static bool has_request;

/* The caller, as the registry has confirmed it; and the call that was lost. */
static LeaseCaller known;
static LeaseCaller lost;
static char		   lost_arguments[2000]; /* empty: none */
static char		   last_arguments[2000];
static bool		   has_tried; /* to store something, since it was lost */
static int64	   asked_us;
static int64	   answered_us;

static TimestampTz
from_of(int shard)
{
	return (shard + 1) * USECS_PER_SEC;
}

static TimestampTz
until_of(int shard)
{
	return from_of(shard) + 100 * US_PER_MS;
}

static bool
fails_with(RegistryFailure *failure, RegistryFailureKind kind)
{
	*failure = (RegistryFailure){.kind = kind};
	snprintf(failure->text, sizeof(failure->text), "failure %d", kind);
	if (kind == REGISTRY_CLOSED)
		strcpy(failure->hint, "Open it.");
	return false;
}

/* --- The server ------------------------------------------------------------- */

static int		  wait_events; /* of the last wait for work */
static long		  wait_ms;
static int		  waits;
static int		  looks; /* since it waited */
static int		  resets;
static int		  interrupts;
static int		  reloads;
static int		  heeded; /* how often the settings were */
static int		  forgotten;
static int		  begun_workers;
static bool		  reload_pending;
static bool		  shutdown_pending;
static sigjmp_buf exits;

static void after_wait(void);

static int
our_wait(int events, long ms)
{
	CHECK(activity == NULL);
	CHECK(!is_connected);
	looks = 0;
	wait_events = events;
	wait_ms = ms;
	waits++;
	after_wait();
	return 0;
}

#undef CHECK_FOR_INTERRUPTS
#define CHECK_FOR_INTERRUPTS() (interrupts++)
#define WaitLatch(latch, events, ms, event) our_wait(events, ms)
#define ResetLatch(latch) (resets++)
#define ConfigReloadPending reload_pending
#define ShutdownRequestPending shutdown_pending
#define ProcessConfigFile(context) (reloads++)
#define pgstat_report_activity(state, text) \
	(activity = (state) == STATE_RUNNING ? (text) : NULL)
#define proc_exit(code) siglongjmp(exits, 1 + (code))
#define bounds_are_known() are_known

#include "../../src/lease/lease_worker.c"

Bounds *bounds;

int64
steady_clock_us(void)
{
	return now_us;
}

uint64
identity_random(void)
{
	static const uint64 numbers[] = {0, PG_UINT64_MAX, UINT64CONST(5) << 33};

	return drawn = numbers[draws++ % lengthof(numbers)];
}

/* It is called for a new holder alone. */
char *
number_text(uint64 number)
{
	CHECK(number == drawn);
	known = (LeaseCaller){.holder = number, .registry = known.registry};
	lost_arguments[0] = '\0';
	return "new";
}

char *
time_text(TimestampTz time)
{
	return psprintf("%lld", (long long) time);
}

void
server_known(Record *record)
{
	memset(record, 0, sizeof(*record));
	record->writer.incarnation = incarnation;
}

/* --- Settings --------------------------------------------------------------- */

int				 settings_lease_ms;
static OwnShards asked;
const OwnShards *settings_asked_shards = &asked;

const Layout *
settings_layout(void)
{
	static const Layout layout = {.tick_us = 1000,
								  .first_tick = -PG_INT32_MAX,
								  .last_tick = PG_INT32_MAX};

	return &layout;
}

const char *
settings_registry(void)
{
	return world.registry_text;
}

bool
settings_leave_registry(void)
{
	return leave_registry;
}

bool
settings_name_shard(int32 shard)
{
	return shard >= 0 && (world.named >> shard & 1);
}

/* --- Positions: is a shard open, and how far was it minted? ------------------ */

void
positions_heed_settings(void)
{
	heeded++;
	need_leases |= want_leases;
}

bool
positions_need_leases(void)
{
	CHECK(++looks < 100);
	return need_leases;
}

bool
positions_is_open(int32 shard)
{
	CHECK(shard >= 0 && shard < SHARDS);
	return is_open[shard];
}

void
positions_close(int32 shard)
{
	CHECK(shard >= 0 && shard < SHARDS);
	is_open[shard] = false;
	tell(&happened, "closes %d\n", shard);
}

/* It may move, as long as sessions mint there. */
int64
positions_end(int32 shard)
{
	static const int after[] = {-5, 50, 5000};

	CHECK(!is_open[shard]);
	return from_of(shard) / 1000 + after[world.end[shard]];
}

/* --- The record ------------------------------------------------------------- */

static void
copy_record(LeaseRecord *to, Lease *lease, const LeaseRecord *from)
{
	*to = *from;
	to->lease = lease;
	memcpy(lease, from->lease, from->count * sizeof(Lease));
}

const char *
lease_record_read(LeaseRecord *record)
{
	CHECK(record->incarnation == incarnation);
	memset(room, 0, sizeof(room));
	for (int i = 0; i < lengthof(room); i++)
		room[i] = (Lease){0, DT_NOEND, world.behind, HELD_HERE};
	record->lease = room;
	record->caller.registry = stored.caller.registry;
	if (reason == NULL)
		copy_record(record, room, &stored);
	record->incarnation = incarnation;
	return reason;
}

bool
lease_record_write(const LeaseRecord *record, Trouble *trouble)
{
	has_tried = true;
	CHECK(record->count <= SHARDS);
	CHECK(record->incarnation == incarnation);
	if (calls >= world.full_after)
	{
		strcpy(trouble->reason, "the disk is full");
		tell(&happened, "does not store\n");
		return false;
	}
	copy_record(&stored, stored_lease, record);
	tell_leases(&happened, "stores", stored.lease, stored.count, true);
	now_us += 5;
	return true;
}

bool
lease_record_holds(const LeaseRecord *record, int32 shard)
{
	for (int i = 0; i < record->count; i++)
	{
		if (record->lease[i].shard == shard)
			return record->lease[i].kind != NOT_HELD;
	}
	return false;
}

int32 *
lease_record_held(const LeaseRecord *record, int *count)
{
	int32 *shard = palloc(SHARDS * sizeof(int32));

	*count = 0;
	for (int i = 0; i < record->count; i++)
	{
		if (record->lease[i].kind != NOT_HELD)
			shard[(*count)++] = record->lease[i].shard;
	}
	return shard;
}

/* Those that it holds: which others, nothing here depends on. */
Lease *
lease_record_claims(const LeaseRecord *record, int *count)
{
	Lease *lease = palloc(SHARDS * sizeof(Lease));

	*count = 0;
	for (int i = 0; i < record->count; i++)
	{
		if (record->lease[i].kind == HELD_HERE)
			lease[(*count)++] = record->lease[i];
	}
	return lease;
}

/* --- What sessions see -------------------------------------------------------- */

/* The leases that are held, as text. */
static char *
held_leases(const LeaseRecord *record)
{
	Story story;

	story.length = 0;
	tell_leases(&story, "", record->lease, record->count, false);
	return pstrdup(story.text);
}

static bool
is_same_held(const LeaseRecord *one, const LeaseRecord *other)
{
	return strcmp(held_leases(one), held_leases(other)) == 0;
}

/* What is told to be on disk is there. */
void
leases_publish(const LeaseRecord *record, bool is_on_disk)
{
	bool is_held[SHARDS] = {false};
	int	 count = 0;

	for (int i = 0; i < record->count; i++)
	{
		if (record->lease[i].kind == NOT_HELD)
			continue;
		is_held[record->lease[i].shard] = true;
		count++;
	}
	CHECK(!is_on_disk || count == 0 || is_same_held(record, &stored));
	for (int i = 0; i < SHARDS; i++)
		is_open[i] =
			is_held[i] && (is_open[i] || (is_on_disk && has_begun_to_hold[i]));
	tell_leases(&happened,
				is_on_disk && count > 0 ? "publishes, on disk" : "publishes",
				record->lease, record->count, false);
}

char *
leases_text(const int32 *shard, int count)
{
	char *text = palloc0(SHARDS + 1);

	for (int i = 0; i < count; i++)
		text[i] = '0' + shard[i];
	return text;
}

void
leases_begin_worker(void)
{
	CHECK(heeded == 0 && waits == 0);
	begun_workers++;
}

bool
leases_take_request(void)
{
	bool request = has_request;

	has_request = false;
	return request;
}

void
leases_forget_outcome(void)
{
	forgotten++;
}

static void
tell_outcome(Story *story, const LeaseOutcome *it)
{
	tell(story, "ends: %lld, %d,", (long long) it->answered_at,
		 it->failure.kind);
	for (int i = 0; i < it->refusals; i++)
		tell(story, " %d:%d:%s", it->refusal[i].shard, it->refusal[i].kind,
			 it->refusal[i].other);
	tell(story, "\n");
}

void
leases_end_attempt(const LeaseOutcome *it)
{
	CHECK(it->asked_us == asked_us && it->answered_us == answered_us);
	tell_outcome(&happened, it);
}

static void
tell_loss(Story *story, const Lease *lease, const char *what)
{
	tell(story, "loses %d %lld %lld: %s\n", lease->shard,
		 (long long) lease->from, (long long) lease->until, what);
}

void
leases_note_loss(const LeaseLoss *loss)
{
	tell_loss(&happened, &loss->lease, loss->what);
}

void
leases_note_reserved(const bool *reserved)
{
	CHECK(reserved == set_aside);
	tell(&happened, "notes what is reserved\n");
}
