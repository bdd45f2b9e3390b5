/*-------------------------------------------------------------------------
 *
 * decode_cases.c
 *	  Ids taken apart and put together, in several layouts, with what a call site keeps.
 *
 * decode_cases() calls the functions of decode.c.  It compares their answers with what
 * decode_rules.h says of ids, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "parser/analyze.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "cases.h"
#include "compat.h"

PG_MODULE_MAGIC;

/* Servers before 19 do not ask for it: it is what a case says. */
static FuncExpr *call_in_query;
#define call_in_from(request) call_in_query

#include "../../src/decode.c"
#include "../../src/layout.c"
#include "../../src/layout_text.c"

#include "decode_rules.h"

/* --- The system ------------------------------------------------------------- */

static Layout the_layout;
static int	  parsed; /* how often a layout was */

const Layout *
server_layout(void)
{
	return &the_layout;
}

void
read_layout_or_fail(const char *text, size_t length, Layout *layout)
{
	LayoutError error;

	parsed++;
	if (!layout_parse(text, length, layout, &error))
		ereport(ERROR, (errmsg("%s is no layout", pnstrdup(text, length))));
}

void
report_part_range(const Layout *layout, const char *part, int32 value,
				  int64 last)
{
	ereport(ERROR,
			(errmsg("%s %d is not in 0 to " INT64_FORMAT, part, value, last)));
}

void
report_time_range(const Layout *layout, TimestampTz time, int64 first_tick,
				  int64 last_tick)
{
	ereport(ERROR, (errmsg("time " INT64_FORMAT " is not in " INT64_FORMAT
						   " to " INT64_FORMAT,
						   time, first_tick, last_tick)));
}

char *
time_text(TimestampTz time)
{
	return psprintf("time " INT64_FORMAT, time);
}

TupleDesc
result_row(FunctionCallInfo fcinfo, const Oid *types, int ntypes)
{
	static const Oid expected[] = {TIMESTAMPTZOID, INT4OID, INT4OID};
	String			*name = makeString("column");

	CHECK(ntypes == lengthof(expected));
	CHECK(memcmp(types, expected, sizeof(expected)) == 0);
	return BlessTupleDesc(BuildDescFromLists(
		list_make3(name, name, name),
		list_make3_oid(expected[0], expected[1], expected[2]),
		list_make3_int(-1, -1, -1), list_make3_oid(0, 0, 0)));
}

static ReturnSetInfo rows;
static char			*text_of_rows;

ReturnSetInfo *
result_rows(FunctionCallInfo fcinfo, const Oid *types, int ntypes)
{
	static const Oid expected[] = {TEXTOID, INT4OID, INT4OID, INT8OID,
								   TEXTOID};

	CHECK(ntypes == lengthof(expected));
	CHECK(memcmp(types, expected, sizeof(expected)) == 0);
	text_of_rows = "";
	return &rows;
}

void
row_add_text(Row *row, const char *text)
{
	row_add(row, CStringGetDatum(text));
}

void
put_row(ReturnSetInfo *result, Row *row)
{
	CHECK(result == &rows);
	CHECK(row->columns == 5);
	text_of_rows =
		psprintf("%s%s %d %d " INT64_FORMAT " %s\n", text_of_rows,
				 DatumGetCString(row->value[0]), DatumGetInt32(row->value[1]),
				 DatumGetInt32(row->value[2]), DatumGetInt64(row->value[3]),
				 DatumGetCString(row->value[4]));
}

/* --- Calls -------------------------------------------------------------------- */

/* What lasts longer than a call: the place in a query where the call stands. */
static MemoryContext of_sites;

static FmgrInfo *
new_site(void)
{
	FmgrInfo *site = palloc0(sizeof(FmgrInfo));

	site->fn_mcxt = of_sites;
	return site;
}

static FmgrInfo	 *site;
static PGFunction function;
static Datum	  arguments[4];
static int		  argument_count;
static Datum	  answer;

static void
call(void)
{
	LOCAL_FCINFO(fcinfo, 4);

	InitFunctionCallInfoData(*fcinfo, site, argument_count, InvalidOid, NULL,
							 NULL);
	for (int i = 0; i < argument_count; i++)
		fcinfo->args[i] = (NullableDatum){arguments[i], false};
	answer = function(fcinfo);
	CHECK(!fcinfo->isnull);
}

/* Call a function with arguments, and the layout of the rule: the error, or "". */
static const char *
called(PGFunction callee, int count, ...)
{
	MemoryContext context = CurrentMemoryContext;
	const char	 *error;
	va_list		  list;

	function = callee;
	va_start(list, count);
	for (int i = 0; i < count; i++)
		arguments[i] = va_arg(list, Datum);
	va_end(list);
	argument_count = count;
	if (rule->text != NULL)
		arguments[argument_count++] = CStringGetTextDatum(rule->text);
	error = message_of(call);
	CHECK(CurrentMemoryContext == context);
	return error;
}

#define CHECK_ANSWER(get, expected, ...)       \
	do                                         \
	{                                          \
		CHECK(called(__VA_ARGS__)[0] == '\0'); \
		CHECK(get(answer) == (expected));      \
	} while (0)

/* --- Taking apart, and putting together ------------------------------------------ */

static const char *
meaning_by_rule(const Field *field, int64 id)
{
	int64 value = part_value(part_of(field), id);

	switch (part_of(field))
	{
		case TIMESTAMP:
			return time_text(time_of(value));
		case SEQUENCE:
			return psprintf("number " INT64_FORMAT " of 0 to " INT64_FORMAT
							" in its tick",
							value, last_of(SEQUENCE));
		default:
			break;
	}
	if (part_of(field - 1) == SHARD || part_of(field + 1) == SHARD)
		return psprintf("%s part of shard " INT64_FORMAT,
						part_of(field - 1) == SHARD ? "lower" : "upper",
						value);
	return psprintf("shard " INT64_FORMAT " of 0 to " INT64_FORMAT, value,
					last_of(SHARD));
}

static void
try_fields(int64 id)
{
	const char *expected = "";

	for (const Field *field = rule->fields; field->name; field++)
		expected = psprintf("%s%s %d %d " INT64_FORMAT " %s\n", expected,
							field->name, field->bits, bits_below(field),
							value_of(field, id), meaning_by_rule(field, id));
	site = new_site();
	CHECK(called(snowflake_fields, 1, Int64GetDatum(id))[0] == '\0');
	CHECK(strcmp(text_of_rows, expected) == 0);
}

/* A row of a call site, and then another one, which does not change the first. */
static void
try_row(int64 id)
{
	HeapTupleHeader first = NULL;

	for (int i = 0; i <= 1; i++, id = ~id)
	{
		HeapTupleHeader row;
		bool			is_null[3];

		CHECK(called(snowflake_decode, 1, Int64GetDatum(id))[0] == '\0');
		row = DatumGetHeapTupleHeader(answer);
		CHECK(GetMemoryChunkContext(row) == CurrentMemoryContext);
		CHECK(DatumGetTimestampTz(GetAttributeByNum(row, 1, &is_null[0])) ==
			  time_of(part_value(TIMESTAMP, id)));
		CHECK(DatumGetInt32(GetAttributeByNum(row, 2, &is_null[1])) ==
			  part_value(SHARD, id));
		CHECK(DatumGetInt32(GetAttributeByNum(row, 3, &is_null[2])) ==
			  part_value(SEQUENCE, id));
		CHECK(!is_null[0] && !is_null[1] && !is_null[2]);
		CHECK(row != first);
		first = row;
	}
}

static void
try_id(int64 id)
{
	Datum		of_id = Int64GetDatum(id);
	int64		tick = part_value(TIMESTAMP, id);
	int64		floor = (int64) placed(TIMESTAMP, tick);
	TimestampTz time = time_of(tick);
	TimestampTz last = time + rule->tick_us - 1;
	int32		shard = part_value(SHARD, id);
	int32		sequence = part_value(SEQUENCE, id);

	snprintf(what_is_tried, sizeof(what_is_tried), "%s of " INT64_FORMAT,
			 rule->text ? rule->text : SERVER_LAYOUT, id);
	CHECK_ANSWER(DatumGetTimestampTz, time, snowflake_timestamp, 1, of_id);
	CHECK_ANSWER(DatumGetInt32, shard, snowflake_shard, 1, of_id);
	CHECK_ANSWER(DatumGetInt32, sequence, snowflake_sequence, 1, of_id);
	try_row(id);
	try_fields(id);
	if (TIMESTAMP_NOT_FINITE(time))
		return;
	CHECK_ANSWER(DatumGetInt64, id, snowflake_encode, 3,
				 TimestampTzGetDatum(time), Int32GetDatum(shard),
				 Int32GetDatum(sequence));
	CHECK_ANSWER(DatumGetInt64, floor, snowflake_floor, 1,
				 TimestampTzGetDatum(last));
	CHECK_ANSWER(DatumGetInt64, floor + (int64) (placed(TIMESTAMP, 1) - 1),
				 snowflake_ceil, 1, TimestampTzGetDatum(last));
}

/* A number that is no shard, or no sequence number. */
static void
try_parts(void)
{
	for (int i = 0; i < 2 * 6; i++)
	{
		bool		is_shard = i < 6;
		int64		last = last_of(is_shard ? SHARD : SEQUENCE);
		const int64 values[] = {0,		  last,		   -1, PG_INT32_MIN,
								last + 1, PG_INT32_MAX};
		int64		value = values[i % 6];
		bool		is_valid = value >= 0 && value <= last;
		const char *expected =
			psprintf("%s " INT64_FORMAT " is not in 0 to " INT64_FORMAT,
					 is_shard ? "shard" : "sequence", value, last);

		if (value > PG_INT32_MAX)
			continue;
		snprintf(what_is_tried, sizeof(what_is_tried), "%s, %s", rule->text,
				 expected);
		CHECK(strcmp(called(snowflake_encode, 3, TimestampTzGetDatum(epoch()),
							Int32GetDatum(is_shard ? value : 0),
							Int32GetDatum(is_shard ? 0 : value)),
					 is_valid ? "" : expected) == 0);
	}
}

/* A time of which there is no id, or the last that there is. */
static void
try_time(TimestampTz time, bool is_valid)
{
	const char *expected =
		psprintf("time " INT64_FORMAT " is not in " INT64_FORMAT
				 " to " INT64_FORMAT,
				 time, part_value(TIMESTAMP, PG_INT64_MIN),
				 part_value(TIMESTAMP, PG_INT64_MAX));
	const PGFunction functions[] = {snowflake_floor, snowflake_ceil};

	snprintf(what_is_tried, sizeof(what_is_tried), "%s, %s", rule->text,
			 expected);
	for (int i = 0; i < lengthof(functions); i++)
		CHECK(strcmp(called(functions[i], 1, TimestampTzGetDatum(time)),
					 is_valid ? "" : expected) == 0);
	/* the time is looked at first */
	CHECK(strncmp(called(snowflake_encode, 3, TimestampTzGetDatum(time),
						 Int32GetDatum(-1), Int32GetDatum(-1)),
				  is_valid ? "shard" : expected, 5) == 0);
}

static void
try_times(void)
{
	for (int i = 0; i <= 1; i++)
	{
		TimestampTz end =
			time_of(part_value(TIMESTAMP, i ? PG_INT64_MAX : PG_INT64_MIN));

		try_time(i ? DT_NOEND : DT_NOBEGIN, false);
		if (TIMESTAMP_NOT_FINITE(end))
			continue;
		try_time(i ? end + rule->tick_us : end - 1, false);
		try_time(i ? end + rule->tick_us - 1 : end, true);
	}
}

/* --- A call site ------------------------------------------------------------------ */

/*
 * Layouts in any order: one is parsed only where it is not the last one, which alone is
 * kept.
 */
static void
try_site(pg_prng_state *chance)
{
	const Rule *last = NULL;

	site = new_site();
	site->fn_mcxt = AllocSetContextCreate(of_sites, "one call site",
										  ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < 300; i++)
	{
		const Rule a_rule = {
			.text = no_layouts[pg_prng_uint64(chance) % lengthof(no_layouts)]};
		bool		is_layout = pg_prng_uint64(chance) % 4 > 0;
		const Rule *next =
			last != NULL && pg_prng_bool(chance) ?
				last :
				&rules[1 + pg_prng_uint64(chance) % (lengthof(rules) - 1)];
		int		  before = parsed;
		CallSite *kept;

		rule = is_layout ? next : &a_rule;
		snprintf(what_is_tried, sizeof(what_is_tried), "call %d, %s", i,
				 rule->text);
		CHECK((called(snowflake_timestamp, 1, Int64GetDatum(0))[0] == '\0') ==
			  is_layout);
		CHECK(parsed == before + (rule != last));
		last = is_layout ? next : NULL;
		kept = site->fn_extra;
		CHECK((kept->layout_text == NULL) == !is_layout);
		if (!is_layout)
			continue;
		CHECK(DatumGetTimestampTz(answer) == epoch());
		CHECK(GetMemoryChunkContext(kept) == site->fn_mcxt);
		CHECK(GetMemoryChunkContext(kept->layout_text) == site->fn_mcxt);
		CHECK(GetMemoryChunkSpace(kept->layout_text) >= strlen(rule->text));
		CHECK(strncmp(kept->layout_text, rule->text, strlen(rule->text)) == 0);
	}
	CHECK(MemoryContextMemAllocated(site->fn_mcxt, true) <=
		  ALLOCSET_DEFAULT_INITSIZE);
}

/* --- A query in the place of a call ----------------------------------------------- */

static Query *
query_of(const char *sql)
{
	static const Oid types[] = {TEXTOID, TEXTARRAYOID, TEXTARRAYOID};

	return parse_analyze_fixedparams(linitial_node(RawStmt,
												   pg_parse_query(sql)),
									 sql, types, lengthof(types), NULL);
}

static Query *
replacement(void)
{
	Node request = {T_Invalid};

	return (Query *) DatumGetPointer(
		DirectFunctionCall1(snowflake_decode_support,
							PointerGetDatum(&request)));
}

/* Of any function with several columns; it is as if the parser had read it. */
static void
try_query(void)
{
	Query		  *query = query_of("SELECT * FROM pg_get_object_address("
											"'table', ARRAY['a'], '{b}'::text[])");
	RangeTblEntry *entry = linitial_node(RangeTblEntry, query->rtable);
	ListCell	  *cell;

	call_in_query =
		castNode(FuncExpr,
				 linitial_node(RangeTblFunction, entry->functions)->funcexpr);
	query = replacement();
	CHECK(equal(query,
				query_of("SELECT (pg_get_object_address($1, $2, $3)).classid, "
						 "(pg_get_object_address($1, $2, $3)).objid, "
						 "(pg_get_object_address($1, $2, $3)).objsubid")));
	foreach (cell, query->targetList)
	{
		FieldSelect *column =
			castNode(FieldSelect, lfirst_node(TargetEntry, cell)->expr);
		ListCell *argument;

		/* it does not stand in the text of the user's query */
		foreach (argument, castNode(FuncExpr, column->arg)->args)
			CHECK(lfirst_node(Param, argument)->location == -1);
	}
	call_in_query = castNode(
		FuncExpr,
		linitial_node(TargetEntry, query_of("SELECT now()")->targetList)->expr);
	CHECK(replacement() == NULL);
	call_in_query = NULL;
	CHECK(replacement() == NULL);
}

/* --- Hashes ---------------------------------------------------------------------- */

/* Hash partitioning divides what the server makes of a hash value: by shard, it is. */
static void
try_hash(PGFunction hash, Datum id, int64 number)
{
	uint64 value =
		DatumGetUInt64(DirectFunctionCall2(hash, id, UInt64GetDatum(1)));

	CHECK(hash_combine64(0, value) == part_value(SHARD, number));
}

static void
try_hashes(int64 id)
{
	snprintf(what_is_tried, sizeof(what_is_tried), "hash of " INT64_FORMAT,
			 id);
	try_hash(snowflake_shard_hash, Int64GetDatum(id), id);
	try_hash(snowflake_shard_hash_int4, Int32GetDatum((int32) id), (int32) id);
	try_hash(snowflake_shard_hash_int2, Int16GetDatum((int16) id), (int16) id);
}

/* --- Where a shard begins in a tick ------------------------------------------------- */

/*
 * Of ticks one after the other: anywhere in as many numbers as the spread has, equally
 * often, and one tick does not tell where the next begins.
 */
static void
try_spread(int spread)
{
	const int bits = Min(spread, bits_of(SEQUENCE));
	const int count = 1 << bits;
	int		 *starts = palloc0(count * sizeof(int));
	int		 *steps = palloc0(count * sizeof(int));
	int64	  before = 0;

	snprintf(what_is_tried, sizeof(what_is_tried), "spread %d", spread);
	for (int64 tick = 0; tick < 64 * count; tick++)
	{
		int64 start = layout_first_position(&the_layout, tick, spread) -
					  (tick << bits_of(SEQUENCE));

		CHECK(start >= 0 && start < count);
		starts[start]++;
		steps[(start - before) & (count - 1)]++;
		before = start;
	}
	for (int i = 0; i < count; i++)
	{
		CHECK(starts[i] >= 24 && starts[i] <= 128);
		CHECK(steps[i] >= 24 && steps[i] <= 128);
	}
}

/* --- All -------------------------------------------------------------------------- */

static void
try_rule(pg_prng_state *chance)
{
	const char	 *text = rule->text ? rule->text : SERVER_LAYOUT;
	Layout		  layout;
	MemoryContext old = MemoryContextSwitchTo(
		AllocSetContextCreate(of_sites, "calls of a layout",
							  ALLOCSET_DEFAULT_SIZES));

	read_layout_or_fail(text, strlen(text), &layout);
	site = new_site();
	for (int i = 0; i < 64; i++)
		for (int d = -1; d <= 1; d++)
		{
			try_id((int64) ((UINT64CONST(1) << i) + d));
			try_id((int64) - ((UINT64CONST(1) << i) + d));
		}
	for (int i = 0; i < 200; i++)
		try_id((int64) pg_prng_uint64(chance) >> i % 64);
	for (int i = -1; i <= 1; i++)
	{
		try_id((int64) placed(TIMESTAMP, layout.first_tick + i));
		try_id((int64) placed(TIMESTAMP, layout.last_tick + i));
	}
	try_parts();
	try_times();
	MemoryContextSwitchTo(old);
}

PG_FUNCTION_INFO_V1(decode_cases);
Datum
decode_cases(PG_FUNCTION_ARGS)
{
	static const int spreads[] = {0, 1, 3, 6, 13}; /* 12 bits are there */
	pg_prng_state	 chance;

	tried = 0;
	pg_prng_seed(&chance, 1);
	of_sites = AllocSetContextCreate(CurrentMemoryContext, "call sites",
									 ALLOCSET_DEFAULT_SIZES);
	read_layout_or_fail(SERVER_LAYOUT, strlen(SERVER_LAYOUT), &the_layout);
	for (int i = 0; i < lengthof(rules); i++)
	{
		rule = &rules[i];
		try_rule(&chance);
	}
	for (int i = 0; i < 10; i++)
		try_site(&chance);
	rule = &rules[0];
	for (int i = 0; i < 200; i++)
		try_hashes((int64) pg_prng_uint64(&chance) >> i % 64);
	for (int i = 0; i < lengthof(spreads); i++)
		try_spread(spreads[i]);
	try_query();
	PG_RETURN_INT64(tried);
}
