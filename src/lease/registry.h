/* registry.h -- a client of the registry of leases. See registry.c. */
#ifndef SNOWFLAKE_REGISTRY_H
#define SNOWFLAKE_REGISTRY_H

#include "registry_answer.h"

/*
 * Each of them false, with the failure, if it cannot be done.  A registry that
 * is not open yet is such a failure, REGISTRY_CLOSED: it has not done anything,
 * so the same call can be made again.
 */
extern bool registry_connect(RegistryFailure *failure);
extern bool registry_call(const char *function, const LeaseCaller *caller,
						  const char *arguments, RegistryAnswer *answer,
						  RegistryFailure *failure);
extern void registry_disconnect(void);

/* The arguments that a call has besides its caller, while connected. */
extern char *registry_lease_arguments(const Lease *held, int nheld,
									  const Lease *known, int nknown);
extern char *registry_release_arguments(const Lease *leases, int nleases);

#endif /* SNOWFLAKE_REGISTRY_H */
