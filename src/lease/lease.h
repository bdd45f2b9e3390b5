/* lease.h -- what a lease is, and what the registry says of it. */
#ifndef SNOWFLAKE_LEASE_H
#define SNOWFLAKE_LEASE_H

#include "datatype/timestamp.h"

#define LEASE_REASON_SIZE 512
#define LEASE_HINT_SIZE 256
#define LEASE_OTHER_SIZE 160
#define LEASE_MAX_REFUSALS 64
#define LEASE_MAX_LOSSES 16

typedef enum LeaseKind
{
	NOT_HELD, /* given back, or about to be, or taken away */
	HELD_HERE,
	HELD_FORGOTTEN /* by the registry; here it is held until it ends */
} LeaseKind;

/* Ids of the shard whose time lies in [from, until).  As it is stored. */
typedef struct Lease
{
	TimestampTz from;
	TimestampTz until;
	int32		shard;
	int32		kind; /* a LeaseKind */
} Lease;

/*
 * Who calls the registry, and the fence that the call swaps for the next one: see
 * sql/snowflake_registry--1.0.sql.  As it is stored.
 */
typedef struct LeaseCaller
{
	uint64 holder;	  /* a random number; 0: none yet */
	int64  fence;	  /* in the registry, as far as this server knows */
	int64  next;	  /* 0: no call is under way or unanswered */
	uint64 call;	  /* else a hash of that call's arguments */
	int64  confirmed; /* the last fence that an answer confirmed */
	uint64 registry;  /* its number; 0: no registry has answered yet */
} LeaseCaller;

/* Why this server does not get a shard that it wants. */
typedef enum RefusalKind
{
	REFUSED_TAKEN,	   /* "other" has it until "until" */
	REFUSED_FENCED,	   /* no lease begins before "until" */
	REFUSED_RESERVED,  /* for "other", for good */
	REFUSED_EXHAUSTED, /* "auto": none is free; one is at "until" */
	REFUSED_LIMITED	   /* it gives no more than "other" */
} RefusalKind;

typedef struct Refusal
{
	RefusalKind kind;
	int32		shard; /* or ANY_SHARD */
	TimestampTz until; /* DT_NOEND: unknown */
	char		other[LEASE_OTHER_SIZE];
} Refusal;

/* What hindered the worker: a class, which every user may know ... */
typedef enum RegistryFailureKind
{
	REGISTRY_ANSWERED, /* nothing did */
	REGISTRY_AWAY,
	REGISTRY_SILENT,
	REGISTRY_REFUSED,
	REGISTRY_CLOSED,
	REGISTRY_INVALID,
	REGISTRY_UNSTORED /* what it leased could not be stored */
} RegistryFailureKind;

/* ... and the words and the way out, which only administrators may. */
typedef struct RegistryFailure
{
	RegistryFailureKind kind;
	char				text[LEASE_REASON_SIZE];
	char				hint[LEASE_HINT_SIZE]; /* empty: there is none */
} RegistryFailure;

/* The registry has lost something, such as a lease of this server. */
typedef struct LeaseLoss
{
	Lease lease; /* its shard can be ANY_SHARD */
	char  what[LEASE_OTHER_SIZE];
} LeaseLoss;

#define LEASE_LOSS_HINT                                                         \
	"Ids can exist twice. Count this server's ids of that shard and time with " \
	"snowflake_audit(), and look for the same ids on the other server."

/* What the worker tells of the registry's last answer, and of its last attempt. */
typedef struct LeaseOutcome
{
	TimestampTz answered_at; /* by the registry's clock; 0: never */
	int64		asked_us; /* the call began, by this server's steady clock */
	int64		answered_us; /* its answer came, by the same */
	int			refusals;
	Refusal		refusal[LEASE_MAX_REFUSALS];
	RegistryFailure failure; /* of the last attempt */
} LeaseOutcome;

/* Is a shard reserved in the registry, so that no server leases it? */
typedef enum Reservation
{
	RESERVED_UNKNOWN, /* it does not answer */
	RESERVED_TOO_MANY,
	RESERVED_NOT,
	RESERVED_YES
} Reservation;

#endif /* SNOWFLAKE_LEASE_H */
