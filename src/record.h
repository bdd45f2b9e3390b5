/* record.h -- the server's records, in files and on pages. See record.c. */
#ifndef SNOWFLAKE_RECORD_H
#define SNOWFLAKE_RECORD_H

#include "access/xlogdefs.h"
#include "identity.h"
#include "layout.h"
#include "port/pg_crc32c.h"

/* Of the same fields.  Each has a file, and a page in the WAL. */
typedef enum RecordKind
{
	HORIZON_RECORD,
	LAYOUT_RECORD
} RecordKind;

/* As it is on disk and in the WAL.  The layout's has neither horizon nor writer. */
typedef struct Record
{
	uint32 magic; /* this, the version and the checksum: when it is stored */
	uint32 version;
	TimestampTz horizon; /* no id is at or after this time; DT_NOBEGIN: none */
	char		layout[LAYOUT_TEXT_SIZE]; /* as layout_format() writes it */
	Identity	writer;
	uint32		layout_changes; /* how often the layout was changed */
	pg_crc32c	crc;			/* of all bytes before it */
} Record;

/* What went wrong with a record.  The way out depends on it. */
typedef enum TroubleKind
{
	TROUBLE_STORING, /* the record cannot be stored */
	TROUBLE_FILE,	 /* the file cannot be read */
	TROUBLE_RIGHTS,	 /* ... because it is not the server's */
	TROUBLE_PAGE,	 /* the page cannot be read */
	TROUBLE_VERSION	 /* either is of a later version */
} TroubleKind;

typedef struct Trouble
{
	TroubleKind kind;
	RecordKind	record;		 /* with which */
	char		reason[256]; /* empty: no trouble */
} Trouble;

typedef enum RecordResult
{
	RECORD_FOUND,
	RECORD_MISSING,
	RECORD_UNREADABLE /* with the trouble */
} RecordResult;

extern void record_report(int level, const Trouble *trouble);

extern RecordResult record_read_file(RecordKind kind, Record *record,
									 Trouble *trouble);
extern bool			record_not_stored(Trouble *trouble, const char *operation,
									  const char *file);
extern bool record_replace_file(const char *file, const char *temp_file,
								const void *bytes, size_t size,
								Trouble *trouble);
extern bool record_write_file(RecordKind kind, const Record *record,
							  Trouble *trouble);

extern RecordResult record_read_page(RecordKind kind, Record *record,
									 Trouble *trouble);
extern XLogRecPtr	record_log_page(RecordKind kind, const Record *record);
extern bool			record_awaits_standby(XLogRecPtr lsn);

#endif /* SNOWFLAKE_RECORD_H */
