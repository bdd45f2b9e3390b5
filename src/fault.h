/*-------------------------------------------------------------------------
 *
 * fault.h
 *	  Rules that can be switched off, to see that a test finds it.
 *
 * A build with -DSNOWFLAKE_FAULT=NAME breaks the rule at FAULT(NAME), and no
 * other one.  In an ordinary build FAULT() is false, and nothing of it is in the
 * objects.  test/hard/faults.pl says which test finds each fault.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_FAULT_H
#define SNOWFLAKE_FAULT_H

#ifdef SNOWFLAKE_FAULT
#define FAULT(name) (strcmp(CppAsString2(SNOWFLAKE_FAULT), #name) == 0)
#else
#define FAULT(name) false
#endif

#endif /* SNOWFLAKE_FAULT_H */
