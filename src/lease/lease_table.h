/* lease_table.h -- this server's leases, in shared memory. See lease_table.c. */
#ifndef SNOWFLAKE_LEASE_TABLE_H
#define SNOWFLAKE_LEASE_TABLE_H

#include "lease_record.h"
#include "positions.h"

typedef struct HeldLease
{
	Lease lease;
	bool  is_counted; /* by the common end: its shard can be open */
} HeldLease;

typedef struct LeaseTable
{
	pg_atomic_uint32 asked; /* a session wants an attempt */
	Worker			 worker;
	TimestampTz	 end; /* the common end; DT_NOBEGIN: no shard may be open */
	int64		 ended_us; /* the last attempt, by a steady clock; or 0 */
	uint64		 holder;   /* 0: none yet */
	LeaseOutcome outcome;
	int			 losses; /* the last ones are in "loss" */
	LeaseLoss	 loss[LEASE_MAX_LOSSES];
	Reservation	 reservation; /* RESERVED_YES: the list is there */
	int			 count;		  /* of leases, in ascending order of shards */
	HeldLease	 held[FLEXIBLE_ARRAY_MEMBER]; /* room for all shards */
} LeaseTable;

extern Size leases_shmem_size(void);
extern void leases_shmem_startup(void);

/* for sessions */
extern const OwnShards *leases_own_shards(void);
extern Worker		   *leases_worker(void);
extern void				leases_ask(void);
extern Reservation		leases_reservation(int32 shard);
extern LeaseTable	   *leases_copy(void);
extern char			   *leases_text(const int32 *shard, int count);

/* for the worker that leases, alone */
extern void leases_begin_worker(void);
extern bool leases_take_request(void);
extern void leases_publish(const LeaseRecord *record, bool is_on_disk);
extern void leases_end_attempt(const LeaseOutcome *outcome);
extern void leases_forget_outcome(void);
extern void leases_note_loss(const LeaseLoss *loss);
extern void leases_note_reserved(const bool *reserved);

#endif /* SNOWFLAKE_LEASE_TABLE_H */
