/*
 * same_name.c
 *	  A library that has a function of our name, and was loaded before ours, as
 *	  pgEdge's library can be.
 */
#include <stdlib.h>

void
snowflake_nextval(void)
{
	abort();
}
