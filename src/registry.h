/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  A client of the registry of leases.  See registry.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REGISTRY_H
#define SNOWFLAKE_REGISTRY_H

#include "held.h"

/*
 * Who calls, and the fence that the call swaps for the next one: see
 * sql/snowflake_registry--1.0.sql.
 */
typedef struct RegistryCaller
{
	uint64 holder;
	int64  fence;
	int64  next;
} RegistryCaller;

typedef struct RegistryAnswer
{
	bool		is_clone; /* another server calls in the holder's name: */
	char		clone[HELD_OTHER_SIZE];
	TimestampTz now;   /* by the registry's clock */
	int			held;  /* so many shards */
	Lease	   *lease; /* in ascending order, allocated */
	int			refusals;
	Refusal		refusal[HELD_MAX_REFUSALS];
} RegistryAnswer;

/* Each of them false, with the reason, if it cannot be done. */
extern bool registry_connect(char *reason);
extern bool registry_lease(const RegistryCaller *caller, const char *arguments,
						   RegistryAnswer *answer, char *reason);
extern bool registry_release(const RegistryCaller *caller,
							 const char *arguments, bool *is_clone,
							 char *reason);
extern void registry_disconnect(void);

/* The arguments that a call has besides its caller, while connected. */
extern char *registry_lease_arguments(const Lease *held, int nheld,
									  const int32 *preferred, int npreferred);
extern char *registry_release_arguments(const Lease *leases, int nleases);

#endif /* SNOWFLAKE_REGISTRY_H */
