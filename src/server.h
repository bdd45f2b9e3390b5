/*
 * server.h -- what this data directory is: its layout and its identity.
 * See server.c.
 */
#ifndef SNOWFLAKE_SERVER_H
#define SNOWFLAKE_SERVER_H

#include "record.h"

/* The LWLocks in shared memory.  END_LOCK is for positions.c and lease_table.c. */
#define SERVER_LOCKS "snowflake"
enum
{
	SERVER_LOCK,
	HORIZON_LOCK,
	MARK_LOCK,
	END_LOCK,
	SERVER_LOCK_COUNT
};

/* What an administrator can accept; flags. */
#define ACCEPTS_LAYOUT 1
#define ACCEPTS_CLONE 2

/* Records to store, because of what was found or accepted. */
typedef struct ServerChange
{
	Record record;
	bool   stores_record;
	bool   stores_layout; /* in its own record */
	uint32 accepts;		  /* ACCEPTS_LAYOUT, ACCEPTS_CLONE */
} ServerChange;

extern Size server_shmem_size(void);
extern void server_shmem_startup(void);

/* for sessions */
extern const Layout *server_layout(void);
extern bool			 server_knows_layout(void);
extern bool			 server_layout_differs(void);
extern bool			 server_is_clone(void);
extern void			 server_check_clone(void);
extern void			 server_known(Record *record);
extern void			 server_accept(uint32 what, bool accept);

/* for the horizon's worker, and for the postmaster when it is alone */
extern bool		   server_read_records(Trouble *trouble);
extern void		   server_compare_layout(void);
extern bool		   server_has_change(ServerChange *change);
extern void		   server_note_change(const ServerChange *change);
extern TimestampTz server_horizon(void);
extern void		   server_make_record(Record *record, TimestampTz horizon);
extern void		   server_note_renewal(const Record *record);

#endif /* SNOWFLAKE_SERVER_H */
