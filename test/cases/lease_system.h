/*-------------------------------------------------------------------------
 *
 * lease_system.h
 *	  What is below and above the files of src/lease, for their tables of cases: clocks,
 *	  a layout, and memory with a sign behind it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_type_d.h"
#include "common/string.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "cases.h"

#include "../../src/layout.c"
#include "../../src/horizon.h"
#include "../../src/lease/lease_wait.h"
#include "../../src/server.h"

/* --- Memory of one case --------------------------------------------------- */

#define SIGN 0x5A
#define SIGN_SIZE 8

static MemoryContext case_memory;
static char			*sign[64];
static int			 signs;

static void *
our_palloc(Size size)
{
	char *bytes = palloc(size + SIGN_SIZE);

	memset(bytes, SIGN, size + SIGN_SIZE);
	if (signs == lengthof(sign))
		elog(ERROR, "too much memory for one case");
	sign[signs++] = bytes + size;
	return bytes;
}

/* Nobody has written behind the memory that was asked for. */
static void
check_signs(void)
{
	for (int i = 0; i < signs; i++)
	{
		for (int byte = 0; byte < SIGN_SIZE; byte++)
			CHECK(sign[i][byte] == SIGN);
	}
}

static void
begin_case(void)
{
	if (case_memory == NULL)
		case_memory = AllocSetContextCreate(TopMemoryContext, "a case",
											ALLOCSET_DEFAULT_SIZES);
	check_signs(); /* of the case before */
	MemoryContextReset(case_memory);
	MemoryContextSwitchTo(case_memory);
	signs = 0;
}

#define palloc(size) our_palloc(size)

/* --- Clocks, and the layout ------------------------------------------------ */

static TimestampTz clock_us;
static int64	   steady_us;

/* 0 to 3 are its shards, a tick has 10 us, and the first one begins at time 0. */
static const Layout the_layout = {.tick_us = 10,
								  .timestamp_shift = 22,
								  .shard_bits = 2,
								  .last_mint_tick = 1000,
								  .last_tick = 1000};
static int			layout_asked; /* so often */

static Bounds  the_bounds;
Bounds		  *bounds = &the_bounds;
const Leasing *leasing;

#define GetCurrentTimestamp() clock_us

int64
steady_clock_us(void)
{
	return steady_us;
}

const Layout *
settings_layout(void)
{
	layout_asked++;
	return &the_layout;
}
