/*
 * lease_record.h -- the leases of this server, on disk. See
 * lease_record.c.
 */
#ifndef SNOWFLAKE_LEASE_RECORD_H
#define SNOWFLAKE_LEASE_RECORD_H

#include "held.h"
#include "record.h"

/* As it is stored. */
typedef struct LeaseEntry
{
	TimestampTz from;
	TimestampTz until;
	int32		shard;
	int32		held; /* a HoldKind */
} LeaseEntry;

typedef enum HoldKind
{
	GIVEN_BACK, /* or taken away */
	HELD_HERE,
	HELD_UNKNOWN /* to the registry, which has lost it: until it ends */
} HoldKind;

typedef struct LeaseRecord
{
	uint64		holder; /* a random number */
	int64		fence;	/* in the registry, as far as this server knows */
	int64		next;	/* 0: no call is under way, or was left unanswered */
	uint64		call;	/* else a hash of that call's arguments */
	int64		confirmed; /* the last fence that an answer confirmed */
	uint64		registry;  /* its number; 0: no registry has answered yet */
	int			count;
	LeaseEntry *entry; /* in ascending order of shards; room for all */
} LeaseRecord;

extern bool lease_record_read(LeaseRecord *record, uint64 incarnation,
							  char *reason);
extern bool lease_record_write(const LeaseRecord *record, uint64 incarnation,
							   Trouble *trouble);

#endif /* SNOWFLAKE_LEASE_RECORD_H */
