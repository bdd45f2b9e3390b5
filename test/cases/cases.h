/*-------------------------------------------------------------------------
 *
 * cases.h
 *	  What tables of cases share: each condition is counted, and one that does not hold is
 *	  an error, which says where, and what was tried.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
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

/* To see that a function leaves no file open. */
static int
first_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}
