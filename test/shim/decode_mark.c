/*-------------------------------------------------------------------------
 *
 * decode_mark.c
 *	  An output plugin that asks for the mark with the snapshot of logical decoding, as
 *	  one might that evaluates expressions for each change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "replication/logical.h"
#include "replication/output_plugin.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void
_PG_output_plugin_init(OutputPluginCallbacks *callbacks);

static void
begin(LogicalDecodingContext *context, ReorderBufferTXN *transaction)
{
	Oid settled = DatumGetObjectId(
		DirectFunctionCall1(to_regprocedure, PointerGetDatum(cstring_to_text(
												 "snowflake_settled()"))));

	PushActiveSnapshot(GetTransactionSnapshot());
	(void) OidFunctionCall0(settled);
	PopActiveSnapshot();
}

static void
change(LogicalDecodingContext *context, ReorderBufferTXN *transaction,
	   Relation relation, ReorderBufferChange *row)
{
}

static void
commit(LogicalDecodingContext *context, ReorderBufferTXN *transaction,
	   XLogRecPtr lsn)
{
}

void
_PG_output_plugin_init(OutputPluginCallbacks *callbacks)
{
	callbacks->begin_cb = begin;
	callbacks->change_cb = change;
	callbacks->commit_cb = commit;
}
