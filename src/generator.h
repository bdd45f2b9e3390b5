/*-------------------------------------------------------------------------
 *
 * generator.h
 *	  Minting.  See generator.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_GENERATOR_H
#define SNOWFLAKE_GENERATOR_H

extern void generator_install_hooks(void);

#endif /* SNOWFLAKE_GENERATOR_H */
