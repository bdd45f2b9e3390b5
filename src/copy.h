/*-------------------------------------------------------------------------
 *
 * copy.h
 *	  COPY FROM in batches.  See copy.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_COPY_H
#define SNOWFLAKE_COPY_H

extern void copy_install_hook(void);

#endif /* SNOWFLAKE_COPY_H */
