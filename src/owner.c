/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  What runs code of a table's owner, with the rights of that owner.
 *
 * A change of a table computes its defaults, its CHECK constraints and its
 * generated columns, and a view is nothing but code.  An administrator who calls
 * for it is often a superuser.  So the statement runs as the owner, in a
 * security-restricted operation, as the server's own VACUUM, CREATE INDEX and
 * REFRESH MATERIALIZED VIEW do: such code cannot take the caller's role back, and
 * leaves no temporary table and no deferred trigger for later.  What it sets ends
 * with the statement.
 *
 * The caller could run the statement himself after SET ROLE, or he is refused.  So
 * nobody gets rights here.  Who is the owner himself needs no protection from himself.
 *
 * After an error, the end of the transaction or subtransaction takes back the
 * role and the settings, as everywhere in the server.  There is no state here, and
 * no lock but those of the statement.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "executor/tstoreReceiver.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"

PG_FUNCTION_INFO_V1(snowflake_run_as_owner);
PG_FUNCTION_INFO_V1(snowflake_read_view);

/* Who the session was before it became an owner. */
typedef struct Caller
{
	Oid user;
	int context;
	int guc_level;
} Caller;

static Oid
owner_of(Oid relation)
{
	HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relation));
	Oid		  owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relation)));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* Fail unless the caller could do the same by SET ROLE. */
static void
check_may_become(Oid owner, Oid relation)
{
	char *name;

	if (has_privs_of_role(GetUserId(), owner) &&
		member_can_set_role(GetUserId(), owner))
		return;
	name = GetUserNameFromId(owner, false);
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("must be able to SET ROLE \"%s\"", name),
			 errdetail("Role \"%s\" owns \"%s\", and the statement runs as "
					   "the owner.",
					   name, get_rel_name(relation)),
			 superuser_arg(owner) ?
				 errhint("Let a superuser call it.") :
				 errhint("GRANT %s TO %s;", quote_identifier(name),
						 quote_identifier(
							 GetUserNameFromId(GetUserId(), false)))));
}

static void
become_owner(Caller *caller, Oid relation)
{
	Oid owner = owner_of(relation);

	check_may_become(owner, relation);
	GetUserIdAndSecContext(&caller->user, &caller->context);
	caller->guc_level = NewGUCNestLevel();
	if (owner != caller->user)
		SetUserIdAndSecContext(owner, caller->context |
										  SECURITY_RESTRICTED_OPERATION);
	(void) set_config_option("search_path", "pg_catalog, pg_temp", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

static void
become_caller(const Caller *caller)
{
	AtEOXact_GUC(false, caller->guc_level);
	SetUserIdAndSecContext(caller->user, caller->context);
}

/* SPI raises most errors itself; it only tells of a statement that it never executes. */
static void
check_executed(int code)
{
	if (code < 0)
		elog(ERROR, "could not run a statement as the owner: %s",
			 SPI_result_code_string(code));
}

/* snowflake_run_as_owner(relation, statement): its first value, if it has one. */
Datum
snowflake_run_as_owner(PG_FUNCTION_ARGS)
{
	Caller caller;
	char  *value = NULL;
	Datum  result = (Datum) 0;

	become_owner(&caller, PG_GETARG_OID(0));
	SPI_connect();
	check_executed(
		SPI_execute(text_to_cstring(PG_GETARG_TEXT_PP(1)), false, 0));
	if (SPI_tuptable != NULL && SPI_processed > 0)
		value = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	if (value != NULL)
		result = SPI_datumTransfer(CStringGetTextDatum(value), false, -1);
	SPI_finish();
	become_caller(&caller);
	if (value == NULL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(result);
}

/*
 * snowflake_read_view(view, column_name): the column's values, as the view's owner
 * sees them, for those who have all of the owner's rights.
 */
Datum
snowflake_read_view(PG_FUNCTION_ARGS)
{
	ReturnSetInfo	 *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid				  view = PG_GETARG_OID(0);
	SPIExecuteOptions options = {.read_only = true};
	Caller			  caller;
	char			 *query;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	check_may_become(owner_of(view), view);
	if (get_rel_relkind(view) != RELKIND_VIEW)
		ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
						errmsg("\"%s\" is not a view", get_rel_name(view))));
	query = psprintf("SELECT %s::pg_catalog.int8 FROM %s",
					 quote_identifier(NameStr(*PG_GETARG_NAME(1))),
					 quote_qualified_identifier(get_namespace_name(
													get_rel_namespace(view)),
												get_rel_name(view)));
	options.dest = CreateDestReceiver(DestTuplestore);
	SetTuplestoreDestReceiverParams(
		options.dest, result->setResult,
		result->econtext->ecxt_per_query_memory, false, result->setDesc,
		"the query of a view returns another type than bigint");
	become_owner(&caller, view);
	SPI_connect();
	check_executed(SPI_execute_extended(query, &options));
	SPI_finish();
	become_caller(&caller);
	return (Datum) 0;
}
