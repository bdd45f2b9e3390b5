/*-------------------------------------------------------------------------
 *
 * server.h
 *	  As much of a server as the sources under the fuzzers ask for.
 *
 * Each harness includes the source that it feeds, so that private functions
 * can be called, and then this, so that it links without a server.  An error
 * formats its message, as that may read too far, and leaves by a jump.
 * snprintf and the like are the server's own, of its libpgport.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FUZZ_SERVER_H
#define FUZZ_SERVER_H

#include "postgres.h"

#include <setjmp.h>

/* What must hold.  The fuzzer takes an abort for a find. */
#define must(condition) \
	((condition) ? (void) 0 : fail_here(#condition, __FILE__, __LINE__))

/* where an error goes */
static sigjmp_buf fuzz_error pg_attribute_unused();

static inline void
fail_here(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
	abort();
}

extern int LLVMFuzzerTestOneInput(const uint8 *data, size_t size);

#ifdef FUZZ_ERRORS

#define FORMAT_MESSAGE(format)                                          \
	do                                                                  \
	{                                                                   \
		char	message[1024];                                          \
		va_list args;                                                   \
                                                                        \
		va_start(args, format);                                         \
		must(vsnprintf(message, sizeof(message), format, args) < 1024); \
		va_end(args);                                                   \
		return 0;                                                       \
	} while (0)

bool
errstart(int elevel, const char *domain)
{
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return true;
}

int
errcode(int sqlerrcode)
{
	return 0;
}

int
errmsg(const char *format, ...)
{
	FORMAT_MESSAGE(format);
}

int
errmsg_internal(const char *format, ...)
{
	FORMAT_MESSAGE(format);
}

int
errdetail(const char *format, ...)
{
	FORMAT_MESSAGE(format);
}

int
errhint(const char *format, ...)
{
	FORMAT_MESSAGE(format);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	siglongjmp(fuzz_error, 1);
}

void *
palloc(Size size)
{
	return malloc(size);
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

#endif /* FUZZ_ERRORS */

#endif /* FUZZ_SERVER_H */
