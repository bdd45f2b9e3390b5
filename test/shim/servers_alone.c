/*
 * servers_alone.c -- keep what is preloaded into a server out of its commands
 *
 * To be preloaded, with other libraries, into the programs that start a server.
 * Once the server has loaded them it forgets to hand them on, so that the
 * programs that it runs, such as an archive_command, are as they always are.
 * libfaketime has stopped such programs for ever on a busy machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void
forget(void)
{
	if (strcmp(program_invocation_short_name, "postgres") == 0)
		unsetenv("LD_PRELOAD");
}
