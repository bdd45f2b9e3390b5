/*-------------------------------------------------------------------------
 *
 * identity.h
 *	  Which server this is, and whether it is a copy.  See identity.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_IDENTITY_H
#define SNOWFLAKE_IDENTITY_H

#define IDENTITY_HOST_SIZE 72
#define IDENTITY_EVIDENCE_SIZE 224
#define IDENTITY_NUMBER_SIZE 17

/* How the data directory asks to be started. */
typedef enum StartMode
{
	START_ALONE,
	START_AS_STANDBY,
	START_FROM_BACKUP /* to be recovered, and not to follow a primary */
} StartMode;

/*
 * As it is stored: no padding, and all of a text's bytes after its end are
 * zero.  What is unknown is zero, too.
 */
typedef struct Identity
{
	uint64 system;		/* the server's own identifier, given by initdb */
	uint64 incarnation; /* a random number; 0: nobody's */
	uint64 clone_of;	/* the incarnation that evidence speaks of */
	uint64 inode;		/* of a file that is never written again */
	int64  born;		/* when that file was made, in ns since 1970 */
	uint32 standby;		/* 1: follows a primary, or did until just now */
	uint32 changes;		/* of who this is and what was found, so far */
	char   host[IDENTITY_HOST_SIZE];
	char   evidence[IDENTITY_EVIDENCE_SIZE]; /* empty: no copy */
} Identity;

extern StartMode identity_start_mode(void);
extern void		 identity_look_around(Identity *here);
extern void		 identity_recognise(Identity *self, const Identity *recorded,
									StartMode start);
extern void		 identity_follow(Identity *self, const Identity *primary);
extern void		 identity_begin_anew(Identity *self);
extern void		 identity_accept(Identity *self);
extern void		 identity_forget_place(Identity *identity);
extern void		 identity_format_number(uint64 number, char *text);

static inline bool
identity_is_copy(const Identity *identity)
{
	return identity->evidence[0] != '\0' && !identity->standby;
}

#endif /* SNOWFLAKE_IDENTITY_H */
