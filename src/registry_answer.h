/*-------------------------------------------------------------------------
 *
 * registry_answer.h
 *	  Reading what the registry answers.  See registry_answer.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REGISTRY_ANSWER_H
#define SNOWFLAKE_REGISTRY_ANSWER_H

#include "libpq-fe.h"

#include "registry.h"

typedef struct AnswerReader
{
	RegistryAnswer	*answer;
	RegistryFailure *failure;
	int				 rows; /* read so far */
	int				 room; /* for leases */
	int32			 last_shard;
	bool			 has_set_aside;
	bool			 is_over;	/* no row may follow */
	uint8			*has_shard; /* a bit for each: there was a row about it */
} AnswerReader;

/* The columns of an answer, to select from either function. */
extern const char *const registry_answer_columns;

extern void registry_answer_begin(AnswerReader *reader, RegistryAnswer *answer,
								  RegistryFailure *failure);
extern bool registry_answer_read(void *reader, const PGresult *rows);
extern bool registry_answer_end(AnswerReader *reader);

/* Note why nothing can be done, in words that can be printed; return false. */
extern bool registry_fail(RegistryFailure *failure, RegistryFailureKind kind,
						  const char *format, ...) pg_attribute_printf(3, 4);
extern void registry_hint(RegistryFailure *failure, const char *format, ...)
	pg_attribute_printf(2, 3);

#endif /* SNOWFLAKE_REGISTRY_ANSWER_H */
