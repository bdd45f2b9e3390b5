/*-------------------------------------------------------------------------
 *
 * lease_wait_told.h
 *	  The words of each error of lease_wait.c, for lease_wait_cases.c.
 *
 *-------------------------------------------------------------------------
 */

/* --- The cases that they speak of ------------------------------------------- */

/* Each lease is from FROM until UNTIL.  The horizon is a tick after that. */
#define FROM 1000
#define UNTIL 2000
#define HORIZON_TICK 201
#define HORIZON 2010

#define TOLERANCE_MS 3
#define TOLERANCE_US 3000

/* What a session waits for. */
static int32 wanted;
static bool	 fresh;
static int64 waited_us;

/* The registry's clock, of which a server knows the least and the most. */
static TimestampTz least;
static TimestampTz most;

/* --- What a session is to be told -------------------------------------------- */

static const Told nothing;

/* "5 us ahead of the registry's": by so much at least, whenever it read its clock. */
static char *
clock_text(void)
{
	if (clock_us < least)
		return psprintf("[" INT64_FORMAT " us] behind the registry's",
						least - clock_us);
	return psprintf("[" INT64_FORMAT " us] ahead of the registry's",
					clock_us > most ? clock_us - most : 0);
}

#define CLOCKS_HINT \
	"Check the time synchronization of this server and of the registry's."

static Told
tell_clock(const char *how, int64 us, const char *bound, TimestampTz at)
{
	return (Told){ERRCODE_SYSTEM_ERROR,
				  psprintf("clock is [" INT64_FORMAT
						   " us] %s the lease of this server's shards",
						   us, how),
				  psprintf("The lease %s at [time " INT64_FORMAT
						   "], and the clock is at [time " INT64_FORMAT
						   "], %s.",
						   bound, at, clock_us, clock_text()),
				  NULL, CLOCKS_HINT};
}

static Told
tell_ahead(void)
{
	return tell_clock("ahead of", clock_us - UNTIL, "ends", UNTIL);
}

static Told
tell_behind(void)
{
	return tell_clock("behind", FROM - clock_us, "begins", FROM);
}

static Told
tell_late(void)
{
	return (Told){
		ERRCODE_SYSTEM_ERROR,
		"the lease of this server's shards ended before it was renewed",
		psprintf("It ended at [time 2000]. The registry's last answer took "
				 "[" INT64_FORMAT " us].",
				 most - least),
		NULL,
		"Minting goes on by itself when an answer comes in time. Look for "
		"what delays the answers, or set \"snowflake.lease\" to several times "
		"as long."};
}

static Told
tell_horizon(void)
{
	return (Told){
		ERRCODE_SYSTEM_ERROR,
		"snowflake horizon is [10 us] ahead of the lease of this server's "
		"shards",
		psprintf("The lease ends at [time 2000], and the horizon is [time "
				 "2010]. The clock is %s.",
				 clock_text()),
		NULL,
		CLOCKS_HINT " Minting goes on by itself when the lease is renewed "
					"past the horizon."};
}

static Told
tell_unanswered(void)
{
	return (Told){
		ERRCODE_SYSTEM_ERROR,
		"cannot mint snowflake ids: the registry has not answered yet",
		"No attempt to lease has ended since this server's worker began, or "
		"gave its shards back, or since the configuration was reloaded.",
		NULL,
		"Minting begins by itself when the registry leases shards to this "
		"server. An answer takes some seconds if a host of "
		"\"snowflake.registry\" is silent."};
}

static Told
tell_not_asked(int32 shard)
{
	StringInfo holds = makeStringInfo();

	if (registry[0] == '\0')
		return (Told){ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					  "there is no registry to lease snowflake shards from",
					  "\"snowflake.shards\" is \"auto\", or was since this "
					  "server started.",
					  NULL,
					  "Set \"snowflake.registry\"; or set "
					  "\"snowflake.shards\" to a list, and restart the "
					  "server."};
	for (int i = 0; i < table->count; i++)
		appendStringInfo(holds, "<%d>", table->held[i].lease.shard);
	return (Told){ERRCODE_INSUFFICIENT_PRIVILEGE,
				  shard == ANY_SHARD ?
					  "no shard is leased to this server" :
					  psprintf("shard %d is not leased to this server", shard),
				  holds->len == 0 ?
					  "It holds no shard." :
					  psprintf("It holds %s of the registry's shards.",
							   holds->data),
				  NULL,
				  "A server leases the shards of the \"snowflake.shards\" of "
				  "its configuration file. For a database or a role it can "
				  "only name some of these."};
}

static const struct
{
	const char *code;
	const char *what;
	const char *way_out;
} failures[] = {
	{NULL, "the registry answers", NULL},
	{"away", "the registry cannot be reached",
	 "Check that the registry runs, and try \"snowflake.registry\" from this "
	 "server: psql 'host=... dbname=... user=...'"},
	{"silent", "the registry does not answer",
	 "Look whether the registry hangs, or the network."},
	{"refused", "the registry refuses this server",
	 "Do in the registry what these words ask for: "
	 "doc/failures.md#the-registry-is-away."},
	{"closed", "the registry is not open", NULL},
	{"invalid", "the registry's answer is not valid",
	 "Look at what \"snowflake.registry\" names: it is another program, or its "
	 "functions were changed."},
	{"unstored", "this server could not store its leases",
	 "Remove the cause, such as a full disk."},
};

/* Only an administrator is told the words of the failure, and its way out. */
static Told
tell_failure(const char *words)
{
	const RegistryFailure *failure = &table->outcome.failure;
	char				  *ended =
		 table->end == DT_NOBEGIN ?
							 "This server holds no shard." :
							 psprintf("This server's lease ended at [time " INT64_FORMAT "].",
									  table->end);
	char *log =
		psprintf("%s The last attempt to lease failed: %s", ended, words);

	return (Told){
		ERRCODE_SYSTEM_ERROR,
		psprintf("cannot mint snowflake ids: %s",
				 failures[failure->kind].what),
		is_admin ? log : ended, log,
		is_admin && failure->hint[0] ?
			failure->hint :
			"Minting goes on by itself when the registry leases shards to "
			"this server. Its administrator finds the reason in "
			"snowflake_lease_status()."};
}

/* Only an administrator is told who has a shard. */
static Told
tell_refusal(const Refusal *refusal, const LeaseLoss *loss)
{
	const char *who = is_admin ? refusal->other : "Another server";
	char	   *until = psprintf("[time " INT64_FORMAT "]", refusal->until);
	char	   *lease;

	if (refusal->kind == REFUSED_TAKEN && loss != NULL)
	{
		lease = psprintf("has it now. The lease was from [time " INT64_FORMAT
						 "] until [time " INT64_FORMAT "].",
						 loss->lease.from, loss->lease.until);
		return (Told){
			ERRCODE_DATA_CORRUPTED,
			psprintf("the registry gave shard %d to another server during a "
					 "lease of this server",
					 refusal->shard),
			psprintf("%s %s", who, lease),
			psprintf("%s %s", refusal->other, lease),
			"Ids can exist twice. Count this server's ids of that shard and "
			"time with snowflake_audit(), and look for the same ids on the "
			"other server."};
	}
	switch (refusal->kind)
	{
		case REFUSED_TAKEN:
			return (Told){
				ERRCODE_OBJECT_IN_USE,
				psprintf("shard %d is leased to another server",
						 refusal->shard),
				psprintf("%s has it until %s.", who, until),
				psprintf("%s has it until %s.", refusal->other, until),
				"Give each server shards of its own in \"snowflake.shards\", "
				"or set it to \"auto\". If that server is gone, minting "
				"begins by itself then."};
		case REFUSED_FENCED:
			return (Told){
				ERRCODE_OBJECT_IN_USE,
				psprintf("shard %d is not free yet", refusal->shard),
				psprintf("The registry was fenced, or has an earlier lease of "
						 "this server itself. No lease begins before %s.",
						 until),
				NULL, "Minting begins by itself then."};
		case REFUSED_RESERVED:
			return (Told){ERRCODE_INSUFFICIENT_PRIVILEGE,
						  psprintf("shard %d is reserved in the registry",
								   refusal->shard),
						  psprintf("It is reserved for: %s.", refusal->other),
						  NULL,
						  "Take it from \"snowflake.shards\", or call "
						  "snowflake_registry_unreserve() in the registry."};
		case REFUSED_LIMITED:
			return (Told){
				ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
				"the registry leases no more shards to this server",
				psprintf("Its limits are %s.", refusal->other), NULL,
				"Ask for less by \"snowflake.shards\" or "
				"\"snowflake.lease\", or call snowflake_registry_limit() in "
				"the registry."};
		case REFUSED_EXHAUSTED:
			return (Told){ERRCODE_OBJECT_IN_USE,
						  "no shard is free in the registry",
						  refusal->until == DT_NOEND ?
							  "All shards are reserved." :
							  psprintf("The next shard is free at %s.", until),
						  NULL,
						  "Minting begins by itself then. See view "
						  "snowflake_registry_leases in the registry."};
	}
	return nothing;
}
