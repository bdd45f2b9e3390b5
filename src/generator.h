/*-------------------------------------------------------------------------
 *
 * generator.h
 *	  Minting.  See generator.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_GENERATOR_H
#define SNOWFLAKE_GENERATOR_H

extern Size generator_shmem_size(void);
extern void generator_shmem_startup(void);

#endif /* SNOWFLAKE_GENERATOR_H */
