/* lease_record.h -- the leases of this server, on disk. See lease_record.c. */
#ifndef SNOWFLAKE_LEASE_RECORD_H
#define SNOWFLAKE_LEASE_RECORD_H

#include "lease.h"
#include "record.h"

typedef struct LeaseRecord
{
	LeaseCaller caller;
	int			count;
	Lease	   *lease; /* in ascending order of shards; room for all */
} LeaseRecord;

extern bool lease_record_read(LeaseRecord *record, uint64 incarnation,
							  char *reason);
extern bool lease_record_write(const LeaseRecord *record, uint64 incarnation,
							   Trouble *trouble);

extern bool	  lease_record_holds(const LeaseRecord *record, int32 shard);
extern Lease *lease_record_claims(const LeaseRecord *record, int *count);
extern int32 *lease_record_shards(const LeaseRecord *record, bool held_alone,
								  int *count);

#endif /* SNOWFLAKE_LEASE_RECORD_H */
