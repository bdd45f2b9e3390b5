/*-------------------------------------------------------------------------
 *
 * spinlocks.h
 *	  Spinlocks of a table of cases: free or taken, and neither before they are made.
 *
 *-------------------------------------------------------------------------
 */
#include "storage/spin.h"

static int spins; /* times that one was taken */
static int spinning;

static void
turn(slock_t *lock, char from, char to)
{
	CHECK(*(char *) lock == from);
	*(char *) lock = to;
	spins += to == 't';
	spinning += to == 't' ? 1 : -1;
}

#undef SpinLockInit
#undef SpinLockAcquire
#undef SpinLockRelease
#define SpinLockInit(lock) (*(char *) (lock) = 'f')
#define SpinLockAcquire(lock) turn(lock, 'f', 't')
#define SpinLockRelease(lock) turn(lock, 't', 'f')
