/* lease_record.h -- the leases of this server, on disk. See lease_record.c. */
#ifndef SNOWFLAKE_LEASE_RECORD_H
#define SNOWFLAKE_LEASE_RECORD_H

#include "lease.h"
#include "record.h"

typedef struct LeaseRecord
{
	uint64		incarnation; /* of the server */
	LeaseCaller caller;
	int			count;
	Lease	   *lease; /* in ascending order of shards; room for all */
} LeaseRecord;

extern const char *lease_record_read(LeaseRecord *record);
extern bool lease_record_write(const LeaseRecord *record, Trouble *trouble);

extern bool	  lease_record_holds(const LeaseRecord *record, int32 shard);
extern int32 *lease_record_held(const LeaseRecord *record, int *count);
extern Lease *lease_record_claims(const LeaseRecord *record, int *count);

#endif /* SNOWFLAKE_LEASE_RECORD_H */
