/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Which server this is, and whether it is a copy of another.
 *
 * A copy that is started with its twin's shards mints its twin's ids.  The
 * horizon's record therefore says who wrote it, and a server that finds there
 * somebody else takes itself for a copy.  An error here costs no id: at worst
 * an operator has to say that it is none.
 *
 * Who somebody is, and what tells a copy, the first that applies:
 *
 *	- The data directory asks to be recovered, by a backup's label or by
 *	  recovery.signal.  Not by standby.signal: a standby takes its primary's
 *	  place, and is believed.
 *	- The server's system identifier is another one.  The file alone was
 *	  carried over, as after pg_upgrade.  (Copies of a whole data directory
 *	  share the identifier.)
 *	- The file PG_VERSION, which nothing writes again, is another file: it was
 *	  born at another time.  Where the file system tells no time of birth, its
 *	  inode counts.  A copy of files is found so, but not one of the blocks
 *	  below them; and a directory that was renamed is none.
 *	- The host has another name.  Finds snapshots of volumes and of machines,
 *	  but also a volume that has moved.  A name of 12 hexadecimal digits is the
 *	  number of a container, of which each start makes another: it says nothing.
 *
 * An incarnation is a random number.  It is given to a server that mints for
 * the first time, and anew to one that is promoted or is found to be a copy.
 *
 * What was found stays with the record until it is accepted, since what told it
 * is gone at the next start.  For the same reason the record says that its
 * server follows a primary: a standby that dies between its promotion and its
 * first words as a primary would look like a copy of files.
 *
 * Nothing here touches shared memory or writes files: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>
#include <fcntl.h>
#include <unistd.h>

#include "access/xlog.h"

#include "identity.h"

#define STABLE_FILE "PG_VERSION"

#define NS_PER_S INT64CONST(1000000000)

#define CONTAINER_DIGITS 12

StaticAssertDecl(offsetof(Identity, evidence) + IDENTITY_EVIDENCE_SIZE ==
					 sizeof(Identity),
				 "an identity has no padding");

/*-------------------------------------------------------------------------
 * What there is to see
 *-------------------------------------------------------------------------
 */

static bool
exists(const char *file)
{
	struct stat status;

	return stat(file, &status) == 0;
}

/* To be called before recovery, which takes these files away. */
StartMode
identity_start_mode(void)
{
	if (exists(STANDBY_SIGNAL_FILE))
		return START_AS_STANDBY;
	if (exists(RECOVERY_SIGNAL_FILE) || exists(BACKUP_LABEL_FILE))
		return START_FROM_BACKUP;
	return START_ALONE;
}

static void
look_at_file(Identity *here)
{
#ifdef STATX_BTIME
	struct statx status;

	if (statx(AT_FDCWD, STABLE_FILE, 0, STATX_INO | STATX_BTIME, &status) == 0)
	{
		here->inode = status.stx_ino;
		if (status.stx_mask & STATX_BTIME)
			here->born =
				status.stx_btime.tv_sec * NS_PER_S + status.stx_btime.tv_nsec;
		return;
	}
#endif
	{
		struct stat plain;

		if (stat(STABLE_FILE, &plain) == 0)
			here->inode = plain.st_ino;
	}
}

static bool
is_number_of_container(const char *host)
{
	return strlen(host) == CONTAINER_DIGITS &&
		   strspn(host, "0123456789abcdef") == CONTAINER_DIGITS;
}

/* Fill in where this server is, and nothing of who it is. */
void
identity_look_around(Identity *here)
{
	char host[IDENTITY_HOST_SIZE] = "";

	memset(here, 0, sizeof(*here));
	here->system = GetSystemIdentifier();
	look_at_file(here);
	if (gethostname(host, sizeof(host) - 1) != 0 ||
		is_number_of_container(host))
		return;
	for (int i = 0; host[i] != '\0'; i++)
		here->host[i] = host[i] > ' ' && host[i] < 0x7f ? host[i] : '?';
}

/*-------------------------------------------------------------------------
 * What it tells
 *-------------------------------------------------------------------------
 */

static bool
is_elsewhere(const Identity *here, const Identity *recorded, char *evidence,
			 size_t size)
{
	bool knows_births = here->born != 0 && recorded->born != 0;
	bool knows_inodes = here->inode != 0 && recorded->inode != 0;

	if (here->system != recorded->system)
		snprintf(
			evidence, size,
			"its horizon was written under system identifier " UINT64_FORMAT
			", and its own is " UINT64_FORMAT,
			recorded->system, here->system);
	else if (knows_births ? here->born != recorded->born :
							knows_inodes && here->inode != recorded->inode)
		strlcpy(evidence, "the files of its data directory were copied", size);
	else if (here->host[0] != '\0' && recorded->host[0] != '\0' &&
			 strcmp(here->host, recorded->host) != 0)
		snprintf(evidence, size,
				 "its data directory was in use on host \"%s\", and this is "
				 "host \"%s\"",
				 recorded->host, here->host);
	else
		return false;
	return true;
}

/*
 * A backup that was found to be one is not found again, as long as it stays
 * where it is and asks to be recovered.
 */
static bool
is_new_copy(const Identity *here, const Identity *recorded, StartMode start,
			char *evidence, size_t size)
{
	bool elsewhere = is_elsewhere(here, recorded, evidence, size);

	if (start == START_FROM_BACKUP &&
		(elsewhere || recorded->evidence[0] == '\0'))
	{
		strlcpy(evidence, "it was recovered from a backup", size);
		return true;
	}
	return elsewhere;
}

/*
 * Make out who we are, having looked around, from the identity in a record.
 * Still a standby afterwards is one that follows its primary and one that was
 * promoted; when recovery has ended, it has to begin anew.
 */
void
identity_recognise(Identity *self, const Identity *recorded, StartMode start)
{
	char evidence[IDENTITY_EVIDENCE_SIZE] = {0};

	if (recorded->incarnation == 0)
	{
		self->standby = start == START_AS_STANDBY;
		return;
	}
	self->incarnation = recorded->incarnation;
	self->standby = start == START_AS_STANDBY || recorded->standby;
	identity_follow(self, recorded);
	if (start == START_AS_STANDBY ||
		!is_new_copy(self, recorded, start, evidence, sizeof(evidence)))
		return;
	identity_begin_anew(self);
	self->clone_of = recorded->incarnation;
	memcpy(self->evidence, evidence, sizeof(evidence));
}

/* Take over whether the primary was a copy: who takes its place is one, too. */
void
identity_follow(Identity *self, const Identity *primary)
{
	self->changes = primary->changes;
	self->clone_of = primary->clone_of;
	memcpy(self->evidence, primary->evidence, sizeof(self->evidence));
}

/* Become a server of one's own: one that is new, was promoted or is a copy. */
void
identity_begin_anew(Identity *self)
{
	self->changes++;
	self->standby = 0;
	do
	{
		if (!pg_strong_random(&self->incarnation, sizeof(self->incarnation)))
			ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
							errmsg("could not generate random values")));
	} while (self->incarnation == 0);
}

/* Somebody says that the other one is no danger. */
void
identity_accept(Identity *self)
{
	self->changes++;
	self->clone_of = 0;
	memset(self->evidence, 0, sizeof(self->evidence));
}

/* A record that came by the WAL says nothing of where it was replayed. */
void
identity_forget_place(Identity *identity)
{
	identity->inode = 0;
	identity->born = 0;
	memset(identity->host, 0, sizeof(identity->host));
}

/* An incarnation's number as text, of IDENTITY_NUMBER_SIZE. */
void
identity_format_number(uint64 number, char *text)
{
	snprintf(text, IDENTITY_NUMBER_SIZE, "%08x%08x", (uint32) (number >> 32),
			 (uint32) number);
}
