/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  Feed src/layout.c texts: what it takes must be a layout, and what it
 *	  says of it must be true.
 *
 * The first eight bytes are an id and eight more a time, which the layout is
 * then asked about; the rest is the text.
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/layout.c"
#include "../../../src/layout_text.c"

#include "../calendar.h"
#include "server.h"

/* The invariants that the head of src/layout_text.c states. */
static void
check_fields(const Layout *l)
{
	int total = 0;

	must(l->nfields >= 2 && l->nfields <= LAYOUT_MAX_FIELDS);
	must(l->fields[0].part == LAYOUT_TIMESTAMP);
	for (int i = l->nfields - 1; i >= 0; i--)
	{
		must(l->fields[i].bits >= 1);
		must(l->fields[i].shift == total);
		must(i == 0 || l->fields[i].part != LAYOUT_TIMESTAMP);
		total += l->fields[i].bits;
	}
	must(total <= ID_BITS);
	must(l->shard_bits >= 0 && l->shard_bits <= LAYOUT_MAX_PART_BITS);
	must(l->sequence_bits >= 0 && l->sequence_bits <= LAYOUT_MAX_PART_BITS);
	must(l->shard_bits + l->sequence_bits >= 1);
	must(l->timestamp_shift == l->shard_bits + l->sequence_bits);
	must((l->shard_shift == 0 && l->sequence_shift == l->shard_bits) ||
		 (l->sequence_shift == 0 && l->shard_shift == l->sequence_bits) ||
		 (l->shard_shift == 0 && l->sequence_shift == 0 &&
		  Min(l->shard_bits, l->sequence_bits) == 0));
}

/* All that is minted is positive, and the server can hold its time. */
static void
check_minted(const Layout *l)
{
	int64 last = layout_pack(l, l->last_mint_tick, layout_last_shard(l),
							 layout_last_sequence(l));

	must(l->tick_us >= 1 && l->tick_us <= MAX_TICK_US);
	must(last > 0);
	must(IS_VALID_TIMESTAMP(layout_time_of_tick(l, 0)));
	must(IS_VALID_TIMESTAMP(layout_time_of_tick(l, l->last_mint_tick)));
}

/* What is written of a layout is read as the same layout. */
static void
check_round_trip(const Layout *l)
{
	char				text[LAYOUT_TEXT_SIZE];
	char				again[LAYOUT_TEXT_SIZE];
	Layout				back;
	LayoutError			error;
	const LayoutPreset *preset = layout_preset_of(l);

	layout_format(l, text, sizeof(text));
	must(strlen(text) < sizeof(text) - 1);
	must(layout_parse(text, strlen(text), &back, &error));
	must(memcmp(l, &back, sizeof(back)) == 0);
	layout_format(&back, again, sizeof(again));
	must(strcmp(text, again) == 0);
	if (preset == NULL)
		return;
	must(layout_parse(preset->name, strlen(preset->name), &back, &error));
	must(memcmp(l, &back, sizeof(back)) == 0);
}

/* An id, taken apart and put together. */
static void
check_id(const Layout *l, int64 id)
{
	int64 position =
		layout_position(l, layout_tick(l, id), layout_sequence(l, id));

	must(layout_pack(l, layout_tick(l, id), layout_shard(l, id),
					 layout_sequence(l, id)) == id);
	must(layout_id_at(l, position, layout_shard(l, id)) == id);
}

static bool
compares(TimestampTz a, LayoutComparison comparison, TimestampTz b)
{
	switch (comparison)
	{
		case LAYOUT_LT:
			return a < b;
		case LAYOUT_LE:
			return a <= b;
		case LAYOUT_EQ:
			return a == b;
		case LAYOUT_GE:
			return a >= b;
		case LAYOUT_GT:
			return a > b;
	}
	return false;
}

/* A range of ids has those whose time compares so, and no others. */
static void
check_time(const Layout *l, int64 id, TimestampTz time)
{
	TimestampTz of_id = layout_time_of_tick(l, layout_tick(l, id));
	char		text[LAYOUT_TIME_SIZE];
	int64		tick;

	if (!TIMESTAMP_NOT_FINITE(of_id))
	{
		must(layout_tick_of_time(l, of_id, &tick));
		must(tick == layout_tick(l, id));
	}
	must(!layout_tick_of_time(l, DT_NOBEGIN, &tick));
	must(!layout_tick_of_time(l, DT_NOEND, &tick));
	if (!IS_VALID_TIMESTAMP(time) && !TIMESTAMP_NOT_FINITE(time))
		return;
	layout_format_time(time, text, sizeof(text));
	if (layout_tick_of_time(l, time, &tick))
	{
		must(layout_time_of_tick(l, tick) <= time);
		must(layout_time_of_tick(l, tick + 1) > time);
	}
	for (LayoutComparison c = LAYOUT_LT; c <= LAYOUT_GT; c++)
	{
		LayoutIdRange range = layout_ids(l, c, time);

		must(compares(of_id, c, time) ==
			 (id >= range.first && id <= range.last));
	}
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	int64		id;
	TimestampTz time;
	char	   *text;
	Layout		layout;
	LayoutError error;

	if (size < sizeof(id) + sizeof(time))
		return -1;
	memcpy(&id, data, sizeof(id));
	memcpy(&time, data + sizeof(id), sizeof(time));
	size -= sizeof(id) + sizeof(time);

	/* not terminated, and no byte longer than said */
	text = malloc(size);
	memcpy(text, data + sizeof(id) + sizeof(time), size);
	memset(&error, 0, sizeof(error));
	if (layout_parse(text, size, &layout, &error))
	{
		check_fields(&layout);
		check_minted(&layout);
		check_round_trip(&layout);
		check_id(&layout, id);
		check_time(&layout, id, time);
	}
	else
	{
		must(error.message[0] != '\0');
		must(memchr(error.message, '\0', sizeof(error.message)) != NULL);
		must(strpbrk(error.message, "\r\n") == NULL);
	}
	free(text);
	return 0;
}
