/*-------------------------------------------------------------------------
 *
 * conninfo.c
 *	  The connection string of the registry, and its hosts.
 *
 * libpq alone knows what a connection string is, so libpq parses it.  What it
 * says of one that it cannot parse is shown to nobody, not even in the log: it
 * repeats a part of the string, which can be the password.
 *
 * A string can name several hosts.  libpq tries one after the other, but where
 * one accepts and is silent, and nothing blocks, it stays with that one.  So the
 * hosts are taken apart here, and each is connected to by itself.  (What a
 * service file or the environment say of hosts is not seen here: those count as
 * one, among which libpq looks for the primary.)
 *
 * There is nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "conninfo.h"

#define MAX_OPTIONS 100

/* The items of the value of one of libpq's options, separated by commas; 0: it is not set. */
static int
count_items(const PQconninfoOption *options, const char *keyword)
{
	int count;

	while (strcmp(options->keyword, keyword) != 0)
		options++;
	if (options->val == NULL || options->val[0] == '\0')
		return 0;
	count = 1;
	for (const char *at = options->val; *at != '\0'; at++)
		count += *at == ',';
	return count;
}

/* One item of such a list, of which the last one goes on. */
static char *
list_item(const char *list, int item)
{
	for (; item > 0 && strchr(list, ',') != NULL; item--)
		list = strchr(list, ',') + 1;
	return pnstrdup(list, strcspn(list, ","));
}

/* As libpq counts them: an address takes precedence over a name. */
int
conninfo_count_hosts(const PQconninfoOption *options)
{
	int addresses = count_items(options, "hostaddr");
	int names = count_items(options, "host");

	return addresses > 0 ? addresses : Max(names, 1);
}

/* As it is set; NULL if it cannot be parsed.  Free it by PQconninfoFree(). */
PQconninfoOption *
conninfo_parse(const char *text)
{
	char			 *message = NULL;
	PQconninfoOption *options = PQconninfoParse(text, &message);

	PQfreemem(message);
	return options;
}

/* Why a string cannot be one of the registry's; NULL: it can. */
const char *
conninfo_fault(const char *text)
{
	PQconninfoOption *options = conninfo_parse(text);
	const char		 *fault = NULL;
	int				  names;
	int				  addresses;
	int				  ports;

	if (options == NULL)
		return "libpq cannot parse it.";
	names = count_items(options, "host");
	addresses = count_items(options, "hostaddr");
	ports = count_items(options, "port");
	if (ports > 1 && ports != conninfo_count_hosts(options))
		fault = "It has one number of hosts, and another one of ports.";
	else if (names > 0 && addresses > 0 && names != addresses)
		fault = "It has one number of names of hosts, and another one of "
				"addresses.";
	PQconninfoFree(options);
	return fault;
}

/* Connect to one of the hosts, without waiting. */
PGconn *
conninfo_start_connecting(const PQconninfoOption *options, int host,
						  int timeout_ms)
{
	/*
	 * What the connection string says comes later, and so counts.  The time limit is for
	 * places where libpq itself waits without one.  NULL ends the list: the rest is zero.
	 */
	char		timeout[12];
	const char *keywords[MAX_OPTIONS] = {"fallback_application_name",
										 "tcp_user_timeout",
										 "target_session_attrs"};
	const char *values[MAX_OPTIONS] = {"snowflake lease", timeout, "primary"};
	int			count = 3;

	snprintf(timeout, sizeof(timeout), "%d", timeout_ms);
	for (; options->keyword != NULL && count < MAX_OPTIONS - 1; options++)
	{
		if (options->val == NULL)
			continue;
		keywords[count] = options->keyword;
		values[count++] = strcmp(options->keyword, "host") == 0 ||
								  strcmp(options->keyword, "hostaddr") == 0 ||
								  strcmp(options->keyword, "port") == 0 ?
							  list_item(options->val, host) :
							  options->val;
	}
	return PQconnectStartParams(keywords, values, false);
}
