/* horizon_worker.c -- the real horizon.c, and an attempt of its worker, static there */
#include "horizon.c"

extern void horizon_attempt(int64 tick);

void
horizon_attempt(int64 tick)
{
	Trouble trouble;

	if (open_horizon(&trouble))
		(void) renew_horizon(tick, &trouble);
}
