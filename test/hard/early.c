/*
 * early.c -- wake AddressSanitizer before all other libraries
 *
 * It wakes at the first malloc(), and asks gettext for a translation then.  In
 * Debian's server that malloc() comes from the initialization of a library,
 * out of a function of gettext that holds gettext's lock: the server would
 * wait for itself.  So this is preloaded as well, linked with -z initfirst.
 */
#include <stdlib.h>

__attribute__((constructor)) static void
wake(void)
{
	void *volatile block = malloc(1);

	free(block);
}
