/*-------------------------------------------------------------------------
 *
 * report.h
 *	  Errors that more than one file raises, and how often the log is told.
 *	  See report.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REPORT_H
#define SNOWFLAKE_REPORT_H

#include "compat.h"
#include "layout.h"
#include "port/atomics.h"

extern bool may_log_now(pg_atomic_uint64 *after, int64 interval_us);

pg_noreturn extern void report_invalid_layout(const LayoutError *error);
pg_noreturn extern void report_part_range(const Layout *layout,
										  const char *part, int32 value,
										  int64 last);
pg_noreturn extern void report_time_range(const Layout *layout,
										  TimestampTz time, int64 first_tick,
										  int64 last_tick);

#endif /* SNOWFLAKE_REPORT_H */
