/* wait.h -- the one place that waits. See wait.c. */
#ifndef SNOWFLAKE_WAIT_H
#define SNOWFLAKE_WAIT_H

#include "storage/condition_variable.h"

extern int64 steady_clock_us(void);
extern int64 wait_outside_locks(int64 us, uint32 wait_event,
								ConditionVariable *condition);

#endif /* SNOWFLAKE_WAIT_H */
