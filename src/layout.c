/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  How 64 bits are divided into a timestamp, a shard and a sequence number.
 *
 * The arithmetic that does not fit an inline function of layout.h, and how
 * a message quotes a text.  layout_text.c builds layouts and states their
 * invariants.
 *
 * Pure functions: no server, no settings, no state, nothing to lock.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "layout.h"

/* Do two layouts read every id alike, whatever they call their fields? */
bool
layout_is_same(const Layout *one, const Layout *other)
{
	return one->epoch == other->epoch && one->tick_us == other->tick_us &&
		   one->timestamp_shift == other->timestamp_shift &&
		   one->shard_bits == other->shard_bits &&
		   one->shard_shift == other->shard_shift &&
		   one->sequence_bits == other->sequence_bits &&
		   one->sequence_shift == other->sequence_shift;
}

static int64
tick_of_us(const Layout *layout, int64 us_since_epoch)
{
	return us_since_epoch / layout->tick_us -
		   (us_since_epoch % layout->tick_us < 0 ? 1 : 0);
}

/* The tick that a time falls into; false if no int64 holds an id of it. */
bool
layout_tick_of_time(const Layout *layout, TimestampTz time, int64 *tick)
{
	int64 us;

	if (TIMESTAMP_NOT_FINITE(time) ||
		pg_sub_s64_overflow(time, layout->epoch, &us))
		return false;
	*tick = tick_of_us(layout, us);
	return *tick >= layout_tick(layout, PG_INT64_MIN) &&
		   *tick <= layout_tick(layout, PG_INT64_MAX);
}

/*
 * The first tick of an id whose time is at or after a given one, or, with
 * "later", after it; if there is none, the one after the last tick of all ids.
 * Times are those that layout_time_of_tick() gives: ticks beyond what the
 * server can hold are infinitely early or late.
 */
static int64
first_tick_from(const Layout *layout, TimestampTz time, bool later)
{
	const int64 least = layout_tick(layout, PG_INT64_MIN);
	const int64 end = layout_tick(layout, PG_INT64_MAX) + 1;
	int64		tick;
	int64		us;

	if (TIMESTAMP_IS_NOBEGIN(time))
		tick = later ? layout->first_tick : least;
	else if (TIMESTAMP_IS_NOEND(time))
		tick = later ? end : layout->last_tick + 1;
	else if (pg_sub_s64_overflow(time, layout->epoch, &us) ||
			 tick_of_us(layout, us) > layout->last_tick)
		tick = layout->last_tick + 1;
	else
		tick = tick_of_us(layout, us) +
			   (later || us % layout->tick_us != 0 ? 1 : 0);
	return Min(Max(tick, least), end);
}

/* The ids whose time compares so with a given one. */
LayoutIdRange
layout_ids(const Layout *layout, LayoutComparison comparison, TimestampTz time)
{
	int64 first = layout_tick(layout, PG_INT64_MIN);
	int64 end = layout_tick(layout, PG_INT64_MAX) + 1;

	if (comparison >= LAYOUT_EQ)
		first = first_tick_from(layout, time, comparison == LAYOUT_GT);
	if (comparison <= LAYOUT_EQ)
		end = first_tick_from(layout, time, comparison != LAYOUT_LT);
	if (first >= end)
		return (LayoutIdRange){PG_INT64_MAX, PG_INT64_MIN};
	return (LayoutIdRange){layout_pack(layout, first, 0, 0),
						   layout_pack(layout, end - 1, 0, 0) |
							   layout_mask(layout->timestamp_shift)};
}

/*
 * The first tick that does not begin before a time: of the ticks that are
 * minted in, or the one after the last of them.
 */
int64
layout_first_tick_from(const Layout *layout, TimestampTz time)
{
	int64 tick = first_tick_from(layout, time, false);

	return Min(Max(tick, 0), layout->last_mint_tick + 1);
}

/*
 * Does a message show this byte of a user's text as it is?  It does if the byte is
 * printable ASCII.  So a message is one line, and cuts no character apart, whatever the
 * encoding.
 */
bool
layout_shows(char c)
{
	return c >= ' ' && c <= '~';
}

/*
 * A user's text as a message quotes it: in printable ASCII, other bytes escaped,
 * so that nobody looks for a character that is not shown.
 */
char *
layout_quote(const char *start, const char *end, char *quote)
{
	char *to = quote;

	for (; start < end && to < quote + LAYOUT_QUOTE_SIZE - 8; start++)
	{
		if (*start == '\n')
			to += sprintf(to, "\\n");
		else if (!layout_shows(*start))
			to += sprintf(to, "\\x%02x", (unsigned char) *start);
		else
			*to++ = *start;
	}
	strlcpy(to, start < end ? "..." : "", quote + LAYOUT_QUOTE_SIZE - to);
	return quote;
}
