/*-------------------------------------------------------------------------
 *
 * identity_cases.c
 *	  All that a server can find out about where it is, and which one it is.
 *
 * identity_cases() calls the functions of identity.c, with a system of our own below
 * them: another host, other files, other random numbers.  It tries all cases, compares
 * each with what the head of identity.c says, and returns how many it tried.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <sys/stat.h>

#include "access/xlog.h"
#include "fmgr.h"

#include "cases.h"

PG_MODULE_MAGIC;

/* --- The system --------------------------------------------------------- */

typedef enum Stat
{
	KNOWS_BIRTH,
	KNOWS_NO_BIRTH,
	STAT_ALONE, /* there is no statx */
	NO_FILE
} Stat;

static Stat		   stat_mode;
static const char *host_name; /* NULL: the system does not tell */
static bool		   boot_is_long;
static int		   boot_length;
static uint64	   random_numbers[2];
static int		   random_taken;
static const char *present[3]; /* files that there are */

static int
our_statx(struct statx *status)
{
	memset(status, 0, sizeof(*status));
	status->stx_dev_major = 7;
	status->stx_dev_minor = 9;
	status->stx_ino = 42;
	status->stx_btime.tv_sec = 3;
	status->stx_btime.tv_nsec = 5;
	status->stx_mask =
		STATX_INO | (stat_mode == KNOWS_BIRTH ? STATX_BTIME : 0);
	return stat_mode <= KNOWS_NO_BIRTH ? 0 : -1;
}

static int
our_stat(const char *file, struct stat *status)
{
	memset(status, 0, sizeof(*status));
	status->st_dev = 11;
	status->st_ino = 43;
	if (strcmp(file, "PG_VERSION") == 0)
		return stat_mode == NO_FILE ? -1 : 0;
	for (int i = 0; i < lengthof(present); i++)
	{
		if (present[i] && strcmp(present[i], file) == 0)
			return 0;
	}
	return -1;
}

/* As the system's: without an end, where there is no room for one. */
static int
our_gethostname(char *name, size_t size)
{
	strncpy(name, host_name ? host_name : "nowhere", size);
	return host_name ? 0 : -1;
}

static int
our_read(char *bytes, size_t size)
{
	int length = boot_is_long ? size : boot_length;

	memset(bytes, 'b', Max(length, 0));
	return length;
}

static bool
our_random(uint64 *number)
{
	*number = random_numbers[random_taken % 2];
	return random_taken++ < 2;
}

#define statx(directory, file, flags, mask, status) our_statx(status)
#define stat(file, status) our_stat(file, status)
#define gethostname(name, size) our_gethostname(name, size)
#define read(fd, bytes, size) our_read(bytes, size)
#define pg_strong_random(number, size) our_random(number)
#define GetSystemIdentifier() UINT64CONST(100)

#include "../../src/identity.c"

/* --- Where it is -------------------------------------------------------- */

static void
look(Identity *here, Place *place)
{
	memset(here, 0xff, sizeof(*here));
	memset(place, 0xff, sizeof(*place));
	identity_look_around(here);
	CHECK(identity_find_place("PG_VERSION", place) == (stat_mode != NO_FILE));
}

static void
try_files(void)
{
	Identity here;
	Place	 place;

	for (stat_mode = KNOWS_BIRTH; stat_mode <= NO_FILE; stat_mode++)
	{
		uint64 inode = stat_mode <= KNOWS_NO_BIRTH ? 42 :
					   stat_mode == STAT_ALONE	   ? 43 :
													 0;
		int64  born = stat_mode == KNOWS_BIRTH ? INT64CONST(3000000005) : 0;

		look(&here, &place);
		CHECK(here.system == 100);
		CHECK(here.inode == inode && here.born == born);
		CHECK(place.inode == inode && place.born == born);
		CHECK(place.device == (inode == 42 ? (UINT64CONST(7) << 32 | 9) :
							   inode == 43 ? 11 :
											 0));
		CHECK(here.incarnation == 0 && here.clone_of == 0);
		CHECK(here.standby == 0 && here.changes == 0);
		CHECK(here.evidence[0] == '\0');
	}
	stat_mode = KNOWS_BIRTH;
}

static void
try_host(const char *host, const char *as_host, bool is_container)
{
	Identity here;
	Place	 place;
	char	 shown[IDENTITY_HOST_SIZE] = {0};

	strlcpy(shown, as_host, sizeof(shown));
	host_name = host;
	look(&here, &place);
	CHECK(memcmp(place.host, shown, sizeof(shown)) == 0);
	if (is_container)
		memset(shown, 0, sizeof(shown));
	CHECK(memcmp(here.host, shown, sizeof(shown)) == 0);
	host_name = "paris";
}

static void
try_hosts(void)
{
	char long_name[200];

	memset(long_name, 'h', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	try_host(NULL, "", false);
	try_host("paris", "paris", false);
	try_host(long_name, long_name, false);
	try_host("0123456789ab", "0123456789ab", true);
	try_host("cdef01234567", "cdef01234567", true);
	try_host("0123456789abc", "0123456789abc", false);
	try_host("0123456789ab-1", "0123456789ab-1", false);
	try_host("0123456789a", "0123456789a", false);
	try_host("0123456789ag", "0123456789ag", false);
	for (int byte = 1; byte < 256; byte++)
	{
		char name[] = {'a', byte, 'z', '\0'};
		char as_name[] = {'a', byte > 32 && byte < 127 ? byte : '?', 'z',
						  '\0'};

		try_host(name, as_name, false);
	}
}

static void
try_boots(void)
{
	Identity here;
	Place	 place;
	int		 input = dup(STDIN_FILENO);
	int		 free_fd = first_free_fd();

	for (boot_length = -1; boot_length < IDENTITY_BOOT_SIZE; boot_length++)
	{
		look(&here, &place);
		CHECK(strspn(place.boot, "b") == Max(boot_length, 0));
		CHECK(place.boot[Max(boot_length, 0)] == '\0');
	}
	boot_is_long = true;
	look(&here, &place);
	CHECK(strspn(place.boot, "b") == IDENTITY_BOOT_SIZE - 1);
	CHECK(place.boot[IDENTITY_BOOT_SIZE - 1] == '\0');

	/* a process without an input has 0 for the first file that it opens */
	close(STDIN_FILENO);
	look(&here, &place);
	dup2(input, STDIN_FILENO);
	CHECK(place.boot[0] == 'b');
	CHECK(first_free_fd() == free_fd);
	close(input);
}

static void
try_places(void)
{
	Identity here;
	Place	 place;
	Place	 other;

	look(&here, &place);
	CHECK(identity_same_place(&place, &place));
	for (int i = 0; i < sizeof(place); i++)
	{
		other = place;
		((char *) &other)[i] ^= 1;
		CHECK(!identity_same_place(&place, &other));
	}

	/* what is unknown speaks against it, although both say the same */
	for (int unknown = 0; unknown < 3; unknown++)
	{
		other = place;
		if (unknown == 0)
			other.born = 0;
		else
			memset(unknown == 1 ? other.host : other.boot, 0,
				   unknown == 1 ? sizeof(other.host) : sizeof(other.boot));
		CHECK(!identity_same_place(&other, &other));
	}
}

/* --- Which server it is -------------------------------------------------- */

static void
try_start_modes(void)
{
	for (int files = 0; files < 8; files++)
	{
		present[0] = files & 1 ? STANDBY_SIGNAL_FILE : NULL;
		present[1] = files & 2 ? RECOVERY_SIGNAL_FILE : NULL;
		present[2] = files & 4 ? BACKUP_LABEL_FILE : NULL;
		CHECK(identity_start_mode() == (files & 1  ? START_AS_STANDBY :
										files != 0 ? START_FROM_BACKUP :
													 START_AS_PRIMARY));
	}
}

static void
try_recognise(const Identity *here, const Identity *recorded, StartMode start,
			  const char *elsewhere)
{
	Identity	self = *here;
	Identity	expected = *here;
	const char *evidence =
		start == START_AS_STANDBY ? NULL :
		start == START_FROM_BACKUP && (elsewhere || !recorded->evidence[0]) ?
									"it was recovered from a backup" :
									elsewhere;

	expected.standby = start == START_AS_STANDBY || recorded->standby;
	if (recorded->incarnation != 0)
	{
		expected.incarnation = evidence ? 99 : recorded->incarnation;
		expected.changes = recorded->changes + (evidence ? 1 : 0);
		expected.clone_of =
			evidence ? recorded->incarnation : recorded->clone_of;
		strlcpy(expected.evidence, evidence ? evidence : recorded->evidence,
				sizeof(expected.evidence));
		if (evidence)
			expected.standby = 0;
	}
	random_taken = 0;
	identity_recognise(&self, recorded, start);
	CHECK(memcmp(&self, &expected, sizeof(self)) == 0);
}

/* What says that the record is of another place, in the order of the checks. */
static const char *
elsewhere_by(const Identity *here, const Identity *recorded)
{
	if (recorded->system != here->system)
		return psprintf(
			"its horizon was written under system identifier " UINT64_FORMAT
			", and its own is " UINT64_FORMAT,
			recorded->system, here->system);
	if (here->born && recorded->born)
	{
		if (here->born != recorded->born)
			return "the files of its data directory were copied";
	}
	else if (here->inode && recorded->inode && here->inode != recorded->inode)
		return "the files of its data directory were copied";
	if (here->host[0] && recorded->host[0] &&
		here->host[0] != recorded->host[0])
		return psprintf(
			"its data directory was in use on host \"%s\", and this "
			"is host \"%s\"",
			recorded->host, here->host);
	return NULL;
}

static void
set_place(Identity *identity, int births, int inodes, int hosts)
{
	static const char *const names[] = {"", "ids-1", "paris"};

	identity->born = births;
	identity->inode = inodes;
	memset(identity->host, 0, sizeof(identity->host));
	strlcpy(identity->host, names[hosts], sizeof(identity->host));
}

static void
try_recognising(void)
{
	Identity here = {.system = 100};
	Identity recorded = {.changes = 7};

	random_numbers[0] = 0; /* which is no incarnation */
	random_numbers[1] = 99;
	for (int of_here = 0; of_here < 27; of_here++)
	{
		set_place(&here, of_here % 3, of_here / 3 % 3, of_here / 9);
		for (int i = 0; i < 27 * 16; i++)
		{
			set_place(&recorded, i % 3, i / 3 % 3, i / 9 % 3);
			recorded.incarnation = i / 27 & 1 ? 5 : 0;
			recorded.standby = i / 27 & 2 ? 1 : 0;
			recorded.system = i / 27 & 4 ? 100 : 200;
			recorded.clone_of = i / 27 & 8 ? 3 : 0;
			memset(recorded.evidence, 0, sizeof(recorded.evidence));
			if (recorded.clone_of)
				strlcpy(recorded.evidence, "it was found before",
						sizeof(recorded.evidence));
			for (StartMode start = START_AS_PRIMARY;
				 start <= START_FROM_BACKUP; start++)
				try_recognise(&here, &recorded, start,
							  elsewhere_by(&here, &recorded));
			CHECK(identity_is_from_backup(&recorded) ==
				  (!recorded.incarnation && recorded.evidence[0]));
		}
	}
}

static void
draw(void)
{
	(void) identity_random();
}

static void
try_changes(void)
{
	Identity before;
	Identity self;
	Identity expected;

	memset(&before, 1, sizeof(before));
	for (StartMode start = START_AS_PRIMARY; start <= START_FROM_BACKUP;
		 start++)
	{
		self = expected = before;
		expected.standby = start == START_AS_STANDBY;
		if (start == START_FROM_BACKUP)
			strlcpy(expected.evidence, "it was recovered from a backup",
					sizeof(expected.evidence));
		identity_note_start(&self, start);
		CHECK(memcmp(&self, &expected, sizeof(self)) == 0);
	}

	self = expected = before;
	expected.changes++;
	expected.clone_of = 0;
	memset(expected.evidence, 0, sizeof(expected.evidence));
	identity_accept(&self);
	CHECK(memcmp(&self, &expected, sizeof(self)) == 0);

	self = expected = before;
	expected.inode = 0;
	expected.born = 0;
	memset(expected.host, 0, sizeof(expected.host));
	identity_forget_place(&self);
	CHECK(memcmp(&self, &expected, sizeof(self)) == 0);

	self = expected = before;
	expected.changes++;
	expected.standby = 0;
	expected.incarnation = 99;
	random_taken = 0;
	identity_draw_incarnation(&self);
	CHECK(memcmp(&self, &expected, sizeof(self)) == 0);

	/* no random numbers, no incarnation */
	random_taken = 2;
	CHECK(raised_by(draw) != NULL);
}

PG_FUNCTION_INFO_V1(identity_cases);
Datum
identity_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	host_name = "paris";
	boot_length = 3;
	try_files();
	try_hosts();
	try_boots();
	try_places();
	try_start_modes();
	try_recognising();
	try_changes();
	PG_RETURN_INT64(tried);
}
