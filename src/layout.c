/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  How 64 bits are divided into a timestamp, a shard and a sequence number.
 *
 * The arithmetic of layouts that does not fit an inline function, and how a
 * message quotes a text; the rest is in layout.h.  layout_text.c builds layouts and states their invariants.
 *
 * Nothing here knows of the server, its settings or the other files, and
 * nothing here has state: there is nothing to lock.
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

/* The tick that a time falls into; false if no int64 holds an id of it. */
bool
layout_tick_of_time(const Layout *layout, TimestampTz time, int64 *tick)
{
	int64 us;
	int64 limit = layout_mask(63 - layout->timestamp_shift);

	if (TIMESTAMP_NOT_FINITE(time) ||
		pg_sub_s64_overflow(time, layout->epoch, &us))
		return false;
	*tick = us / layout->tick_us - (us % layout->tick_us < 0 ? 1 : 0);
	return *tick >= -limit - 1 && *tick <= limit;
}

/*
 * The ids whose time is at or after a given one, or, with "later", after it.
 * Times are those that layout_time_of_tick() gives: ticks beyond what the
 * server can hold are infinitely early or late.
 */
static LayoutIdRange
ids_since(const Layout *layout, TimestampTz time, bool later)
{
	const LayoutIdRange none = {PG_INT64_MAX, PG_INT64_MIN};
	LayoutIdRange		range = {PG_INT64_MIN, PG_INT64_MAX};
	int64				tick;
	int64				us;

	if (TIMESTAMP_IS_NOBEGIN(time))
		tick = later ? layout->first_tick : PG_INT64_MIN;
	else if (TIMESTAMP_IS_NOEND(time) && later)
		return none;
	else if (TIMESTAMP_IS_NOEND(time) ||
			 pg_sub_s64_overflow(time, layout->epoch, &us))
		tick = layout->last_tick + 1;
	else
	{
		int64 floor =
			us / layout->tick_us - (us % layout->tick_us < 0 ? 1 : 0);

		floor = Min(floor, layout->last_tick);
		tick = later || us % layout->tick_us != 0 ? floor + 1 : floor;
	}
	if (tick > layout_tick(layout, PG_INT64_MAX))
		return none;
	if (tick > layout_tick(layout, PG_INT64_MIN))
		range.first = layout_pack(layout, tick, 0, 0);
	return range;
}

/* All other ids than those of a range that ends with the last id of all. */
static LayoutIdRange
ids_before(LayoutIdRange since)
{
	if (since.first > since.last)
		return (LayoutIdRange){PG_INT64_MIN, PG_INT64_MAX};
	if (since.first == PG_INT64_MIN)
		return (LayoutIdRange){PG_INT64_MAX, PG_INT64_MIN};
	return (LayoutIdRange){PG_INT64_MIN, since.first - 1};
}

/* The ids whose time compares so with a given one. */
LayoutIdRange
layout_ids(const Layout *layout, LayoutComparison comparison, TimestampTz time)
{
	LayoutIdRange since;
	LayoutIdRange until;

	switch (comparison)
	{
		case LAYOUT_LT:
			return ids_before(ids_since(layout, time, false));
		case LAYOUT_LE:
			return ids_before(ids_since(layout, time, true));
		case LAYOUT_EQ:
			break;
		case LAYOUT_GE:
			return ids_since(layout, time, false);
		case LAYOUT_GT:
			return ids_since(layout, time, true);
	}
	since = ids_since(layout, time, false);
	until = ids_before(ids_since(layout, time, true));
	return (LayoutIdRange){Max(since.first, until.first),
						   Min(since.last, until.last)};
}

/*
 * The first tick that does not begin before a time: of the ticks that are
 * minted in, or the one after the last of them.
 */
int64
layout_first_tick_from(const Layout *layout, TimestampTz time)
{
	int64 tick;

	if (TIMESTAMP_IS_NOBEGIN(time))
		return 0;
	if (!layout_tick_of_time(layout, time, &tick))
		return time < layout->epoch ? 0 : layout->last_mint_tick + 1;
	if (layout_time_of_tick(layout, tick) < time)
		tick++;
	return Min(Max(tick, 0), layout->last_mint_tick + 1);
}

/*
 * How much of a user's text a message quotes: up to 60 characters, and none
 * from the first on that is no printable ASCII, so that a message is one line
 * and no character of it is cut apart, whatever the encoding.
 */
int
layout_quotable(const char *start, const char *end)
{
	int length = 0;

	while (start + length < end && length < 60 && start[length] >= ' ' &&
		   start[length] <= '~')
		length++;
	return length;
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
		else if (layout_quotable(start, start + 1) == 0)
			to += sprintf(to, "\\x%02x", (unsigned char) *start);
		else
			*to++ = *start;
	}
	strlcpy(to, start < end ? "..." : "", quote + LAYOUT_QUOTE_SIZE - to);
	return quote;
}
