/*-------------------------------------------------------------------------
 *
 * accept.c
 *	  Accepting another layout, or a clone.
 *
 * An administrator says that the server may go on.  The session notes it in
 * server.c, and the horizon's worker stores it; the call returns when it is on
 * disk.  There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "fmgr.h"

#include "horizon.h"
#include "server.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_store_layout);
PG_FUNCTION_INFO_V1(snowflake_accept_clone);

/*
 * Accept what is pending, and wait until it is not.  A call that fails or is
 * cancelled takes its word back; other calls say it again.  False if nothing is
 * pending.
 */
static bool
accept_and_wait(const char *name, uint32 what, bool (*is_pending)(void))
{
	WorkerWait wait = {0};
	bool	   was_pending;

	(void) settings_layout();
	if (RecoveryInProgress())
		ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
						errmsg("cannot accept %s during recovery", name)));
	while (!server_knows_layout())
		horizon_wait(&wait, HORIZON_OPEN_ONLY);
	wait = (WorkerWait){0}; /* for an attempt that begins from now on */
	was_pending = is_pending();
	PG_TRY();
	{
		while (is_pending())
		{
			server_accept(what, true);
			horizon_wait(&wait, HORIZON_OPEN_ONLY);
		}
	}
	PG_CATCH();
	{
		server_accept(what, false);
		PG_RE_THROW();
	}
	PG_END_TRY();
	ConditionVariableCancelSleep();
	return was_pending;
}

/* Go on with the layout of the setting; snowflake_accept_layout() has checked. */
Datum
snowflake_store_layout(PG_FUNCTION_ARGS)
{
	if (!accept_and_wait("a layout", ACCEPTS_LAYOUT, server_layout_differs))
		ereport(NOTICE, (errmsg("the layout has not changed")));
	PG_RETURN_VOID();
}

/* This clone may mint beside its original, or instead of it. */
Datum
snowflake_accept_clone(PG_FUNCTION_ARGS)
{
	if (!accept_and_wait("a clone", ACCEPTS_CLONE, server_is_clone))
		ereport(NOTICE, (errmsg("this server is not a clone")));
	PG_RETURN_VOID();
}
