/*-------------------------------------------------------------------------
 *
 * lease_record.c
 *	  The leases of this server, on disk.
 *
 * A server that starts where it was goes on with its leases, without asking the
 * registry.  So file snowflake.lease in the data directory has what the registry
 * granted, and evidence of the place: the file's own inode and time of birth,
 * its device, the host, the boot of the machine, and the server's incarnation.
 *
 * The file is made again each time it is written, and says which file it is.  So
 * a clone is found, and so is an older state of the file that somebody copied
 * back over it.  A record that is not provably of this place does not count.
 * Nobody needs to remove it, and a mistake costs leases, not ids.
 *
 * The file is written by the worker that leases shards: there is nothing to
 * lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "utils/memutils.h"

#include "lease_record.h"
#include "settings.h"

#define LEASE_FILE "snowflake.lease"
#define LEASE_TEMP_FILE LEASE_FILE ".tmp"

#define LEASE_MAGIC 0x534E4F4C /* "SNOL" */
#define LEASE_VERSION 1

/* Before the leases. */
typedef struct LeaseHeader
{
	uint32		magic;
	uint32		version;
	LeaseCaller caller;
	uint64		incarnation;
	char		layout[LAYOUT_TEXT_SIZE];
	Place		place;
	uint32		count;
	pg_crc32c	crc; /* of all other bytes */
} LeaseHeader;

/* The format.  A change of these numbers needs a new version. */
StaticAssertDecl(sizeof(LeaseHeader) == 368 && sizeof(Place) == 136 &&
					 sizeof(Lease) == 24,
				 "the header has 368 bytes, a lease 24");
StaticAssertDecl(offsetof(LeaseHeader, layout) == 64 &&
					 offsetof(LeaseHeader, place) == 224 &&
					 offsetof(LeaseHeader, count) == 360 &&
					 offsetof(LeaseHeader, crc) == 364,
				 "the fields of the header are where they were");

static pg_crc32c
crc_of(const LeaseHeader *header)
{
	pg_crc32c crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, header, offsetof(LeaseHeader, crc));
	COMP_CRC32C(crc, header + 1, header->count * sizeof(Lease));
	FIN_CRC32C(crc);
	return crc;
}

/* What all shards' leases take. */
static size_t
room_for_leases(void)
{
	return (layout_last_shard(settings_layout()) + 1) * sizeof(Lease);
}

/* Read all of the file, up to what a record can have.  NULL: it cannot be. */
static LeaseHeader *
read_file(size_t *size)
{
	size_t		 room = sizeof(LeaseHeader) + room_for_leases();
	LeaseHeader *header = palloc0(room);
	int			 fd = OpenTransientFile(LEASE_FILE, O_RDONLY | PG_BINARY);
	ssize_t		 length;

	if (fd < 0)
		return NULL;
	length = read(fd, header, room);
	CloseTransientFile(fd);
	*size = Max(length, 0);
	return header;
}

static bool
is_whole(const LeaseHeader *header, size_t size)
{
	return size >= sizeof(*header) && header->magic == LEASE_MAGIC &&
		   header->version == LEASE_VERSION &&
		   header->count <= (size - sizeof(*header)) / sizeof(Lease) &&
		   header->crc == crc_of(header);
}

/*
 * Read the record, if it is of this server in this place, and make room for all leases.
 * If it does not count, gives the reason; then nothing but the registry's number is taken
 * from it, if it can be read.
 */
const char *
lease_record_read(LeaseRecord *record)
{
	size_t		 length = 0; /* stays 0 if there is no header */
	LeaseHeader *header = read_file(&length);
	bool		 whole = is_whole(header, length);
	const char	*reason = NULL;
	Place		 here;

	(void) identity_find_place(LEASE_FILE, &here);
	record->lease =
		MemoryContextAllocHuge(TopMemoryContext, room_for_leases());
	record->caller.registry = whole ? header->caller.registry : 0;
	if (header == NULL)
		reason = "it has no record of leases";
	else if (!whole)
		reason = "its record of leases is damaged";
	else if (strcmp(header->layout, settings_layout_text()) != 0)
		reason = "its record of leases is of another layout";
	else if (header->incarnation != record->incarnation)
		reason = "its record of leases is another server's";
	else if (strcmp(here.boot, header->place.boot) != 0)
		reason = "the machine was booted since";
	else if (!identity_same_place(&here, &header->place))
		reason = "its data directory is in another place";
	if (reason != NULL)
		return reason;
	record->caller = header->caller;
	record->count = header->count;
	memcpy(record->lease, header + 1, header->count * sizeof(Lease));
	return NULL;
}

/* Make the file that will be the record, so that it can be told which it is. */
static bool
make_temp_file(Place *place, Trouble *trouble)
{
	int fd = OpenTransientFile(LEASE_TEMP_FILE,
							   O_CREAT | O_TRUNC | O_WRONLY | PG_BINARY);

	return (fd >= 0 && CloseTransientFile(fd) == 0 &&
			identity_find_place(LEASE_TEMP_FILE, place)) ||
		   record_not_stored(trouble, "create", LEASE_TEMP_FILE);
}

/* When this returns true, the record survives a loss of power. */
bool
lease_record_write(const LeaseRecord *record, Trouble *trouble)
{
	size_t		 size = sizeof(LeaseHeader) + record->count * sizeof(Lease);
	LeaseHeader *header = palloc0(size);
	bool		 good;

	header->magic = LEASE_MAGIC;
	header->version = LEASE_VERSION;
	header->caller = record->caller;
	header->incarnation = record->incarnation;
	strlcpy(header->layout, settings_layout_text(), sizeof(header->layout));
	header->count = record->count;
	memcpy(header + 1, record->lease, record->count * sizeof(Lease));
	good = make_temp_file(&header->place, trouble);
	header->crc = crc_of(header);
	good = good && record_replace_file(LEASE_FILE, LEASE_TEMP_FILE, header,
									   size, trouble);
	pfree(header);
	return good;
}

/* --- What it says ------------------------------------------------------------ */

/* Is a shard's lease held? */
bool
lease_record_holds(const LeaseRecord *record, int32 shard)
{
	for (int i = 0; i < record->count; i++)
	{
		if (record->lease[i].shard == shard)
			return record->lease[i].kind != NOT_HELD;
	}
	return false;
}

/* The shards whose leases are held. */
int32 *
lease_record_held(const LeaseRecord *record, int *count)
{
	int32 *shard = palloc(record->count * sizeof(int32));

	*count = 0;
	for (int i = 0; i < record->count; i++)
	{
		if (record->lease[i].kind != NOT_HELD)
			shard[(*count)++] = record->lease[i].shard;
	}
	return shard;
}

/*
 * The leases that a call claims: those that are held, and of those that were
 * given back the wanted ones.  Up to its end, where the last id was minted, such
 * a lease is still this server's, if the registry's clock is not there yet.
 */
Lease *
lease_record_claims(const LeaseRecord *record, int *count)
{
	Lease *lease = palloc(record->count * sizeof(Lease));
	int	   missing = settings_asked_shards->automatic;

	for (int i = 0; i < record->count; i++)
		missing -= record->lease[i].kind != NOT_HELD;
	*count = 0;
	for (int i = 0; i < record->count; i++)
	{
		const Lease *one = &record->lease[i];

		if (one->kind == HELD_HERE ||
			(one->kind == NOT_HELD && one->until > one->from &&
			 (settings_name_shard(one->shard) || missing-- > 0)))
			lease[(*count)++] = *one;
	}
	return lease;
}
