/*
 * early.c -- set the sanitizers up before all other libraries
 *
 * AddressSanitizer wakes at the first malloc(), and asks gettext for a
 * translation then.  In Debian's server that malloc() comes from the
 * initialization of a library, out of a function of gettext that holds
 * gettext's lock: the server would wait for itself.  So this is preloaded as
 * well, linked with -z initfirst.
 *
 * The one for undefined behaviour wakes at its first report, and looks for its
 * options in the process's environment, where the server has put the process's
 * title by then.  So it gets them here.
 */
#include <stdlib.h>

extern const char *__ubsan_default_options(void);

__attribute__((constructor)) static void
wake(void)
{
	void *volatile block = malloc(1);

	free(block);
}

const char *
__ubsan_default_options(void)
{
	return "print_stacktrace=1:abort_on_error=1";
}
