/*-------------------------------------------------------------------------
 *
 * stand_in.c
 *	  What support functions put in the place of a call.
 *
 * There is no state here, and nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_proc_d.h"
#include "fmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "stand_in.h"

/*
 * The function of ours to put in the place of a call: of the same schema, and
 * none unless everybody may execute it.  The call itself may be allowed to a
 * user who may not, and a plan may outlive the user that it was made for; a
 * REVOKE from PUBLIC ends the plan.  No user needs the schema's USAGE, which is
 * about names: a stored expression that is planned has none in it.
 */
Oid
stand_in_function(const FuncExpr *call, const char *name, const Oid *types,
				  int nargs)
{
	Oid function =
		GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						CStringGetDatum(name),
						PointerGetDatum(buildoidvector(types, nargs)),
						ObjectIdGetDatum(get_func_namespace(call->funcid)));

	if (!OidIsValid(function) ||
		function_aclcheck(function, ACL_ID_PUBLIC, ACL_EXECUTE) != ACLCHECK_OK)
		return InvalidOid;
	return function;
}
