/*-------------------------------------------------------------------------
 *
 * conninfo_cases.c
 *	  The hosts, addresses and ports of a connection string, in all numbers.
 *
 * conninfo_cases() calls the functions of conninfo.c, with functions of our own in the place
 * of libpq's.  It compares each outcome with what the head of conninfo.c says, and returns
 * how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "libpq-fe.h"

#include "cases.h"

PG_MODULE_MAGIC;

/* --- libpq ---------------------------------------------------------------- */

#define MOST_PARAMETERS 200

static PQconninfoOption options[MOST_PARAMETERS + 1];
static bool				is_parsed;
static int				freed_options;
static int				freed_messages;
static PGconn *const	connection = (PGconn *) options;

/* What it is to connect to. */
static char parameters[MOST_PARAMETERS][2][40];
static int	parameter_count;

static PQconninfoOption *
our_parse(const char *text, char **message)
{
	CHECK(strcmp(text, "a string") == 0);
	*message = is_parsed ? NULL : "it has the password";
	return is_parsed ? options : NULL;
}

static void
our_free(const char *message)
{
	CHECK((message == NULL) == is_parsed);
	freed_messages++;
}

static PGconn *
our_connect(const char *const *keywords, const char *const *values,
			bool expands)
{
	CHECK(!expands); /* a database of that name */
	for (parameter_count = 0; keywords[parameter_count]; parameter_count++)
	{
		CHECK(parameter_count < MOST_PARAMETERS);
		strlcpy(parameters[parameter_count][0], keywords[parameter_count], 40);
		strlcpy(parameters[parameter_count][1], values[parameter_count], 40);
	}
	return connection;
}

#define PQconninfoParse(text, message) our_parse(text, message)
#define PQconninfoFree(options) (freed_options++)
#define PQfreemem(message) our_free(message)
#define PQconnectStartParams(keywords, values, expands) \
	our_connect(keywords, values, expands)

#include "../../src/lease/conninfo.c"

/* --- The cases ------------------------------------------------------------ */

/* Lists of 0 to 4 items, of which any can be empty.  NULL and "": it is not set. */
static const struct
{
	char *text;
	int	  count;
	char *item[4];
} lists[] = {
	{NULL, 0},
	{"", 0},
	{"one", 1, {"one"}},
	{"one,two", 2, {"one", "two"}},
	{"1,,three", 3, {"1", "", "three"}},
	{",two,,", 4, {"", "two", "", ""}},
};

/* Options, of which others stand before, between and behind. */
static const char *const keywords[] = {
	"service", "host", "hostname", "hostaddr", "sslmode", "port", "dbname",
};

static void
set_options(char *host, char *address, char *port)
{
	char *values[] = {NULL, host, "a,b", address, "", port, "d,e"};

	memset(options, 0, sizeof(options));
	for (int i = 0; i < lengthof(keywords); i++)
	{
		options[i].keyword = (char *) keywords[i];
		options[i].val = values[i];
	}
}

static void
check_parameter(int index, const char *keyword, const char *value)
{
	CHECK(index < parameter_count);
	CHECK(strcmp(parameters[index][0], keyword) == 0);
	CHECK(strcmp(parameters[index][1], value) == 0);
}

/* What is asked for before the options. */
static void
check_first_parameters(const char *timeout)
{
	check_parameter(0, "fallback_application_name", "snowflake lease");
	check_parameter(1, "tcp_user_timeout", timeout);
	check_parameter(2, "target_session_attrs", "primary");
}

/* Each option that is set comes once, in order, with the item of that host. */
static void
check_parameters(const int *list, int host)
{
	int next = 3;

	for (int i = 0; i < lengthof(keywords); i++)
	{
		int item = i % 2 ? list[i / 2] : 0; /* host, hostaddr, port */

		if (options[i].val == NULL)
			continue;
		if (item > 1)
			check_parameter(next++, keywords[i],
							lists[item].item[Min(host, lists[item].count - 1)]);
		else
			check_parameter(next++, keywords[i], options[i].val);
	}
	CHECK(parameter_count == next);
}

static void
try_lists(void)
{
	for (int i = 0; i < 6 * 6 * 6; i++)
	{
		int			list[] = {i / 36, i / 6 % 6, i % 6};
		int			names = lists[list[0]].count;
		int			addresses = lists[list[1]].count;
		int			ports = lists[list[2]].count;
		int			hosts = addresses ? addresses : names ? names : 1;
		const char *fault = NULL;
		const char *told;

		/* one port is for all hosts, and so is none */
		if (ports > 1 && ports != hosts)
			fault = "It has one number of hosts, and another one of ports.";
		else if (names && addresses && names != addresses)
			fault = "It has one number of names of hosts, and another one of "
					"addresses.";
		set_options(lists[list[0]].text, lists[list[1]].text,
					lists[list[2]].text);
		freed_options = 0;
		told = conninfo_fault("a string");
		CHECK(fault ? told && strcmp(told, fault) == 0 : told == NULL);
		CHECK(freed_options == 1);
		CHECK(conninfo_count_hosts(options) == hosts);
		for (int host = 0; host < hosts; host++)
		{
			CHECK(conninfo_start_connecting(options, host, 5000) ==
				  connection);
			check_first_parameters("5000");
			check_parameters(list, host);
		}
	}
}

static void
try_timeouts(void)
{
	static const char *const timeouts[] = {"0", "1", "15000", "2147483647"};

	for (int i = 0; i < lengthof(timeouts); i++)
	{
		(void) conninfo_start_connecting(options, 0, atoi(timeouts[i]));
		check_first_parameters(timeouts[i]);
	}
}

/* What libpq says of a string is shown to nobody, and freed. */
static void
try_parsing(void)
{
	for (int i = 0; i < 2; i++)
	{
		is_parsed = i;
		freed_options = freed_messages = 0;
		CHECK(conninfo_parse("a string") == (is_parsed ? options : NULL));
		CHECK(freed_messages == 1 && freed_options == 0);
	}
	is_parsed = false;
	CHECK(strcmp(conninfo_fault("a string"), "libpq cannot parse it.") == 0);
	CHECK(freed_options == 0);
	is_parsed = true;
}

/* libpq has about 50 options.  If it had more than there is room for, some would count. */
static void
try_many_options(void)
{
	for (int count = 0; count <= MOST_PARAMETERS; count++)
	{
		memset(options, 0, sizeof(options));
		for (int i = 0; i < count; i++)
		{
			options[i].keyword = "option";
			options[i].val = psprintf("%d", i);
		}
		(void) conninfo_start_connecting(options, 0, 5000);
		CHECK(parameter_count == Min(3 + count, 99));
		for (int i = 3; i < parameter_count; i++)
			check_parameter(i, "option", options[i - 3].val);
	}
}

PG_FUNCTION_INFO_V1(conninfo_cases);
Datum
conninfo_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	try_parsing();
	try_lists();
	try_timeouts();
	try_many_options();
	PG_RETURN_INT64(tried);
}
