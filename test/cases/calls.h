/*-------------------------------------------------------------------------
 *
 * calls.h
 *	  What a file calls below it, as text: each call adds a word or more, with a blank
 *	  before.  A case compares the text with what it should be.
 *
 * A case that calls too often is an error: it would never end.
 *
 *-------------------------------------------------------------------------
 */
#include "cases.h"

#define MOST_CALLS 10000

static char calls[2000];
static int	call_count;

static void called(const char *format, ...) pg_attribute_printf(1, 2);

static void
called(const char *format, ...)
{
	size_t	length = strlen(calls);
	va_list arguments;

	if (call_count++ > MOST_CALLS)
		elog(ERROR, "it does not end: %s", what_is_tried);
	va_start(arguments, format);
	vsnprintf(calls + length, sizeof(calls) - length, format, arguments);
	va_end(arguments);
}

static void
forget_calls(void)
{
	calls[0] = '\0';
	call_count = 0;
}

/* What was called since the last look at it. */
#define CHECK_CALLS(expected)                                              \
	do                                                                     \
	{                                                                      \
		if (strcmp(calls, expected) != 0)                                  \
			snprintf(what_is_tried, sizeof(what_is_tried), "it called:%s", \
					 calls);                                               \
		CHECK(strcmp(calls, expected) == 0);                               \
		forget_calls();                                                    \
	} while (0)

/* The error that a function raises, with all that a caller sees; "" if none. */
pg_attribute_unused() static const char *error_of(void (*function)(void))
{
	return error_text(raised_by(function));
}
