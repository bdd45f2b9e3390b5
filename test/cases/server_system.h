/*-------------------------------------------------------------------------
 *
 * server_system.h
 *	  What is below and above server.c, for server_cases.c: its records, the server that
 *	  it asks, and what it logs.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <sys/stat.h>

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "cases.h"

/* --- The system --------------------------------------------------------- */

static bool			in_recovery;
static bool			under_postmaster;
static XLogRecPtr	replay_end;
static char			memory[4096];
static LWLockPadded locks[8];
static int			held;	 /* locks */
static int			touched; /* locks, so far */

#define RecoveryInProgress() in_recovery
#define IsUnderPostmaster under_postmaster
#define GetXLogReplayRecPtr(timeline) replay_end
#define GetNamedLWLockTranche(name) locks
#define ShmemInitStruct(name, size, found) \
	((void) (size), *(found) = false, (void *) memory)
#define LWLockAcquire(lock, mode) (touched++, held++)
#define LWLockRelease(lock) (held--)
#define GetSystemIdentifier() UINT64CONST(100)
#define pg_strong_random(number, size) (*(number) = 99, true)

#include "../../src/identity.c"
#include "../../src/settings.c"

static StartMode start_mode;

#define identity_start_mode() start_mode

#include "../../src/server.c"

StaticAssertDecl(sizeof(ServerState) <= sizeof(memory),
				 "there is room for its shared memory");

/* --- What is below and above server.c ------------------------------------ */

#define NOT_CALLED(name) elog(ERROR, name " is not to be called")

bool
layout_parse(const char *text, size_t length, Layout *layout,
			 LayoutError *error)
{
	NOT_CALLED("layout_parse()");
	return false;
}

void
layout_format(const Layout *layout, char *buffer, size_t size)
{
	NOT_CALLED("layout_format()");
}

bool
shards_parse(const char *text, int64 last_shard, bool *mine,
			 LayoutError *error)
{
	NOT_CALLED("shards_parse()");
	return false;
}

bool
shards_parse_auto(const char *text, int64 last_shard, int32 *count,
				  LayoutError *error)
{
	NOT_CALLED("shards_parse_auto()");
	return false;
}

char *
hint_of_layout(const LayoutError *error)
{
	return "";
}

char *
layout_name(const Layout *layout)
{
	return "ours";
}

char *
time_text(TimestampTz time)
{
	return "a time";
}

char *
number_text(uint64 number)
{
	return "a number";
}

static int waits;

int64
wait_outside_locks(int64 us, WaitName *event, ConditionVariable *condition)
{
	if (++waits > 10000)
		elog(ERROR, "it waits for ever");
	return us;
}

static bool may_log;

bool
may_log_now(pg_atomic_uint64 *after, int64 interval_us)
{
	return may_log;
}

/* --- The records ---------------------------------------------------------- */

typedef struct Stored
{
	RecordResult result;
	Record		 record;
} Stored;

static Stored files[2];
static Stored pages[2];
static int	  reads; /* of pages */
static int	  file_reads;
static int	  writes;
static Record written;
static bool	  is_full; /* the disk */
static int	  reports;

static RecordResult
read_stored(const Stored *stored, RecordKind kind, const char *what,
			Record *record, Trouble *trouble)
{
	memset(record, 0xff, sizeof(*record));
	trouble->record = kind;
	if (stored->result == RECORD_FOUND)
		*record = stored->record;
	else if (stored->result == RECORD_UNREADABLE)
		snprintf(trouble->reason, sizeof(trouble->reason), "%s %d", what,
				 kind);
	return stored->result;
}

RecordResult
record_read_file(RecordKind kind, Record *record, Trouble *trouble)
{
	file_reads++;
	return read_stored(&files[kind], kind, "file", record, trouble);
}

RecordResult
record_read_page(RecordKind kind, Record *record, Trouble *trouble)
{
	reads++;
	return read_stored(&pages[kind], kind, "page", record, trouble);
}

bool
record_write_file(RecordKind kind, const Record *record, Trouble *trouble)
{
	writes++;
	written = *record;
	return !is_full && kind == HORIZON_RECORD;
}

void
record_report(int level, const Trouble *trouble)
{
	reports++;
	if (level >= ERROR)
		elog(ERROR, "%s", trouble->reason);
}

/* --- What is logged, and errors ------------------------------------------ */

static int logged[5];

static const char *const messages[lengthof(logged)] = {
	"the layout of snowflake ids is ", "file \"snowflake.horizon\" is missing",
	"this server has another layout", "this server is a clone",
	"the layout of snowflake ids expires"};

enum
{
	LOGS_LAYOUT,
	LOGS_MISSING,
	LOGS_DIFFERS,
	LOGS_CLONE,
	LOGS_EXPIRY
};

static int logged_files; /* that are written again */

static void
count_log(ErrorData *error)
{
	for (int i = 0; i < lengthof(logged); i++)
	{
		if (error->elevel == LOG &&
			strncmp(error->message, messages[i], strlen(messages[i])) == 0)
			logged[i]++;
	}
	if (error->elevel == LOG && error->detail &&
		strstr(error->detail, "The file is written again"))
		logged_files++;
	error->output_to_server = false;
}
