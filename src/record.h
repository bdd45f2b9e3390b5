/*-------------------------------------------------------------------------
 *
 * record.h
 *	  The horizon's record, and the file that holds it.  See record.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_RECORD_H
#define SNOWFLAKE_RECORD_H

#include "identity.h"
#include "layout.h"
#include "port/pg_crc32c.h"

/* What is on disk and in the WAL. */
typedef struct HorizonRecord
{
	uint32		magic;
	uint32		version;
	TimestampTz horizon; /* no id is later than or at this time */
	char		layout[LAYOUT_TEXT_SIZE]; /* as layout_format() writes it */
	Identity	writer;
	uint32		changes; /* of the layout so far */
	pg_crc32c	crc;	 /* of all before it */
} HorizonRecord;

extern void record_make(HorizonRecord *record, TimestampTz horizon,
						const char *layout, uint32 changes,
						const Identity *writer);
extern bool record_parse(HorizonRecord *record, const char *bytes, int length,
						 char *reason, size_t size);
extern bool record_read_file(HorizonRecord *record, bool *found, char *reason,
							 size_t size);
extern bool record_write_file(const HorizonRecord *record, char *reason,
							  size_t size);

#endif /* SNOWFLAKE_RECORD_H */
