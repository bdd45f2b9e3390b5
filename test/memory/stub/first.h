/*
 * first.h -- comes before all else: what the checker cannot do
 *
 * Shared memory is zero at first, so nothing has to be set to that.
 */
#include <string.h>

#define memset(pointer, byte, size) ((void) (pointer))
#define __builtin_add_overflow(a, b, result) (*(result) = (a) + (b), false)
#define __builtin_sub_overflow(a, b, result) (*(result) = (a) - (b), false)
#define __builtin_mul_overflow(a, b, result) (*(result) = (a) * (b), false)
#define MyBackendId (*my_backend_id()) /* each process has its own */

extern const int ring_entries;

struct HeldLease;
extern struct HeldLease *copy_held(const struct HeldLease *held, int count);
extern int				*my_backend_id(void);
