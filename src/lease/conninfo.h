/*
 * conninfo.h -- the connection string of the registry, and its hosts. See
 * conninfo.c.
 */
#ifndef SNOWFLAKE_CONNINFO_H
#define SNOWFLAKE_CONNINFO_H

#include "libpq-fe.h"

extern const char		*conninfo_fault(const char *text);
extern PQconninfoOption *conninfo_parse(const char *text);
extern int				 conninfo_count_hosts(const PQconninfoOption *options);
extern PGconn *conninfo_start_connecting(const PQconninfoOption *options,
										 int host, int timeout_ms);

#endif /* SNOWFLAKE_CONNINFO_H */
