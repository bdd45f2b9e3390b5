/*-------------------------------------------------------------------------
 *
 * cases.h
 *	  What tables of cases share: each condition is counted, and one that does not hold is
 *	  an error, which says where, and what was tried.  And how errors are caught.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CASES_H
#define SNOWFLAKE_CASES_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int64 tried;
static char	 what_is_tried[200];

#define CHECK(condition)                                           \
	do                                                             \
	{                                                              \
		tried++;                                                   \
		if (!(condition))                                          \
			elog(ERROR, "line %d, attempt %lld: %s: %s", __LINE__, \
				 (long long) tried, #condition, what_is_tried);    \
	} while (0)

/* The error that a function raises; NULL if none. */
pg_attribute_unused() static ErrorData *raised_by(void (*function)(void))
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData *volatile error = NULL;

	PG_TRY();
	{
		function();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	return error;
}

/* An error with all that a caller sees; "" if there is none. */
pg_attribute_unused() static const char *error_text(ErrorData *error)
{
	const char *text;

	if (error == NULL)
		return "";
	text = psprintf("%s: %s%s%s%s%s", unpack_sql_state(error->sqlerrcode),
					error->message, error->detail ? "; " : "",
					error->detail ? error->detail : "",
					error->hint ? "; " : "", error->hint ? error->hint : "");
	FreeErrorData(error);
	return text;
}

/* The message of what a function raises; "" if none. */
pg_attribute_unused() static const char *message_of(void (*function)(void))
{
	ErrorData *error = raised_by(function);

	return error ? error->message : "";
}

/* Call a function in a new directory, which is removed afterwards. */
pg_attribute_unused() static void in_directory(const char *name,
											   void (*function)(void))
{
	if (mkdir(name, 0700) != 0 || chdir(name) != 0)
		elog(ERROR, "there is no place to write to");
	PG_TRY();
	{
		function();
	}
	PG_FINALLY();
	{
		if (chdir("..") != 0)
			elog(FATAL, "there is no way back");
		(void) !system(psprintf("rm -rf %s", name));
	}
	PG_END_TRY();
}

/* To see that a function leaves no file open. */
pg_attribute_unused() static int first_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

/* Where a page of new memory ends; nobody can read the next one. */
pg_attribute_unused() static char *end_of_new_page(void)
{
	size_t size = sysconf(_SC_PAGESIZE);
	char  *pages = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + size, size, PROT_NONE) != 0)
		elog(ERROR, "there is no page");
	return pages + size;
}

#endif /* SNOWFLAKE_CASES_H */
