/* registry_answer.h -- reading what the registry answers. See registry_answer.c. */
#ifndef SNOWFLAKE_REGISTRY_ANSWER_H
#define SNOWFLAKE_REGISTRY_ANSWER_H

#include "lease.h"

struct pg_result;

/*
 * An answer.  Everything in it has been checked: shards are the layout's, times
 * are finite (but for DT_NOEND where it says so), and texts can be printed.
 */
typedef struct RegistryAnswer
{
	bool		is_clone; /* another server calls in the holder's name: */
	char		clone[LEASE_OTHER_SIZE];
	uint64		registry; /* its number; 0: is_clone */
	TimestampTz now;	  /* by the registry's clock */
	int			held;	  /* so many shards */
	Lease	   *lease;	  /* in ascending order, allocated */
	int			refusals;
	Refusal		refusal[LEASE_MAX_REFUSALS];
	int			losses; /* the registry has fenced itself because of them */
	LeaseLoss	loss[LEASE_MAX_LOSSES];
	bool *reserved; /* for each shard; NULL: too many to tell; allocated */
} RegistryAnswer;

typedef struct AnswerReader
{
	RegistryAnswer	*answer;
	RegistryFailure *failure;
	int				 rows; /* read so far */
	int				 room; /* for leases */
	int32			 last_shard;
	bool			 has_reserved;
	bool			 is_over;	/* no row may follow */
	bool			*has_shard; /* for each: there was a row about it */
} AnswerReader;

/* The columns of an answer, to select from either function. */
extern const char *const registry_answer_columns;

extern void registry_answer_begin(AnswerReader *reader, RegistryAnswer *answer,
								  int32 last_shard, RegistryFailure *failure);
extern bool registry_answer_read(void *reader, const struct pg_result *rows);
extern bool registry_answer_end(AnswerReader *reader);

#define INVALID_ANSWER "the registry's answer is not valid: "

/* Note why nothing can be done, in words that can be printed; return false. */
extern bool registry_fail(RegistryFailure *failure, RegistryFailureKind kind,
						  const char *format, ...) pg_attribute_printf(3, 4);
extern void registry_hint(RegistryFailure *failure, const char *format, ...)
	pg_attribute_printf(2, 3);

#endif /* SNOWFLAKE_REGISTRY_ANSWER_H */
