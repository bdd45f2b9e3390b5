/* s_lock.h -- a spinlock is the checker's: an acquire to take it, a release to leave it. */
#ifndef S_LOCK_H
#define S_LOCK_H

typedef int slock_t;

extern int __VERIFIER_mutex_lock(void *) __attribute__((nothrow));
extern int __VERIFIER_mutex_unlock(void *) __attribute__((nothrow));

#define SpinLockInit(lock) ((void) 0)
#define SpinLockAcquire(lock) ((void) __VERIFIER_mutex_lock(lock))
#define SpinLockRelease(lock) ((void) __VERIFIER_mutex_unlock(lock))

#endif
