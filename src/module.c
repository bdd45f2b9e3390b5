/*-------------------------------------------------------------------------
 *
 * module.c
 *	  Loading the library: settings and shared memory.
 *
 * Listed in shared_preload_libraries, the library defines its settings and
 * reserves its shared memory.  Loaded any other way, by the first call of one
 * of its functions, it does neither: what is a pure function of its arguments
 * works all the same, and the rest says what to set.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "compat.h"
#include "generator.h"
#include "settings.h"

SNOWFLAKE_MODULE_MAGIC;

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	settings_define();
	generator_install_hooks();
}
