/*
 * errors.h -- errors that more than one file raises, and what messages are
 * made of. See errors.c.
 */
#ifndef SNOWFLAKE_ERRORS_H
#define SNOWFLAKE_ERRORS_H

#include "compat.h"
#include "layout.h"

extern ErrorData *caught_error(void (*check)(bool patient));
extern void		  read_layout_or_fail(const char *text, size_t length,
									  Layout *layout);

/* texts, allocated */
extern char *hint_of_layout(const LayoutError *error);
extern char *layout_name(const Layout *layout);
extern char *time_text(TimestampTz time);
extern char *duration_text(int64 us);
extern char *number_text(uint64 number);

pg_noreturn extern void report_part_range(const Layout *layout,
										  const char *part, int32 value,
										  int64 last);
pg_noreturn extern void report_time_range(const Layout *layout,
										  TimestampTz time, int64 first_tick,
										  int64 last_tick);
extern int64 present_mint_tick(const Layout *layout, TimestampTz now);

#endif /* SNOWFLAKE_ERRORS_H */
