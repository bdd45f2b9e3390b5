/* copy_from.h -- COPY FROM in batches. See copy_from.c. */
#ifndef SNOWFLAKE_COPY_FROM_H
#define SNOWFLAKE_COPY_FROM_H

extern bool copy_from_set(bool is_copy_from);

#endif /* SNOWFLAKE_COPY_FROM_H */
