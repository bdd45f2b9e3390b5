/* registry.h -- a client of the registry of leases. See registry.c. */
#ifndef SNOWFLAKE_REGISTRY_H
#define SNOWFLAKE_REGISTRY_H

#include "registry_answer.h"

/*
 * Who calls, and the fence that the call swaps for the next one: see
 * sql/snowflake_registry--1.0.sql.  "confirmed" is the fence of the last call
 * that was answered.
 */
typedef struct RegistryCaller
{
	uint64 holder;
	int64  fence;
	int64  next;
	int64  confirmed;
	uint64 registry; /* the registry's number; 0: none is known yet */
} RegistryCaller;

/*
 * Each of them false, with the failure, if it cannot be done.  A registry that
 * is not open yet is such a failure, REGISTRY_CLOSED: it has not done anything,
 * so the same call can be made again.
 */
extern bool registry_connect(RegistryFailure *failure);
extern bool registry_lease(const RegistryCaller *caller, const char *arguments,
						   RegistryAnswer *answer, RegistryFailure *failure);
extern bool registry_release(const RegistryCaller *caller,
							 const char *arguments, RegistryAnswer *answer,
							 RegistryFailure *failure);
extern void registry_disconnect(void);

/* The arguments that a call has besides its caller, while connected. */
extern char *registry_lease_arguments(const Lease *held, int nheld,
									  const int32 *preferred, int npreferred);
extern char *registry_release_arguments(const Lease *leases, int nleases);

#endif /* SNOWFLAKE_REGISTRY_H */
