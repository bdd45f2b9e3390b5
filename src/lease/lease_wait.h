/* lease_wait.h -- waiting for a lease, or learning why there is none. */
#ifndef SNOWFLAKE_LEASE_WAIT_H
#define SNOWFLAKE_LEASE_WAIT_H

#include "lease_table.h"

extern void		   leases_install(void);
extern int64	   lease_clock_ahead_us(const LeaseOutcome *outcome);
extern void		   lease_check(bool patient);
extern const char *lease_failure_code(const RegistryFailure *failure);
extern const char *lease_failure_way_out(const RegistryFailure *failure);

#endif /* SNOWFLAKE_LEASE_WAIT_H */
