/*-------------------------------------------------------------------------
 *
 * report.h
 *	  Errors that more than one file raises.  See report.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REPORT_H
#define SNOWFLAKE_REPORT_H

#include "layout.h"

extern void report_invalid_layout(const LayoutError *error)
	pg_attribute_noreturn();
extern void report_part_range(const Layout *layout, const char *part,
							  int32 value, int64 last) pg_attribute_noreturn();
extern void report_time_range(const Layout *layout, TimestampTz time,
							  int64 first_tick, int64 last_tick)
	pg_attribute_noreturn();

#endif /* SNOWFLAKE_REPORT_H */
