/*-------------------------------------------------------------------------
 *
 * identity.c
 *	  Which server this is, and whether it is a clone of another server.
 *
 * A clone that has its original's shards mints its original's ids.  So the
 * record says which server wrote it.  A server that finds another server's
 * record takes itself for a clone.  A mistake here costs no id: at worst an
 * administrator has to say that the server is no clone.
 *
 * A server is a clone if one of these applies:
 *
 *	- The data directory asks to be recovered, by a backup label or by
 *	  recovery.signal.  standby.signal does not count: a standby takes its
 *	  primary's place.
 *	- The server has another system identifier than the record: only the file was
 *	  copied, for instance after pg_upgrade.
 *	- The file PG_VERSION, which nothing ever writes again, is another file: it
 *	  was born at another time.  If the file system does not know times of
 *	  birth, the inode counts.  This finds that files were copied.  It does not
 *	  find that the blocks below them were, and a renamed directory is no clone.
 *	- The host has another name.  This finds snapshots of volumes and of virtual
 *	  machines, but also a volume that has moved.  A name of 12 hexadecimal
 *	  digits is the number of a container, which is new at each start: it says
 *	  nothing.
 *
 * An incarnation is a random number.  A server gets one when it records its
 * layout for the first time, and a new one when it is promoted or is found to
 * be a clone.
 *
 * What was found stays in the record until somebody accepts it, because the
 * evidence is gone at the next start.  For the same reason the record says that
 * its server follows a primary: otherwise a standby that crashes just after its
 * promotion would look as if its files had been copied.
 *
 * Nothing here touches shared memory: there is nothing to lock.
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
#define BOOT_FILE "/proc/sys/kernel/random/boot_id"

#define NS_PER_S INT64CONST(1000000000)

#define CONTAINER_DIGITS 12

#define FROM_BACKUP "it was recovered from a backup"

StaticAssertDecl(offsetof(Identity, evidence) + IDENTITY_EVIDENCE_SIZE ==
					 sizeof(Identity),
				 "an identity has no padding");
StaticAssertDecl(offsetof(Place, boot) + IDENTITY_BOOT_SIZE == sizeof(Place),
				 "a place has no padding");

/* --- Where this server is ----------------------------------------------- */

static bool
exists(const char *file)
{
	struct stat status;

	return stat(file, &status) == 0;
}

/* Call this before recovery, which removes these files. */
StartMode
identity_start_mode(void)
{
	if (exists(STANDBY_SIGNAL_FILE))
		return START_AS_STANDBY;
	if (exists(RECOVERY_SIGNAL_FILE) || exists(BACKUP_LABEL_FILE))
		return START_FROM_BACKUP;
	return START_AS_PRIMARY;
}

/* What tells a file from others with the same contents.  False if there is none. */
static bool
look_at_file(const char *file, Place *place)
{
	struct stat plain;

#ifdef STATX_BTIME
	struct statx status;

	if (statx(AT_FDCWD, file, 0, STATX_INO | STATX_BTIME, &status) == 0)
	{
		place->device =
			(uint64) status.stx_dev_major << 32 | status.stx_dev_minor;
		place->inode = status.stx_ino;
		if (status.stx_mask & STATX_BTIME)
			place->born =
				status.stx_btime.tv_sec * NS_PER_S + status.stx_btime.tv_nsec;
		return true;
	}
#endif
	if (stat(file, &plain) != 0)
		return false;
	place->device = plain.st_dev;
	place->inode = plain.st_ino;
	return true;
}

/* A text of the system's, with nothing in it that is not to be printed. */
static void
copy_name(char *name, const char *text)
{
	for (int i = 0; text[i] != '\0'; i++)
		name[i] = text[i] > ' ' && text[i] < 0x7f ? text[i] : '?';
}

static bool
is_number_of_container(const char *host)
{
	return strlen(host) == CONTAINER_DIGITS &&
		   strspn(host, "0123456789abcdef") == CONTAINER_DIGITS;
}

/* What a machine draws at each boot; nothing where it cannot be told. */
static void
read_boot(char *boot)
{
	char text[IDENTITY_BOOT_SIZE] = "";
	int	 fd = open(BOOT_FILE, O_RDONLY);

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0)
		copy_name(boot, text);
	close(fd);
}

/* Note where this server is. */
void
identity_look_around(Identity *here)
{
	char  host[IDENTITY_HOST_SIZE] = "";
	Place place = {0};

	memset(here, 0, sizeof(*here));
	here->system = GetSystemIdentifier();
	if (look_at_file(STABLE_FILE, &place))
	{
		here->inode = place.inode;
		here->born = place.born;
	}
	if (gethostname(host, sizeof(host) - 1) == 0 &&
		!is_number_of_container(host))
		copy_name(here->host, host);
}

/*
 * Where a file is now.  A container's number counts as a host here: a new container
 * is another place.  False if there is no such file.
 */
bool
identity_find_place(const char *file, Place *place)
{
	char host[IDENTITY_HOST_SIZE] = "";

	memset(place, 0, sizeof(*place));
	if (gethostname(host, sizeof(host) - 1) == 0)
		copy_name(place->host, host);
	read_boot(place->boot);
	return look_at_file(file, place);
}

/*
 * Is it provably the same place?  Unlike above, what is unknown speaks against
 * it: who is wrong here mints on another server's lease.
 */
bool
identity_same_place(const Place *here, const Place *recorded)
{
	return here->born != 0 && here->host[0] != '\0' && here->boot[0] != '\0' &&
		   memcmp(here, recorded, sizeof(Place)) == 0;
}

/* --- Which server it is ------------------------------------------------- */

static bool
is_elsewhere(const Identity *here, const Identity *recorded, char *evidence)
{
	const size_t size = IDENTITY_EVIDENCE_SIZE;
	bool		 knows_births = here->born != 0 && recorded->born != 0;
	bool		 knows_inodes = here->inode != 0 && recorded->inode != 0;

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
 * Is this server a clone that the record does not know of?  A recovered backup
 * is found once, as long as it stays where it is.
 */
static bool
is_new_clone(const Identity *here, const Identity *recorded, StartMode start,
			 char *evidence)
{
	bool elsewhere = is_elsewhere(here, recorded, evidence);

	if (start == START_FROM_BACKUP &&
		(elsewhere || recorded->evidence[0] == '\0'))
	{
		/* is_elsewhere() may have left a longer text there */
		memset(evidence, 0, IDENTITY_EVIDENCE_SIZE);
		strlcpy(evidence, FROM_BACKUP, IDENTITY_EVIDENCE_SIZE);
		return true;
	}
	return elsewhere;
}

/* Note how a server without a record was started: recovery removes what tells it. */
void
identity_note_start(Identity *self, StartMode start)
{
	self->standby = start == START_AS_STANDBY;
	if (start == START_FROM_BACKUP)
		strlcpy(self->evidence, FROM_BACKUP, sizeof(self->evidence));
}

/* Is this a record of identity_note_start(), of a recovered backup? */
bool
identity_is_from_backup(const Identity *recorded)
{
	return recorded->incarnation == 0 && recorded->evidence[0] != '\0';
}

/*
 * Find out from a record which server this is.  "self" has where it is, from
 * identity_look_around().  It stays a standby until it gets a new incarnation,
 * after its promotion.
 */
void
identity_recognise(Identity *self, const Identity *recorded, StartMode start)
{
	char evidence[IDENTITY_EVIDENCE_SIZE] = {0};

	self->standby = start == START_AS_STANDBY || recorded->standby;
	if (recorded->incarnation == 0)
		return;
	self->incarnation = recorded->incarnation;
	identity_follow(self, recorded);
	if (start == START_AS_STANDBY ||
		!is_new_clone(self, recorded, start, evidence))
		return;
	identity_draw_incarnation(self);
	self->clone_of = recorded->incarnation;
	memcpy(self->evidence, evidence, sizeof(evidence));
}

/* Take over whether the primary is a clone: a server in its place is one, too. */
void
identity_follow(Identity *self, const Identity *primary)
{
	self->changes = primary->changes;
	self->clone_of = primary->clone_of;
	memcpy(self->evidence, primary->evidence, sizeof(self->evidence));
}

/* A random number that is not 0. */
uint64
identity_random(void)
{
	uint64 number;

	do
	{
		if (!pg_strong_random(&number, sizeof(number)))
			ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR),
							errmsg("could not generate random values")));
	} while (number == 0);
	return number;
}

/* A new incarnation: the server is new, was promoted, or is a clone. */
void
identity_draw_incarnation(Identity *self)
{
	self->changes++;
	self->standby = 0;
	self->incarnation = identity_random();
}

/* Somebody says that the original is no danger. */
void
identity_accept(Identity *self)
{
	self->changes++;
	self->clone_of = 0;
	memset(self->evidence, 0, sizeof(self->evidence));
}

/* A record that came by the WAL does not say where this server is. */
void
identity_forget_place(Identity *identity)
{
	identity->inode = 0;
	identity->born = 0;
	memset(identity->host, 0, sizeof(identity->host));
}
