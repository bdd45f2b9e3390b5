/* copy_from.h -- COPY FROM in batches. See copy_from.c. */
#ifndef SNOWFLAKE_COPY_FROM_H
#define SNOWFLAKE_COPY_FROM_H

extern void copy_from_install_hook(void);

#endif /* SNOWFLAKE_COPY_FROM_H */
