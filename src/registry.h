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

#define REGISTRY_MAX_LOSSES 16

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

/* What the registry forgot, as the call proved to it. */
typedef struct RegistryLoss
{
	int32		shard; /* HELD_ANY: none in particular */
	TimestampTz from;  /* of the lease that the caller presented */
	TimestampTz until;
	char		what[HELD_OTHER_SIZE];
} RegistryLoss;

/*
 * An answer.  Everything in it has been checked: shards are the layout's, times
 * are finite (but for DT_NOEND where it says so), and texts can be printed.
 */
typedef struct RegistryAnswer
{
	bool		 is_clone; /* another server calls in the holder's name: */
	char		 clone[HELD_OTHER_SIZE];
	uint64		 registry; /* its number; 0: is_clone */
	TimestampTz	 now;	   /* by the registry's clock */
	int			 held;	   /* so many shards */
	Lease		*lease;	   /* in ascending order, allocated */
	int			 refusals;
	Refusal		 refusal[HELD_MAX_REFUSALS];
	int			 losses; /* the registry has fenced itself because of them */
	RegistryLoss loss[REGISTRY_MAX_LOSSES];
	int			 set_aside;		  /* reserved shards; -1: too many to tell */
	int32		*set_aside_shard; /* in ascending order, allocated */
} RegistryAnswer;

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
