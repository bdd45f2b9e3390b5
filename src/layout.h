/*-------------------------------------------------------------------------
 *
 * layout.h
 *	  How 64 bits are divided into a timestamp, a shard and a sequence number.
 *
 * Pure functions: no server state, no settings, no locks, no allocation.  See
 * layout.c and layout_text.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LAYOUT_H
#define SNOWFLAKE_LAYOUT_H

#include "datatype/timestamp.h"

#define US_PER_MS INT64CONST(1000)

/* 1970-01-01 on the server's scale, which starts at 2000-01-01 */
#define UNIX_EPOCH_US \
	((UNIX_EPOCH_JDATE - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY)

/* a timestamp, a shard in up to two parts, a sequence number */
#define LAYOUT_MAX_FIELDS 4
#define LAYOUT_MAX_SHARD_FIELDS 2

/* shard and sequence number are int4 in SQL */
#define LAYOUT_MAX_PART_BITS 31

/* in place of a shard: none in particular, or any that the session asks for */
#define ANY_SHARD (-1)

/* holds any specification as layout_format() writes it */
#define LAYOUT_TEXT_SIZE 160

/* holds any time as layout_format_time() writes it */
#define LAYOUT_TIME_SIZE 40

typedef enum LayoutPart
{
	LAYOUT_TIMESTAMP,
	LAYOUT_SHARD,
	LAYOUT_SEQUENCE
} LayoutPart;

typedef struct LayoutField
{
	const char *name; /* from the vocabulary of layout.c */
	LayoutPart	part;
	int			bits;
	int			shift; /* of the field's lowest bit */
} LayoutField;

typedef struct Layout
{
	/* as specified */
	TimestampTz epoch;	 /* the start of tick 0 */
	int64		tick_us; /* length of a tick in microseconds */
	int			nfields;
	LayoutField fields[LAYOUT_MAX_FIELDS];

	/* derived by layout_derive() */
	int	  timestamp_shift;
	int	  shard_bits;
	int	  shard_shift;
	int	  sequence_bits;
	int	  sequence_shift;
	int64 last_mint_tick; /* ids of ticks 0 to this one are minted */
	int64 first_tick;	  /* ticks whose time the server can hold, */
	int64 last_tick;	  /* out of all that an int64 can hold */
} Layout;

typedef struct LayoutPreset
{
	const char *name;
	const char *specification;
	const char *source; /* who published it */
} LayoutPreset;

/* How an id's time compares with a given time, in this order. */
typedef enum LayoutComparison
{
	LAYOUT_LT,
	LAYOUT_LE,
	LAYOUT_EQ,
	LAYOUT_GE,
	LAYOUT_GT
} LayoutComparison;

/* All ids from first to last; none if first is greater than last. */
typedef struct LayoutIdRange
{
	int64 first;
	int64 last;
} LayoutIdRange;

/* holds what layout_quote() writes */
#define LAYOUT_QUOTE_SIZE 72

typedef struct LayoutError
{
	char message[200];				/* lower case, no full stop */
	char preset[LAYOUT_QUOTE_SIZE]; /* a name that no preset has; else empty */
} LayoutError;

extern const LayoutPreset layout_presets[];
extern const int		  layout_preset_count;

extern bool layout_parse(const char *text, size_t length, Layout *layout,
						 LayoutError *error);
extern void layout_format(const Layout *layout, char *buffer, size_t size);
extern void layout_format_fields(const Layout *layout, char *buffer,
								 size_t size);
extern const LayoutPreset *layout_preset_of(const Layout *layout);
extern void layout_format_time(TimestampTz time, char *buffer, size_t size);

extern char *layout_quote(const char *start, const char *end, char *quote);
extern bool	 layout_shows(char c);
extern bool	 layout_is_same(const Layout *one, const Layout *other);
extern bool	 layout_tick_of_time(const Layout *layout, TimestampTz time,
								 int64 *tick);
extern int64 layout_first_tick_from(const Layout *layout, TimestampTz time);

extern LayoutIdRange layout_ids(const Layout	*layout,
								LayoutComparison comparison, TimestampTz time);

/* So many one bits, 63 at most. */
static inline int64
layout_mask(int bits)
{
	return (int64) ((UINT64CONST(1) << bits) - 1);
}

static inline int64
layout_last_shard(const Layout *layout)
{
	return layout_mask(layout->shard_bits);
}

static inline int64
layout_last_sequence(const Layout *layout)
{
	return layout_mask(layout->sequence_bits);
}

/*
 * Unpacking.  The timestamp is all from its lowest bit up, with the sign: a
 * negative id belongs to a tick before the epoch, and no bit is ever lost.
 */
static inline int64
layout_tick(const Layout *layout, int64 id)
{
	return id >> layout->timestamp_shift;
}

static inline int32
layout_shard(const Layout *layout, int64 id)
{
	return (int32) ((id >> layout->shard_shift) &
					layout_mask(layout->shard_bits));
}

static inline int32
layout_sequence(const Layout *layout, int64 id)
{
	return (int32) ((id >> layout->sequence_shift) &
					layout_mask(layout->sequence_bits));
}

/* Packing, the reverse of the three above. */
static inline int64
layout_pack(const Layout *layout, int64 tick, int32 shard, int32 sequence)
{
	return (int64) (((uint64) tick << layout->timestamp_shift) |
					((uint64) shard << layout->shard_shift) |
					((uint64) sequence << layout->sequence_shift));
}

/*
 * A position counts the ids of one shard: tick << sequence_bits | sequence.
 * It is what a generator keeps, one word a shard.
 */
static inline int64
layout_position(const Layout *layout, int64 tick, int32 sequence)
{
	return (int64) (((uint64) tick << layout->sequence_bits) |
					(uint64) sequence);
}

/*
 * Where a shard begins in a tick: at sequence number 0, or, with a spread, at a
 * pseudorandom one of "spread" bits, so that all remainders of id % n are equally
 * frequent even if ticks have one id.  The tick has the positions from there up,
 * and at least one.  The multipliers are those of splitmix64.
 */
static inline int64
layout_first_position(const Layout *layout, int64 tick, int spread)
{
	int	   bits = Min(spread, layout->sequence_bits);
	uint64 mix = (uint64) tick * UINT64CONST(0xbf58476d1ce4e5b9);

	if (bits == 0)
		return layout_position(layout, tick, 0);
	mix = (mix ^ (mix >> 32)) * UINT64CONST(0x94d049bb133111eb);
	return layout_position(layout, tick,
						   (int32) ((mix >> 32) & layout_mask(bits)));
}

static inline int64
layout_position_tick(const Layout *layout, int64 position)
{
	return position >> layout->sequence_bits;
}

static inline int64
layout_id_at(const Layout *layout, int64 position, int32 shard)
{
	return layout_pack(layout, layout_position_tick(layout, position), shard,
					   (int32) (position & layout_last_sequence(layout)));
}

/*
 * The least position on a shard whose id is greater than the given one, in a
 * layout with the sequence above the shard.  On a higher shard it is the id's
 * own position.
 */
static inline int64
layout_position_after(const Layout *layout, int64 id, int32 shard)
{
	int64 same = layout_position(layout, layout_tick(layout, id),
								 layout_sequence(layout, id));

	return shard > layout_shard(layout, id) ? same : same + 1;
}

/* The start of a tick, infinite where the server's timestamps end. */
static inline TimestampTz
layout_time_of_tick(const Layout *layout, int64 tick)
{
	if (tick < layout->first_tick)
		return DT_NOBEGIN;
	if (tick > layout->last_tick)
		return DT_NOEND;
	return layout->epoch + tick * layout->tick_us;
}

#endif /* SNOWFLAKE_LAYOUT_H */
