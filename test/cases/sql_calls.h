/*-------------------------------------------------------------------------
 *
 * sql_calls.h
 *	  SQL in a table of cases: the functions of a file are called as a user calls them, and
 *	  what they give is compared as text.
 *
 * All that SQL does is undone at the end, so a table finds nothing of an earlier run.
 *
 *-------------------------------------------------------------------------
 */
#include "access/transam.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/resowner.h"

#include "cases.h"

static const char	 *library;	/* this one, for CREATE FUNCTION */
static int			  warnings; /* as of what a function has left open */
static const char	 *statement;
static StringInfoData answer;

/* Execute it here and now; also within a function that SQL has called. */
pg_attribute_unused() static void execute(const char *sql)
{
	SPI_connect();
	if (SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "SPI does not execute this: %s", sql);
	SPI_finish();
}

static void
run_statement(void)
{
	SPI_connect();
	if (SPI_execute(statement, false, 0) < 0)
		elog(ERROR, "SPI does not execute this");
	for (uint64 i = 0; SPI_tuptable != NULL && i < SPI_processed; i++)
	{
		for (int column = 1; column <= SPI_tuptable->tupdesc->natts; column++)
		{
			char *value = SPI_getvalue(SPI_tuptable->vals[i],
									   SPI_tuptable->tupdesc, column);

			appendStringInfo(&answer, "%s%s",
							 column > 1		? "|" :
							 answer.len > 0 ? " " :
											  "",
							 value ? value : "-");
		}
	}
	SPI_finish();
}

/*
 * What a statement gives: a word for each row, with "|" between columns, and "-" for
 * NULL; or its error, which undoes it.
 */
static const char *answer_to(const char *format, ...)
	pg_attribute_printf(1, 2);

static const char *
answer_to(const char *format, ...)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData	 *error;
	va_list		  arguments;
	char		  text[2000];

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	statement = text;
	snprintf(what_is_tried, sizeof(what_is_tried), "%s", text);
	initStringInfo(&answer);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	error = raised_by(run_statement);
	if (error)
		RollbackAndReleaseCurrentSubTransaction();
	else
		ReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error ? error_text(error) : answer.data;
}

/* The statement that follows gives this, and leaves nothing open. */
#define CHECK_ANSWER(expected, ...)                                  \
	do                                                               \
	{                                                                \
		const char *given = answer_to(__VA_ARGS__);                  \
                                                                     \
		if (strcmp(given, expected) != 0)                            \
			snprintf(what_is_tried, sizeof(what_is_tried), "%s: %s", \
					 pstrdup(what_is_tried), given);                 \
		CHECK(strcmp(given, expected) == 0);                         \
		CHECK(warnings == 0);                                        \
	} while (0)

/* The statement succeeds, and gives no rows. */
#define DO(...) CHECK_ANSWER("", __VA_ARGS__)

static void
count_warnings(ErrorData *error)
{
	if (error->elevel == WARNING)
		warnings++;
}

/* Call a function, and undo all that it has done by SQL. */
static void
and_undo(void (*function)(void))
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	function();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
}

static void (*cases_by_sql)(void);

static void
try_in_schema(void)
{
	DO("CREATE SCHEMA s");
	DO("SET LOCAL search_path = s");
	DO("SET LOCAL allow_system_table_mods = on");
	cases_by_sql();
}

/* Try cases in a schema "s" of their own; "self" is the function of the table. */
static void
try_by_sql(Oid self, void (*try_cases)(void))
{
	emit_log_hook_type hook = emit_log_hook;

	library = answer_to("SELECT probin FROM pg_proc WHERE oid = %u", self);
	cases_by_sql = try_cases;

	/* a server that has never run would give those of its own objects */
	while (GetNewObjectId() < FirstNormalObjectId)
		;
	emit_log_hook = count_warnings;
	warnings = 0;
	PG_TRY();
	{
		and_undo(try_in_schema);
	}
	PG_FINALLY();
	{
		emit_log_hook = hook;
	}
	PG_END_TRY();
}
