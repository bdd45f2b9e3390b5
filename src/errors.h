/*
 * errors.h -- errors that more than one file raises, and what messages are
 * made of. See errors.c.
 */
#ifndef SNOWFLAKE_ERRORS_H
#define SNOWFLAKE_ERRORS_H

#include "compat.h"
#include "layout.h"
#include "port/atomics.h"

/* holds any time span as report_format_duration() writes it */
#define REPORT_DURATION_SIZE 40

extern char *hint_of_layout(const LayoutError *error);
extern void	 report_format_duration(int64 us, char *buffer);

extern bool may_log_now(pg_atomic_uint64 *after, int64 interval_us);

pg_noreturn extern void report_invalid_layout(const LayoutError *error);
pg_noreturn extern void report_part_range(const Layout *layout,
										  const char *part, int32 value,
										  int64 last);
pg_noreturn extern void report_time_range(const Layout *layout,
										  TimestampTz time, int64 first_tick,
										  int64 last_tick);

pg_noreturn extern void report_no_mint_time(const Layout *layout,
											TimestampTz	  now);

pg_noreturn extern void report_no_worker(void);

#endif /* SNOWFLAKE_ERRORS_H */
