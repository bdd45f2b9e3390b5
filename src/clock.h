/* clock.h -- a clock that nobody can set, and waiting. See clock.c. */
#ifndef SNOWFLAKE_CLOCK_H
#define SNOWFLAKE_CLOCK_H

#include "port/atomics.h"
#include "storage/condition_variable.h"

/* What pg_stat_activity shows of a wait; the number is found when it is needed. */
typedef struct WaitName
{
	const char *name;
	uint32		number;
} WaitName;

extern int64 steady_clock_us(void);
extern bool	 may_log_now(pg_atomic_uint64 *after, int64 interval_us);
extern int64 wait_outside_locks(int64 us, WaitName *event,
								ConditionVariable *condition);

#endif /* SNOWFLAKE_CLOCK_H */
