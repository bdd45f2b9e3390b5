/*
 * identity.h -- which server this is, and whether it is a clone. See
 * identity.c.
 */
#ifndef SNOWFLAKE_IDENTITY_H
#define SNOWFLAKE_IDENTITY_H

#define IDENTITY_HOST_SIZE 72
#define IDENTITY_EVIDENCE_SIZE 224
#define IDENTITY_BOOT_SIZE 40

/* How the data directory asks to be started. */
typedef enum StartMode
{
	START_AS_PRIMARY,
	START_AS_STANDBY,
	START_FROM_BACKUP /* to be recovered, and not to follow a primary */
} StartMode;

/*
 * As it is stored: without padding, and with zeros after the end of each text.
 * Zero means unknown.
 */
typedef struct Identity
{
	uint64 system;		/* the server's own identifier, given by initdb */
	uint64 incarnation; /* a random number; 0: none yet */
	uint64 clone_of;	/* the original's incarnation */
	uint64 inode;		/* of PG_VERSION */
	int64  born;		/* when PG_VERSION was made, in ns since 1970 */
	uint32 standby;		/* 1: follows a primary, or was just promoted */
	uint32 changes;		/* how often incarnation or evidence changed */
	char   host[IDENTITY_HOST_SIZE];
	char   evidence[IDENTITY_EVIDENCE_SIZE]; /* empty: no clone */
} Identity;

/*
 * Where a file is, as it is stored: without padding, and with zeros after the
 * end of each text.
 */
typedef struct Place
{
	uint64 device;
	uint64 inode;
	int64  born; /* in ns since 1970; 0: the file system does not know */
	char   host[IDENTITY_HOST_SIZE];
	char   boot[IDENTITY_BOOT_SIZE]; /* of the machine; empty: unknown */
} Place;

extern StartMode identity_start_mode(void);
extern void		 identity_look_around(Identity *here);
extern void		 identity_note_start(Identity *self, StartMode start);
extern bool		 identity_is_from_backup(const Identity *recorded);
extern void		 identity_recognise(Identity *self, const Identity *recorded,
									StartMode start);
extern void		 identity_follow(Identity *self, const Identity *primary);
extern void		 identity_draw_incarnation(Identity *self);
extern void		 identity_accept(Identity *self);
extern void		 identity_forget_place(Identity *identity);
extern uint64	 identity_random(void);

extern bool identity_find_place(const char *file, Place *place);
extern bool identity_same_place(const Place *here, const Place *recorded);

static inline bool
identity_is_clone(const Identity *identity)
{
	return identity->evidence[0] != '\0' && !identity->standby;
}

#endif /* SNOWFLAKE_IDENTITY_H */
