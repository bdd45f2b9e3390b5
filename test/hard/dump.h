/*
 * dump.h -- write coverage before each wait
 *
 * check.sh has it included before each source file.  The tests stop most
 * servers by force, and the background worker would count for nothing then.
 */
#include "postgres.h"

#include "storage/latch.h"

extern void __gcov_dump(void);
extern void __gcov_reset(void);

#define WaitLatch(...) \
	(__gcov_dump(), __gcov_reset(), (WaitLatch) (__VA_ARGS__))
