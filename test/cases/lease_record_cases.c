/*-------------------------------------------------------------------------
 *
 * lease_record_cases.c
 *	  Each way in which leases can be stored, read, and claimed.
 *
 * lease_record_cases() calls the functions of lease_record.c, and with them those of record.c,
 * with a system of our own below them that fails where it is told to.  It compares each
 * outcome with what the head of lease_record.c says, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include "postgres.h"

#include <sys/stat.h>

#include "fmgr.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "cases.h"

PG_MODULE_MAGIC;

/* --- The system ----------------------------------------------------------- */

typedef enum Step
{
	NOTHING,
	OPENING,
	CLOSING,
	FINDING, /* the file that was just made */
	WRITING,
	READING
} Step;

static Step failing;

static int
fails(Step step, int result)
{
	if (failing == step)
	{
		errno = EIO;
		return -1;
	}
	return result;
}

#define OpenTransientFile(file, flags) \
	(fails(OPENING, 0) < 0 ? -1 : OpenTransientFile(file, flags))
#define CloseTransientFile(fd) fails(CLOSING, CloseTransientFile(fd))
#define write(fd, bytes, size) \
	(fails(WRITING, 0) < 0 ? -1 : write(fd, bytes, size))
#define read(fd, bytes, size) \
	(fails(READING, 0) < 0 ? -1 : read(fd, bytes, size))

/* record_cases.c is about them. */
#define fsync_fname_ext(file, is_directory, passes_over, level) 0

/* Both files have a function of this name. */
#define crc_of crc_of_record
#include "../../src/record.c"
#undef crc_of
#include "../../src/lease/lease_record.c"

/* A file's place: its own, on a host and in a boot of ours. */
bool
identity_find_place(const char *file, Place *place)
{
	struct stat status;
	bool		good = stat(file, &status) == 0;

	memset(place, 0, sizeof(*place));
	place->device = 7;
	place->inode = good ? status.st_ino : 0;
	place->born = 9;
	strcpy(place->host, "paris");
	strcpy(place->boot, "a boot");
	return fails(FINDING, good ? 0 : -1) == 0;
}

bool
identity_same_place(const Place *here, const Place *recorded)
{
	return memcmp(here, recorded, sizeof(*here)) == 0;
}

/* --- Settings ------------------------------------------------------------- */

#define ALL_LEASES 8

static Layout	  layout = {.shard_bits = 3};
static OwnShards *asked;
const OwnShards	 *settings_asked_shards;

const Layout *
settings_layout(void)
{
	return &layout;
}

const char *
settings_layout_text(void)
{
	return "ours";
}

bool
settings_name_shard(int32 shard)
{
	for (int i = 0; i < asked->count; i++)
	{
		if (asked->shard[i] == shard)
			return true;
	}
	return false;
}

/* --- Bytes ---------------------------------------------------------------- */

#define HEADER 368
#define LEASE 24
#define MOST_BYTES (HEADER + ALL_LEASES * LEASE)

/* Where the fields of the header are. */
#define AT_MAGIC 0
#define AT_VERSION 4
#define AT_CALLER 8
#define AT_CALL (AT_CALLER + 24)
#define AT_INCARNATION 56
#define AT_LAYOUT 64
#define AT_PLACE 224
#define AT_HOST (AT_PLACE + 24)
#define AT_BOOT (AT_HOST + 72)
#define AT_COUNT 360
#define AT_CRC 364

static unsigned char bytes[MOST_BYTES + LEASE];
static int			 length;

static void
read_bytes(void)
{
	int fd = open("snowflake.lease", O_RDONLY);

	memset(bytes, 0, sizeof(bytes));
	length = (read) (fd, bytes, sizeof(bytes));
	close(fd);
}

/* The file stays the same, and gets these bytes. */
static void
write_bytes(void)
{
	int fd = open("snowflake.lease", O_WRONLY);

	CHECK((write) (fd, bytes, length) == length);
	CHECK(ftruncate(fd, length) == 0);
	close(fd);
}

/* As everybody writes it down, of all but itself. */
static uint32
crc32c(int leases)
{
	uint32 crc = 0xffffffff;

	for (int i = 0; i < HEADER + leases * LEASE; i++)
	{
		if (i >= AT_CRC && i < AT_CRC + 4)
			continue;
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static void
put32(int at, uint32 number)
{
	memcpy(bytes + at, &number, sizeof(number));
}

static uint32
get32(int at)
{
	uint32 number;

	memcpy(&number, bytes + at, sizeof(number));
	return number;
}

/* Change a byte of the header, and the checksum with it. */
static void
change_byte(int at)
{
	bytes[at] ^= 1;
	put32(AT_CRC, crc32c(get32(AT_COUNT)));
}

/* --- Stored and read ------------------------------------------------------ */

static const LeaseCaller caller = {11, 12, 13, 14, 15, 16};

/* Of no lease, of some, or of all shards'. */
static LeaseRecord
example(int count)
{
	LeaseRecord record = {77, caller, count};

	record.lease = palloc0(ALL_LEASES * sizeof(Lease));
	for (int i = 0; i < count; i++)
		record.lease[i] = (Lease){100 + i, 200 + i, i, i % 3};
	return record;
}

/* It is read; if it does not count, nothing but the registry is taken from it. */
static void
check_read(const LeaseRecord *expected, const char *reason, uint64 registry)
{
	LeaseRecord record;
	LeaseRecord untouched;
	const char *told;

	memset(&record, 0x55, sizeof(record));
	record.incarnation = expected->incarnation;
	untouched = record;
	told = lease_record_read(&record);
	CHECK(reason ? told && strcmp(told, reason) == 0 : told == NULL);
	CHECK(GetMemoryChunkContext(record.lease) == TopMemoryContext);
	CHECK(GetMemoryChunkSpace(record.lease) >=
		  GetMemoryChunkSpace(palloc(ALL_LEASES * LEASE)));
	if (reason == NULL)
	{
		CHECK(memcmp(&record.caller, &expected->caller, sizeof(LeaseCaller)) ==
			  0);
		CHECK(record.count == expected->count);
		CHECK(memcmp(record.lease, expected->lease,
					 expected->count * sizeof(Lease)) == 0);
	}
	else
	{
		untouched.caller.registry = registry;
		CHECK(memcmp(&record.caller, &untouched.caller, sizeof(LeaseCaller)) ==
			  0);
		CHECK(record.count == untouched.count);
	}
	CHECK(record.incarnation == expected->incarnation);
	pfree(record.lease);
}

#define DAMAGED "its record of leases is damaged"
#define OF_LAYOUT "its record of leases is of another layout"
#define OF_SERVER "its record of leases is another server's"
#define BOOTED "the machine was booted since"
#define ELSEWHERE "its data directory is in another place"
#define MISSING "it has no record of leases"

/* The bytes, from what they are to be. */
static void
check_bytes(const LeaseRecord *record)
{
	Place place;

	read_bytes();
	CHECK(length == HEADER + record->count * LEASE);
	CHECK(get32(AT_MAGIC) == 0x534E4F4C && get32(AT_VERSION) == 1);
	CHECK(memcmp(bytes + AT_CALLER, &record->caller, 48) == 0);
	CHECK(memcmp(bytes + AT_INCARNATION, &record->incarnation, 8) == 0);
	CHECK(memcmp(bytes + AT_LAYOUT, "ours\0", 6) == 0);
	for (int at = AT_LAYOUT + 4; at < AT_PLACE; at++)
		CHECK(bytes[at] == 0);
	(void) identity_find_place("snowflake.lease", &place);
	CHECK(memcmp(bytes + AT_PLACE, &place, sizeof(place)) == 0);
	CHECK(get32(AT_COUNT) == record->count);
	CHECK(memcmp(bytes + HEADER, record->lease, record->count * LEASE) == 0);
	CHECK(get32(AT_CRC) == crc32c(record->count));
}

static void
try_storing(const LeaseRecord *record)
{
	Trouble trouble = {0};

	CHECK(lease_record_write(record, &trouble));
	CHECK(access("snowflake.lease.tmp", F_OK) != 0);
	check_bytes(record);
	check_read(record, NULL, 0);
}

/* A record in each length. */
static void
try_lengths(const LeaseRecord *record)
{
	int whole;

	try_storing(record);
	whole = length;
	for (length = 0; length < whole; length++)
	{
		write_bytes();
		check_read(record, DAMAGED, 0);
	}
	length = whole + 1;
	write_bytes();
	check_read(record, NULL, 0);
}

/* A checksum that ends with 0 does not stand for one whose end is missing. */
static void
try_shorter_checksum(void)
{
	LeaseRecord record = example(0);

	try_storing(&record);
	for (uint32 call = 0; bytes[length - 1] != 0; call++)
	{
		put32(AT_CALL, call);
		put32(AT_CRC, crc32c(0));
	}
	length--;
	write_bytes();
	check_read(&record, DAMAGED, 0);
}

/* Any number of leases, which the checksum confirms: those that are not there are zeros. */
static void
try_counts(void)
{
	LeaseRecord record = example(3);

	try_storing(&record);
	for (int count = 0; count <= ALL_LEASES + 1; count++)
	{
		LeaseRecord shorter = example(Min(count, 3));

		put32(AT_COUNT, count);
		put32(AT_CRC, crc32c(count));
		write_bytes();
		check_read(&shorter, count <= 3 ? NULL : DAMAGED, 0);
	}
	put32(AT_COUNT, PG_UINT32_MAX);
	write_bytes();
	check_read(&record, DAMAGED, 0);
}

/* Why a record does not count if a byte of its header was changed; NULL: it counts. */
static const char *
reason_of(int at)
{
	if (at < AT_CALLER)
		return DAMAGED;
	if (at >= AT_INCARNATION && at < AT_LAYOUT)
		return OF_SERVER;
	if (at >= AT_LAYOUT && at <= AT_LAYOUT + strlen("ours"))
		return OF_LAYOUT;
	if (at >= AT_BOOT && at <= AT_BOOT + strlen("a boot"))
		return BOOTED;
	return at >= AT_PLACE ? ELSEWHERE : NULL;
}

/* Another byte in each place: without its checksum, and with it. */
static void
try_changes(const LeaseRecord *record)
{
	try_storing(record);
	for (int at = 0; at < length; at++)
	{
		bytes[at] ^= 1;
		write_bytes();
		check_read(record, DAMAGED, 0);
		bytes[at] ^= 1;
	}
	for (int at = 0; at < AT_COUNT; at++)
	{
		LeaseRecord changed = *record;

		change_byte(at);
		write_bytes();
		memcpy(&changed.caller, bytes + AT_CALLER, sizeof(LeaseCaller));
		check_read(&changed, reason_of(at),
				   at < AT_CALLER ? 0 : changed.caller.registry);
		change_byte(at);
	}

	/* of several reasons the first one counts */
	for (int differs = 0; differs < 16; differs++)
	{
		static const int fields[] = {AT_LAYOUT, AT_INCARNATION, AT_BOOT,
									 AT_PLACE};
		const char		*reason = NULL;

		for (int i = lengthof(fields) - 1; i >= 0; i--)
		{
			if (differs >> i & 1)
			{
				change_byte(fields[i]);
				reason = reason_of(fields[i]);
			}
		}
		write_bytes();
		check_read(record, reason, record->caller.registry);
		for (int i = 0; i < lengthof(fields); i++)
		{
			if (differs >> i & 1)
				change_byte(fields[i]);
		}
	}
}

/* --- Files ---------------------------------------------------------------- */

static const struct
{
	Step		step;
	const char *operation;
} failures[] = {{OPENING, "create"},
				{CLOSING, "create"},
				{FINDING, "create"},
				{WRITING, "write"}};

/* What fails leaves the record as it was. */
static void
try_failures(void)
{
	LeaseRecord record = example(3);
	LeaseRecord other = example(4);

	try_storing(&record);
	for (int i = 0; i < lengthof(failures); i++)
	{
		Trouble trouble;

		memset(&trouble, 0xff, sizeof(trouble));
		failing = failures[i].step;
		CHECK(!lease_record_write(&other, &trouble));
		failing = NOTHING;
		CHECK(trouble.kind == TROUBLE_STORING);
		CHECK(strcmp(trouble.reason,
					 psprintf("could not %s file \"snowflake.lease.tmp\": %s",
							  failures[i].operation, strerror(EIO))) == 0);
		check_bytes(&record);
	}
	failing = READING;
	check_read(&record, DAMAGED, 0);
	failing = OPENING;
	check_read(&record, MISSING, 0);
	failing = NOTHING;
	check_read(&record, NULL, 0);
}

static void
try_files(void)
{
	int			input = dup(STDIN_FILENO);
	int			free_fd = first_free_fd();
	LeaseRecord none = example(0);
	LeaseRecord older = example(2);
	LeaseRecord newer = example(3);

	check_read(&none, MISSING, 0);
	for (int count = 0; count <= ALL_LEASES; count++)
	{
		LeaseRecord record = example(count);

		try_storing(&record);
		try_lengths(&record);
	}
	try_shorter_checksum();
	try_counts();
	try_changes(&newer);
	try_failures();

	/* each time that it is written, the file is another one */
	try_storing(&older);
	try_storing(&newer);
	check_bytes(&newer);
	unlink("snowflake.lease.old");
	CHECK(rename("snowflake.lease", "snowflake.lease.old") == 0);
	try_storing(&older);
	read_bytes();
	CHECK(rename("snowflake.lease.old", "snowflake.lease") == 0);
	check_read(&newer, NULL, 0);
	write_bytes();
	check_read(&older, ELSEWHERE, older.caller.registry);

	/* a process without an input has 0 for the first file that it opens */
	close(STDIN_FILENO);
	try_storing(&newer);
	dup2(input, STDIN_FILENO);
	CHECK(first_free_fd() == free_fd);
	close(input);
}

/* --- What it says --------------------------------------------------------- */

#define LEASES 4

/* Of the shards 1, 3, 5, 7: each kind of lease, that ends after, at, or before its begin. */
static Lease
lease_case(int i, int which)
{
	return (Lease){100, 101 - which % 3, 2 * i + 1, which / 3};
}

static void
check_held(const LeaseRecord *record)
{
	int	   count = -1;
	int32 *held = lease_record_held(record, &count);
	int	   next = 0;

	for (int shard = 0; shard <= 2 * LEASES; shard++)
	{
		const Lease *lease = &record->lease[shard / 2];
		bool		 is_there = shard % 2 == 1 && shard / 2 < record->count;
		bool		 is_held = is_there && (lease->kind == HELD_HERE ||
									lease->kind == HELD_FORGOTTEN);

		CHECK(lease_record_holds(record, shard) == is_held);
		if (is_held)
			CHECK(next < count && held[next++] == shard);
	}
	CHECK(count == next);
	pfree(held);
}

/*
 * Those that are held here; and of those that were given back, and in which an id was or
 * could be minted, the ones that are named, or so many that with all that are held there are
 * as many as are asked for.
 */
static void
check_claims(const LeaseRecord *record)
{
	int	   count = -1;
	Lease *claims = lease_record_claims(record, &count);
	int	   all = 0;
	int	   next = 0;

	for (int i = 0; i < record->count; i++)
	{
		if (record->lease[i].kind != NOT_HELD)
			all++;
	}
	for (int i = 0; i < record->count; i++)
	{
		const Lease *lease = &record->lease[i];
		bool		 is_claimed = lease->kind == HELD_HERE;

		if (lease->kind == NOT_HELD && lease->until > lease->from)
		{
			is_claimed =
				settings_name_shard(lease->shard) || all < asked->automatic;
			all += is_claimed;
		}
		if (is_claimed)
			CHECK(next < count &&
				  memcmp(&claims[next++], lease, sizeof(Lease)) == 0);
	}
	CHECK(count == next);
	pfree(claims);
}

/* With each number of shards that are asked for, and with each list of shards. */
static void
try_asked(const LeaseRecord *record)
{
	asked->count = 0;
	for (asked->automatic = 0; asked->automatic <= LEASES; asked->automatic++)
		check_claims(record);
	asked->automatic = 0;
	for (int named = 0; named < 1 << LEASES; named++)
	{
		asked->count = 0;
		for (int i = 0; i < LEASES; i++)
		{
			if (named >> i & 1)
				asked->shard[asked->count++] = 2 * i + 1;
		}
		check_claims(record);
	}
}

/* All sets of leases; behind the last one there is what was there before. */
static void
try_claims(void)
{
	LeaseRecord record = example(LEASES);

	asked = palloc0(offsetof(OwnShards, shard) + LEASES * sizeof(int32));
	settings_asked_shards = asked;
	for (int i = 0; i < 9 * 9 * 9 * 9; i++)
	{
		record.lease[0] = lease_case(0, i % 9);
		record.lease[1] = lease_case(1, i / 9 % 9);
		record.lease[2] = lease_case(2, i / 81 % 9);
		record.lease[3] = lease_case(3, i / 729);
		for (record.count = 0; record.count <= LEASES; record.count++)
		{
			check_held(&record);
			try_asked(&record);
		}
	}
}

PG_FUNCTION_INFO_V1(lease_record_cases);
Datum
lease_record_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	failing = NOTHING;
	in_directory("lease_record_cases", try_files);
	try_claims();
	PG_RETURN_INT64(tried);
}
