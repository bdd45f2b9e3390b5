/*
 * atomics.h -- the server's atomics and barriers, as gcc makes them on ARM: what its
 * own atomics.h promises of an exchange, a full barrier, no processor but x86 gives.
 */
#ifndef ATOMICS_H
#define ATOMICS_H

#define PG_HAVE_8BYTE_SINGLE_COPY_ATOMICITY

typedef struct pg_atomic_flag
{
	volatile int value;
} pg_atomic_flag;
typedef struct pg_atomic_uint32
{
	volatile uint32 value;
} pg_atomic_uint32;
typedef struct pg_atomic_uint64
{
	volatile uint64 value;
} pg_atomic_uint64;

#define pg_compiler_barrier() ((void) 0) /* the checker is no compiler */
#define pg_read_barrier() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define pg_write_barrier() __atomic_thread_fence(__ATOMIC_RELEASE)
#define pg_memory_barrier() __atomic_thread_fence(__ATOMIC_SEQ_CST)

#define ATOMIC(bits)                                                          \
	static inline void pg_atomic_init_u##bits(                                \
		volatile pg_atomic_uint##bits *p, uint##bits v)                       \
	{                                                                         \
		__atomic_store_n(&p->value, v, __ATOMIC_RELAXED);                     \
	}                                                                         \
	static inline uint##bits pg_atomic_read_u##bits(                          \
		volatile pg_atomic_uint##bits *p)                                     \
	{                                                                         \
		return __atomic_load_n(&p->value, __ATOMIC_RELAXED);                  \
	}                                                                         \
	static inline void pg_atomic_write_u##bits(                               \
		volatile pg_atomic_uint##bits *p, uint##bits v)                       \
	{                                                                         \
		__atomic_store_n(&p->value, v, __ATOMIC_RELAXED);                     \
	}                                                                         \
	static inline uint##bits pg_atomic_exchange_u##bits(                      \
		volatile pg_atomic_uint##bits *p, uint##bits v)                       \
	{                                                                         \
		return __atomic_exchange_n(&p->value, v, __ATOMIC_SEQ_CST);           \
	}                                                                         \
	static inline uint##bits pg_atomic_fetch_add_u##bits(                     \
		volatile pg_atomic_uint##bits *p, int##bits v)                        \
	{                                                                         \
		return __atomic_fetch_add(&p->value, v, __ATOMIC_SEQ_CST);            \
	}                                                                         \
	static inline bool pg_atomic_compare_exchange_u##bits(                    \
		volatile pg_atomic_uint##bits *p, uint##bits *expected, uint##bits v) \
	{                                                                         \
		return __atomic_compare_exchange_n(&p->value, expected, v, false,     \
										   __ATOMIC_SEQ_CST,                  \
										   __ATOMIC_SEQ_CST);                 \
	}
ATOMIC(32)
ATOMIC(64)

#endif
