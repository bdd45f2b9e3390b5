/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  The settings snowflake.*, parsed and checked.
 *
 * A setting is parsed once, by its check hook; what the others read is the
 * parsed form that the hook handed to the server.
 *
 * Invariants:
 *	- settings exist only in a server that preloads the library, because the
 *	  server's layout must be the same in every process from the start;
 *	- the server's layout is fixed at server start, and snowflake.shards only
 *	  names shards that it has;
 *	- a server never starts with a value of ours that it did not understand.
 *	  By itself it would warn and fall back to the default, that is, mint
 *	  another layout's ids or a neighbour's shards.
 *
 * All of this is private to a process: there is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "errors.h"
#include "settings.h"
#include "shards.h"

#define SETTING_LAYOUT "snowflake.layout"
#define SETTING_SHARDS "snowflake.shards"
#define SETTING_CLOCK_TOLERANCE "snowflake.clock_tolerance"
#define SETTING_RESERVE "snowflake.reserve"
#define SETTING_REFUSE_CLONE "snowflake.refuse_clone"
#define SETTING_SPREAD "snowflake.spread"
#define SETTING_ORDERING "snowflake.ordering"
#define SETTING_REGISTRY "snowflake.registry"
#define SETTING_LEASE "snowflake.lease"

/* in the order in which they are refused */
static const char *const names[] = {
	SETTING_LAYOUT,	  SETTING_SHARDS,		SETTING_CLOCK_TOLERANCE,
	SETTING_RESERVE,  SETTING_REFUSE_CLONE, SETTING_SPREAD,
	SETTING_ORDERING, SETTING_REGISTRY,		SETTING_LEASE};

static const struct config_enum_entry orders[] = {{"server", ORDER_SERVER,
												   false},
												  {"session", ORDER_SESSION,
												   false},
												  {NULL, 0, false}};

#define MS_PER_DAY (24 * 60 * 60 * 1000)

/* as the server shows them */
static char *layout_text;
static char *registry_text;
char		*settings_shards_text;
int			 settings_clock_tolerance_ms;
int			 settings_reserve_ms;
int			 settings_lease_ms;
bool		 settings_refuse_clone;
int			 settings_spread;
int			 settings_ordering;

/* as the check hooks parsed them */
static const Layout *setting_layout;
static char			 layout_in_full[LAYOUT_TEXT_SIZE];
const OwnShards		*settings_asked_shards;
uint32				 settings_shards_changes = 0;

/* what is wrong with a registry's connection string; NULL: built without leases */
static const char *(*find_registry_fault)(const char *text);

/* the registry that leases: the last one that was set since the server started */
static char *registry_in_use;

/* --- snowflake.layout --------------------------------------------------- */

static bool
check_layout(char **text, void **parsed, GucSource source)
{
	Layout		layout;
	LayoutError error;

	if (!layout_parse(*text, strlen(*text), &layout, &error))
	{
		GUC_check_errdetail("Invalid layout: %s.", error.message);
		GUC_check_errhint("%s", hint_of_layout(&error));
		return false;
	}
	if (layout.shard_bits > SETTINGS_MAX_SHARD_BITS)
	{
		GUC_check_errdetail(
			"The layout has %d shard bits, and a server mints at most %d of them.",
			layout.shard_bits, SETTINGS_MAX_SHARD_BITS);
		return false;
	}
	*parsed = guc_malloc(LOG, sizeof(Layout));
	if (*parsed == NULL)
		return false;
	memcpy(*parsed, &layout, sizeof(Layout));
	return true;
}

static void
assign_layout(const char *text, void *parsed)
{
	setting_layout = parsed;
	layout_format(setting_layout, layout_in_full, sizeof(layout_in_full));
}

/* --- Leases, in a library that was built without them ------------------- */

static bool
refuse_leases(void)
{
	GUC_check_errdetail("This library was built without leases.");
	GUC_check_errhint("Give each server shards of its own in "
					  "\"snowflake.shards\", and leave \"snowflake.registry\" "
					  "empty; or build with make LEASES=yes.");
	return false;
}

/* --- snowflake.shards --------------------------------------------------- */

static bool
check_shards(char **text, void **parsed, GucSource source)
{
	bool		mine[1 << SETTINGS_MAX_SHARD_BITS] = {false};
	int64		last_shard = layout_last_shard(setting_layout);
	OwnShards  *own;
	LayoutError error;
	int32		automatic;
	int			count = 0;

	if (!shards_parse_auto(*text, last_shard, &automatic, &error) ||
		(automatic == 0 && !shards_parse(*text, last_shard, mine, &error)))
	{
		GUC_check_errdetail("%s", error.message);
		GUC_check_errhint("Write shards from 0 to " INT64_FORMAT
						  " and ranges of them, such as \"5\", \"0-7\" or "
						  "\"1,5,9-12\"; or nothing.",
						  last_shard);
		return false;
	}
	if (automatic > 0 && find_registry_fault == NULL)
		return refuse_leases();
	own = guc_malloc(LOG, offsetof(OwnShards, shard) +
							  (last_shard + 1) * sizeof(int32));
	if (own == NULL)
		return false;
	for (int shard = 0; shard <= last_shard; shard++)
	{
		if (mine[shard])
			own->shard[count++] = shard;
	}
	own->count = count;
	own->automatic = automatic;
	*parsed = own;
	return true;
}

static void
assign_shards(const char *text, void *parsed)
{
	settings_asked_shards = parsed;
	settings_shards_changes++;
}

/* --- snowflake.registry ------------------------------------------------- */

/* The server's own message would repeat the value, with a password in it. */
static bool
check_registry(char **text, void **parsed, GucSource source)
{
	const char *fault = NULL;

	if ((*text)[0] == '\0' || (find_registry_fault != NULL &&
							   (fault = find_registry_fault(*text)) == NULL))
		return true;
	GUC_check_errmsg("invalid value for parameter \"%s\"", SETTING_REGISTRY);
	if (fault == NULL)
		return refuse_leases();
	GUC_check_errdetail("The value is not a connection string. %s It is not "
						"repeated here, because it may have a password.",
						fault);
	GUC_check_errhint("Try the value with psql, such as psql "
					  "'host=registry.example dbname=registry user=ids'.");
	return false;
}

/*
 * A server that leases goes on to lease until it is restarted: a statement that
 * runs has found its shards already, and would go on to mint on them when they
 * are given back.  The postmaster remembers the registry, so a worker that it
 * starts again does, too.
 */
static void
assign_registry(const char *text, void *parsed)
{
	char *copy = text[0] == '\0' ? NULL : strdup(text);

	if (copy == NULL)
		return;
	free(registry_in_use);
	registry_in_use = copy;
}

/* --- Defining them ------------------------------------------------------ */

/*
 * Refuse to start with a value that a setting's check hook refuses.  "asked" is
 * what configuration file or command line say.
 */
static void
insist(const char *name, const char *asked)
{
	if (asked != NULL)
		(void) set_config_option(name, asked, PGC_POSTMASTER, PGC_S_FILE,
								 GUC_ACTION_SET, false, FATAL, false);
}

static const char *
asked_for(const char *name)
{
	const char *value = GetConfigOption(name, true, false);

	return value != NULL ? pstrdup(value) : NULL;
}

/* Called while the library is being preloaded, and only then. */
void
settings_define(const char *(*registry_fault)(const char *text))
{
	const char *asked[lengthof(names)];

	find_registry_fault = registry_fault;
	for (int i = 0; i < lengthof(names); i++)
		asked[i] = asked_for(names[i]);

	/* first, because shards are checked against it */
	DefineCustomStringVariable(
		SETTING_LAYOUT, "The layout of this server's ids.",
		"The name of a preset or a specification such as \"epoch=2024-01-01T00:00:00Z unit=1ms fields=timestamp:41,shard:10,sequence:12\".",
		&layout_text, "twitter", PGC_POSTMASTER, 0, check_layout,
		assign_layout, NULL);

	DefineCustomStringVariable(
		SETTING_SHARDS, "The shards that this server may mint.",
		"A list such as \"5\", \"0-7\" or \"1,5,9-12\"; with snowflake.registry also \"auto\" or \"auto:4\". Empty means any, by explicit number only.",
		&settings_shards_text, "", PGC_SUSET, GUC_LIST_INPUT, check_shards,
		assign_shards, NULL);

	DefineCustomIntVariable(
		SETTING_CLOCK_TOLERANCE,
		"The longest wait for a clock that is behind the last id.", NULL,
		&settings_clock_tolerance_ms, 1000, 0, INT_MAX, PGC_SUSET, GUC_UNIT_MS,
		NULL, NULL, NULL);

	DefineCustomIntVariable(
		SETTING_RESERVE, "How far ahead of the clock the horizon is set.",
		"No id is minted past the horizon. A server that was not shut down "
		"cleanly mints nothing before it.",
		&settings_reserve_ms, 1000, 100, 60000, PGC_SIGHUP, GUC_UNIT_MS, NULL,
		NULL, NULL);

	/* one answer for the whole server: not a session's to switch off */
	DefineCustomBoolVariable(
		SETTING_REFUSE_CLONE,
		"Refuse to mint on a server that was found to be a clone.",
		"Until snowflake_accept_clone() is called. Off: it only says so.",
		&settings_refuse_clone, false, PGC_SIGHUP, 0, NULL, NULL, NULL);

	DefineCustomIntVariable(
		SETTING_SPREAD,
		"How many bits of a tick's first sequence number vary.",
		"0: ticks begin with sequence number 0. n: id % 2^n is even at low "
		"rates, and a tick has up to 2^n - 1 ids less.",
		&settings_spread, 0, 0, SETTINGS_MAX_SPREAD, PGC_SUSET, 0, NULL, NULL,
		NULL);

	/* one order for all sessions: not a session's to leave */
	DefineCustomEnumVariable(
		SETTING_ORDERING,
		"Whose ids increase: those of all sessions of the server, or of each.",
		"With \"session\", sessions that meet on a shard go on with "
		"different ones.",
		&settings_ordering, ORDER_SERVER, orders, PGC_SIGHUP, 0, NULL, NULL,
		NULL);

	/* it may have a password, although that is not the place for one */
	DefineCustomStringVariable(
		SETTING_REGISTRY,
		"The connection string of the registry that leases shards.",
		"Empty: snowflake.shards is this server's without a lease.",
		&registry_text, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_registry,
		assign_registry, NULL);

	DefineCustomIntVariable(
		SETTING_LEASE, "How long a lease of a shard lasts.",
		"It is renewed at half of that. While the registry is away, the "
		"server mints until the lease ends.",
		&settings_lease_ms, 600000, 1000, MS_PER_DAY, PGC_SIGHUP, GUC_UNIT_MS,
		NULL, NULL, NULL);

	for (int i = 0; i < lengthof(names); i++)
		insist(names[i], asked[i]);
	MarkGUCPrefixReserved("snowflake");
}

/* --- What the others read ----------------------------------------------- */

bool
settings_preloaded(void)
{
	return setting_layout != NULL;
}

/* The server's layout; an error in a server that did not preload us. */
const Layout *
settings_layout(void)
{
	if (!settings_preloaded())
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg(
				 "snowflake must be loaded via \"shared_preload_libraries\""),
			 errdetail(
				 "Minting, and reading ids without naming a layout, need the library's shared memory and settings."),
			 errhint(
				 "Add \"snowflake\" to \"shared_preload_libraries\" in postgresql.conf and restart the server, or name the layout, as in snowflake_decode(id, 'twitter').")));
	return setting_layout;
}

/* As a specification: what records have, and the registry is told. */
const char *
settings_layout_text(void)
{
	return layout_in_full;
}

/* The index of the first of these shards that is not below the given one. */
int
index_of_shard(const OwnShards *own, int32 shard)
{
	int low = 0;
	int high = own->count;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (own->shard[middle] < shard)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool
has_shard(const OwnShards *list, int32 shard)
{
	int index = index_of_shard(list, shard);

	return index < list->count && list->shard[index] == shard;
}

/* Does snowflake.shards name the shard? */
bool
settings_name_shard(int32 shard)
{
	return has_shard(settings_asked_shards, shard);
}

/* Does it name the shard, or leave open which ones? */
bool
settings_ask_for(int32 shard)
{
	return settings_asked_shards->count == 0 || settings_name_shard(shard);
}

/* Do the settings ask for leases? */
bool
settings_want_leases(void)
{
	return settings_registry()[0] != '\0' ||
		   settings_asked_shards->automatic > 0;
}

/* The registry to lease from; "": none. */
const char *
settings_registry(void)
{
	return registry_in_use != NULL ? registry_in_use : "";
}

/* Was the registry taken away, which takes a restart? */
bool
settings_leave_registry(void)
{
	return registry_in_use != NULL && registry_text[0] == '\0';
}
