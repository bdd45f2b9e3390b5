/*-------------------------------------------------------------------------
 *
 * lease_status_cases.c
 *	  What people are told of leases, in each state of these.
 *
 * lease_status_cases() calls the functions of lease_status.c, with a table of our own
 * below them, and rows that are texts.  It tries all cases, compares each row with what
 * doc/reference.md says of its columns, and returns how many it tried.
 *
 *-------------------------------------------------------------------------
 */
#include "lease_system.h"

#include "../../src/sql.h"

PG_MODULE_MAGIC;

/* --- The system ------------------------------------------------------------ */

static union
{
	LeaseTable table;
	char	   bytes[32768];
} memory;

static LeaseTable *const table = &memory.table;

static bool		  needs_leases;
static bool		  in_recovery;
static bool		  leaves_registry;
static ErrorData *error; /* of a call that mints; NULL: none */

#define RecoveryInProgress() in_recovery

bool
positions_need_leases(void)
{
	return needs_leases;
}

bool
settings_leave_registry(void)
{
	return leaves_registry;
}

/* First the settings are looked at: without the library's there is no table. */
LeaseTable *
leases_copy(void)
{
	CHECK(layout_asked == 1);
	return memcpy(palloc(sizeof(memory)), &memory, sizeof(memory));
}

const char *
lease_failure_code(const RegistryFailure *failure)
{
	return failure->kind == REGISTRY_ANSWERED ? NULL : "its code";
}

const char *
lease_failure_way_out(const RegistryFailure *failure)
{
	return failure->kind == REGISTRY_ANSWERED ? NULL : "its way out";
}

int64
lease_clock_ahead_us(const LeaseOutcome *outcome)
{
	return outcome->answered_us;
}

void
lease_check(bool patient)
{
	elog(ERROR, "it is called by caught_error() alone");
}

ErrorData *
caught_error(void (*check)(bool patient))
{
	CHECK(check == lease_check);
	CHECK(!in_recovery); /* a standby does not mint */
	return error;
}

char *
time_text(TimestampTz time)
{
	return psprintf("[" INT64_FORMAT "]", time);
}

char *
number_text(uint64 number)
{
	return psprintf("<" UINT64_FORMAT ">", number);
}

/* --- Rows as text ------------------------------------------------------------ */

static StringInfo			  rows;
static const Oid			 *type_of;
static int					  types;
static ReturnSetInfo		  the_result;
static const FunctionCallInfo the_call = (FunctionCallInfo) &the_result;

TupleDesc
result_row(FunctionCallInfo fcinfo, const Oid *columns, int count)
{
	CHECK(fcinfo == the_call);
	type_of = columns;
	types = count;
	return NULL;
}

ReturnSetInfo *
result_rows(FunctionCallInfo fcinfo, const Oid *columns, int count)
{
	(void) result_row(fcinfo, columns, count);
	return &the_result;
}

void
row_add_text(Row *row, const char *text)
{
	row_add_if(row, text != NULL, CStringGetDatum(text));
}

void
row_add_time(Row *row, TimestampTz time)
{
	row_add_if(row, !TIMESTAMP_NOT_FINITE(time), TimestampTzGetDatum(time));
}

static void
add_value(Oid type, Datum value)
{
	if (type == TEXTOID)
		appendStringInfoString(rows, DatumGetCString(value));
	else if (type == BOOLOID)
		appendStringInfoString(rows, DatumGetBool(value) ? "t" : "f");
	else if (type == INT4OID)
		appendStringInfo(rows, "%d", DatumGetInt32(value));
	else if (type == FLOAT8OID)
		appendStringInfo(rows, "%g s", DatumGetFloat8(value));
	else
		appendStringInfoString(rows, time_text(DatumGetTimestampTz(value)));
}

Datum
row_datum(TupleDesc type, Row *row)
{
	CHECK(row->columns == types);
	for (int i = 0; i < row->columns; i++)
	{
		if (!row->is_null[i])
			add_value(type_of[i], row->value[i]);
		appendStringInfoChar(rows, '|');
	}
	appendStringInfoChar(rows, '\n');
	row->columns = 0;
	return (Datum) 0;
}

void
put_row(ReturnSetInfo *result, Row *row)
{
	CHECK(result == &the_result);
	(void) row_datum(NULL, row);
}

#include "../../src/lease/lease_status.c"

static void
begin(void)
{
	begin_case();
	rows = makeStringInfo();
	layout_asked = 0;
}

static const char *
or_null(const char *text)
{
	return text != NULL ? text : "";
}

/* --- Leases and refusals ------------------------------------------------------ */

/* Shards 0 to 3 are held or not, and up to three are refused, or something else is. */
static void
try_leases(void)
{
	for (int i = 0; i < 16 * 4 * 125 * 2; i++)
	{
		int		   refusals = i / 16 % 4;
		StringInfo expected;

		begin();
		expected = makeStringInfo();
		memset(&memory, 0, sizeof(memory));
		for (int shard = 0; shard < 4; shard++)
		{
			if (!(i >> shard & 1))
				continue;
			table->held[table->count++].lease =
				(Lease){100 + shard, 200 + shard, shard, HELD_HERE};
			appendStringInfo(expected, "%d|t|[10%d]|[20%d]||\n", shard, shard,
							 shard);
		}
		table->outcome.refusals = refusals;
		for (int n = 0, rest = i / 64 % 125; n < 4; n++, rest /= 5)
		{
			int32 shard = rest % 5 - 1;
			bool  is_known = (i / 64 / 125 + n) % 2;

			table->outcome.refusal[n] =
				(Refusal){REFUSED_TAKEN, shard, is_known ? 300 : DT_NOEND, ""};
			if (is_known)
				strcpy(table->outcome.refusal[n].other, "paris");
			if (n < refusals && shard != ANY_SHARD && !(i >> shard & 1))
				appendStringInfo(expected, "%d|f||%s|\n", shard,
								 is_known ? "[300]|paris" : "|");
		}

		/* behind the lists there is what nobody must see */
		table->held[table->count].lease.shard = 0;
		table->outcome.refusal[refusals].shard = 3;
		snprintf(what_is_tried, sizeof(what_is_tried), "leases %d", i);
		(void) snowflake_leases(the_call);
		CHECK(strcmp(rows->data, expected->data) == 0);
	}
}

/* --- The state ------------------------------------------------------------------- */

/* Only the last loss is told. */
static const char *
set_losses(int losses, int32 shard)
{
	int last = (losses + LEASE_MAX_LOSSES - 1) % LEASE_MAX_LOSSES;

	table->losses = losses;
	for (int i = 0; i < LEASE_MAX_LOSSES; i++)
		table->loss[i] = (LeaseLoss){{1, 2, 2, HELD_HERE}, "another loss"};
	table->loss[last] =
		(LeaseLoss){{400, 500, shard, HELD_HERE}, "it is lost"};
	return losses == 0		  ? "" :
		   shard == ANY_SHARD ? "it is lost" :
								"shard 3, from [400] until [500]: it is lost";
}

static void
try_state(int i, int losses, int32 lost)
{
	static const TimestampTz ends[] = {DT_NOBEGIN, 999, 1000, 1001};
	TimestampTz				 end = ends[i >> 8 & 3];
	bool					 has_failed = i >> 7 & 1;
	bool					 has_answered = i >> 6 & 1;
	const char				*state;
	const char				*last_loss;
	ErrorData				 refused = {.message = "it is refused"};
	const ErrorData			*told;
	char					*expected;

	begin();
	memset(&memory, 0, sizeof(memory));
	needs_leases = i & 1;
	in_recovery = i >> 1 & 1;
	table->count = i >> 2 & 1 ? 3 : 0;
	table->holder = i >> 3 & 1 ? 9 : 0;
	leaves_registry = i >> 4 & 1;
	refused.hint = i >> 5 & 1 ? "do not" : NULL;
	error = i >> 10 & 1 ? &refused : NULL;
	table->end = end;
	table->outcome.answered_at = has_answered ? 900 : 0;
	table->outcome.answered_us = -1500000;
	table->outcome.failure.kind =
		has_failed ? REGISTRY_AWAY : REGISTRY_ANSWERED;
	strcpy(table->outcome.failure.text, "its words");
	last_loss = set_losses(losses, lost);

	state = !needs_leases	  ? "off" :
			in_recovery		  ? "standby" :
			table->count == 0 ? "none" :
			end == 1001		  ? "held" :
								"ended";
	told = in_recovery ? NULL : error;
	expected = psprintf("%s|%s|%d|%s|%s|%s|%d|%s|%s|%s|%s|\n", state,
						table->holder ? "<9>" : "", table->count,
						end == DT_NOBEGIN ? "" : time_text(end),
						has_answered ? "[900]|-1.5 s" : "|",
						has_failed ? "its words" :
						told	   ? told->message :
									 "",
						losses, last_loss, leaves_registry ? "t" : "f",
						has_failed ? "its code" : "",
						has_failed ? "its way out" :
						told	   ? or_null(told->hint) :
									 "");
	snprintf(what_is_tried, sizeof(what_is_tried), "state %d, losses %d of %d",
			 i, losses, lost);
	(void) snowflake_lease_status(the_call);
	CHECK(strcmp(rows->data, expected) == 0);
}

static void
try_states(void)
{
	clock_us = 1000;
	for (int i = 0; i < 1 << 11; i++)
	{
		for (int losses = 0; losses < 2 * LEASE_MAX_LOSSES + 2; losses += 5)
		{
			try_state(i, losses, ANY_SHARD);
			try_state(i, losses, 3);
		}
		try_state(i, LEASE_MAX_LOSSES, 3);
	}
}

PG_FUNCTION_INFO_V1(lease_status_cases);
Datum
lease_status_cases(PG_FUNCTION_ARGS)
{
	MemoryContext context = CurrentMemoryContext;

	tried = 0;
	try_leases();
	try_states();
	MemoryContextSwitchTo(context);
	PG_RETURN_INT64(tried);
}
