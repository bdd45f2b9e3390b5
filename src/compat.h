/*
 * compat.h -- every difference between PostgreSQL 15 and 19 that the code meets.
 * Nothing else in src/ looks at the server's version.
 */
#ifndef SNOWFLAKE_COMPAT_H
#define SNOWFLAKE_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "snowflake needs PostgreSQL 15 or later"
#endif

#include "access/transam.h"
#include "catalog/pg_namespace_d.h"
#include "catalog/pg_proc_d.h"
#include "fmgr.h"
#include "nodes/supportnodes.h"
#include "port/atomics.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#else
#include "storage/relfilenode.h"
#endif
#include "utils/guc.h"
#include "utils/wait_event.h"

/* From 18 on a module tells its name and version. */
#if PG_VERSION_NUM >= 180000
#define SNOWFLAKE_MODULE_MAGIC \
	PG_MODULE_MAGIC_EXT(.name = "snowflake", .version = "1.0")
#else
#define SNOWFLAKE_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* Up to 17 this attribute follows the declaration, from 18 on it leads it. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn __attribute__((noreturn))
#endif

/*
 * A variable that other files read with each id: if it is hidden, it is reached in one
 * step less.
 */
#define OURS __attribute__((visibility("hidden")))

/*
 * The library is compiled with -fvisibility=hidden.  15 has no declaration of
 * _PG_init, and its functions for SQL are visible only by default.
 */
#if PG_VERSION_NUM < 160000
extern PGDLLEXPORT void _PG_init(void);
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(name)                                     \
	extern PGDLLEXPORT Datum				  name(PG_FUNCTION_ARGS); \
	extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_##name(void);  \
	const Pg_finfo_record					 *pg_finfo_##name(void)   \
	{                                                                 \
		static const Pg_finfo_record finfo = {1};                     \
		return &finfo;                                                \
	}                                                                 \
	extern int no_such_variable
#endif

/* Memory that a setting's check hook hands over is the server's to free. */
#if PG_VERSION_NUM < 160000
#define guc_malloc(elevel, size) malloc(size)
#define guc_free(pointer) free(pointer)
#endif

/* From 16 on one function looks at the privileges on objects of any kind. */
#if PG_VERSION_NUM >= 160000
#define function_aclcheck(function, role, mode) \
	object_aclcheck(ProcedureRelationId, function, role, mode)
#define schema_aclcheck(schema, role, mode) \
	object_aclcheck(NamespaceRelationId, schema, role, mode)
#else
#define function_aclcheck(function, role, mode) \
	pg_proc_aclcheck(function, role, mode)
#define schema_aclcheck(schema, role, mode) \
	pg_namespace_aclcheck(schema, role, mode)
#endif

/* Up to 15 every member can SET ROLE, from 16 on a grant says who can. */
#if PG_VERSION_NUM < 160000
#define member_can_set_role(member, role) is_member_of_role(member, role)
#endif

/*
 * The call in FROM that a support function may put a query in the place of, with
 * its arguments as parameters; NULL if the request is another.  From 19 on the
 * server asks; it has looked at the arguments, and at who may call.
 */
static inline FuncExpr *
call_in_from(const Node *request)
{
#if PG_VERSION_NUM >= 190000
	if (IsA(request, SupportRequestInlineInFrom))
		return castNode(
			FuncExpr,
			((const SupportRequestInlineInFrom *) request)->rtfunc->funcexpr);
#endif
	return NULL;
}

/* From 16 on relation files have locators, from 17 on processes numbers. */
#if PG_VERSION_NUM < 160000
typedef RelFileNode RelFileLocator;
#endif
#if PG_VERSION_NUM < 170000
#define INVALID_PROC_NUMBER InvalidBackendId
#endif

/* This process's number among those that can run SQL, from 0 on. */
#if PG_VERSION_NUM >= 170000
#define my_backend_index() (MyProcNumber)
#else
#define my_backend_index() (MyBackendId - 1)
#endif

/* From 17 on the state of transaction ids has another name. */
#if PG_VERSION_NUM < 170000
#define TransamVariables ShmemVariableCache
#endif

/*
 * The latest xid that has ended.  It only grows, so a process that ended one
 * itself reads that one or a later one, without a lock where a read is one step.
 */
static inline FullTransactionId
latest_completed_xid(void)
{
#ifdef PG_HAVE_8BYTE_SINGLE_COPY_ATOMICITY
	volatile FullTransactionId *latest = &TransamVariables->latestCompletedXid;

	return (FullTransactionId){.value = latest->value};
#else
	FullTransactionId latest;

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	latest = TransamVariables->latestCompletedXid;
	LWLockRelease(ProcArrayLock);
	return latest;
#endif
}

/* Whose lock it is: from 17 on a virtual transaction id is in one piece. */
#if PG_VERSION_NUM >= 170000
#define lock_is_recovered(lock) \
	((lock)->vxid.procNumber == INVALID_PROC_NUMBER)
#define lock_recovered_xid(lock) \
	((TransactionId) (lock)->vxid.localTransactionId)
#else
#define lock_is_recovered(lock) ((lock)->backend == InvalidBackendId)
#define lock_recovered_xid(lock) ((TransactionId) (lock)->lxid)
#endif

/* From 17 on an extension's wait events have names of their own. */
#if PG_VERSION_NUM >= 170000
#define named_wait_event(name) WaitEventExtensionNew(name)
#else
#define named_wait_event(name) PG_WAIT_EXTENSION
#endif

#endif /* SNOWFLAKE_COMPAT_H */
