/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  What CBMC proves of src/layout.c.
 *
 * Includes the source itself, so that its private functions can be called,
 * and states what must hold for every value.  CBMC translates all of it into
 * one formula and has a solver look for values that break an assertion, or
 * that make any line of it undefined in C: a signed overflow, a shift by too
 * much, an index out of bounds.  No such values is a proof, over all 64 bits.
 *
 * Each proof_...() is a proof of its own; test/hard/proof.pl runs them for
 * each preset, whose number is PRESET.  What divides by the length of a tick,
 * that is, times, is not here: no solver tried came to an end with a division
 * of 64 bits.  The fuzzer of layout.c has the same statements about times.
 *
 * Two conversions that C leaves to the compiler are taken as every compiler
 * that PostgreSQL knows does them: of a large unsigned value to signed, modulo
 * 2^64; and >> of a negative value, which copies the sign.
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/layout.c"
#include "../../../src/layout_text.c"

/* any value at all, since they have no body */
extern int64 nondet_int64(void);
extern int32 nondet_int32(void);

/* Messages are no part of this. */
int
pg_vsnprintf(char *buffer, size_t size, const char *format, va_list args)
{
	return 0;
}

#define assume(condition) __CPROVER_assume(condition)
#define prove(condition) __CPROVER_assert(condition, #condition)

/*
 * What the head of src/layout_text.c promises of a layout, as far as arithmetic
 * goes: the parts lie side by side from bit 0 up, and one of them may have no
 * bits.
 */
static bool
is_sound(const Layout *layout)
{
	int	 shard_bits = layout->shard_bits;
	int	 sequence_bits = layout->sequence_bits;
	bool shard_is_lowest = layout->sequence_shift > 0 || shard_bits == 0;

	return shard_bits >= 0 && shard_bits <= LAYOUT_MAX_PART_BITS &&
		   sequence_bits >= 0 && sequence_bits <= LAYOUT_MAX_PART_BITS &&
		   shard_bits + sequence_bits >= 1 &&
		   layout->shard_shift == (shard_is_lowest ? 0 : sequence_bits) &&
		   layout->sequence_shift == (shard_is_lowest ? shard_bits : 0) &&
		   layout->timestamp_shift == shard_bits + sequence_bits;
}

/* printed by presets.c */
static const Layout presets[] = {
#include "presets.inc"
};

static Layout
the_layout(void)
{
	return presets[PRESET];
}

static int32
any_shard(const Layout *layout)
{
	int32 shard = nondet_int32();

	assume(shard >= 0 && shard <= layout_last_shard(layout));
	return shard;
}

/* A tick that an id can hold. */
static int64
any_tick(const Layout *layout)
{
	int64 tick = nondet_int64();

	assume(tick >= layout_tick(layout, PG_INT64_MIN));
	assume(tick <= layout_tick(layout, PG_INT64_MAX));
	return tick;
}

/* A position whose tick an id can hold. */
static int64
any_position(const Layout *layout)
{
	int32 sequence = nondet_int32();

	assume(sequence >= 0 && sequence <= layout_last_sequence(layout));
	return layout_position(layout, any_tick(layout), sequence);
}

static int64
position_of(const Layout *layout, int64 id)
{
	return layout_position(layout, layout_tick(layout, id),
						   layout_sequence(layout, id));
}

/* Taking an id apart and putting it together again gives the id. */
void
proof_pack_unpack(void)
{
	Layout layout = the_layout();
	int64  id = nondet_int64();

	prove(is_sound(&layout));
	prove(layout_shard(&layout, id) >= 0);
	prove(layout_shard(&layout, id) <= layout_last_shard(&layout));
	prove(layout_sequence(&layout, id) >= 0);
	prove(layout_sequence(&layout, id) <= layout_last_sequence(&layout));
	prove(layout_pack(&layout, layout_tick(&layout, id),
					  layout_shard(&layout, id),
					  layout_sequence(&layout, id)) == id);
	prove(layout_id_at(&layout, position_of(&layout, id),
					   layout_shard(&layout, id)) == id);
}

/* And putting together and taking apart gives the parts. */
void
proof_unpack_pack(void)
{
	Layout layout = the_layout();
	int64  tick;
	int32  shard, sequence;
	int64  id;

	tick = any_tick(&layout);
	shard = any_shard(&layout);
	sequence = nondet_int32();
	assume(sequence >= 0 && sequence <= layout_last_sequence(&layout));
	id = layout_pack(&layout, tick, shard, sequence);
	prove(layout_tick(&layout, id) == tick);
	prove(layout_shard(&layout, id) == shard);
	prove(layout_sequence(&layout, id) == sequence);
	prove(position_of(&layout, id) ==
		  layout_position(&layout, tick, sequence));
	prove(layout_position_tick(&layout, position_of(&layout, id)) == tick);
}

/*
 * On one shard the order of positions is the order of ids.  On two it is so
 * wherever the ticks differ, and with the sequence above the shard always.
 */
void
proof_order(void)
{
	Layout layout = the_layout();
	int64  p, q;
	int32  shard, other;

	p = any_position(&layout);
	q = any_position(&layout);
	shard = any_shard(&layout);
	other = any_shard(&layout);
	prove((p < q) ==
		  (layout_id_at(&layout, p, shard) < layout_id_at(&layout, q, shard)));
	if (p < q &&
		(layout.sequence_shift > layout.shard_shift ||
		 layout_position_tick(&layout, p) < layout_position_tick(&layout, q)))
		prove(layout_id_at(&layout, p, shard) <
			  layout_id_at(&layout, q, other));
}

/*
 * With the sequence above the shard, layout_position_after() gives the least
 * position whose id is greater; of any id that is not in the last tick or the
 * first, which have no neighbour.
 */
void
proof_position_after(void)
{
	Layout layout = the_layout();
	int64  id = nondet_int64();
	int64  after;
	int32  shard;

	assume(layout.sequence_shift > layout.shard_shift);
	assume(layout_tick(&layout, id) < layout_tick(&layout, PG_INT64_MAX));
	assume(layout_tick(&layout, id) > layout_tick(&layout, PG_INT64_MIN));
	shard = any_shard(&layout);
	after = layout_position_after(&layout, id, shard);
	prove(layout_id_at(&layout, after, shard) > id);
	prove(layout_id_at(&layout, after - 1, shard) <= id);
}

/*
 * Wherever a tick begins, it is in that tick, at a sequence number that the
 * layout and the spread can hold, and after all positions of earlier ticks.
 */
void
proof_first_position(void)
{
	Layout layout = the_layout();
	int64  tick, first, last;
	int32  spread = nondet_int32();

	assume(spread >= 0 && spread <= 8);
	tick = any_tick(&layout);
	last = any_position(&layout);
	first = layout_first_position(&layout, tick, spread);
	prove(layout_position_tick(&layout, first) == tick);
	prove(first >= layout_position(&layout, tick, 0));
	prove(first - layout_position(&layout, tick, 0) <= layout_mask(spread));
	if (spread == 0)
		prove(first == layout_position(&layout, tick, 0));
	if (layout_position_tick(&layout, last) < tick)
		prove(last < first);
}

/* Ids that are minted are not negative, and have a time. */
void
proof_minted(void)
{
	Layout layout = the_layout();
	int64  tick = nondet_int64();
	int64  id;

	assume(tick >= 0 && tick <= layout.last_mint_tick);
	id = layout_pack(&layout, tick, any_shard(&layout), 0);
	prove(id >= 0);
	prove(!TIMESTAMP_NOT_FINITE(layout_time_of_tick(&layout, tick)));
}

/* The parser's last step leaves a sound layout, whatever the fields. */
void
proof_place_fields(void)
{
	Layout		layout;
	LayoutError error;

	layout.nfields = nondet_int32();
	assume(layout.nfields >= 1 && layout.nfields <= LAYOUT_MAX_FIELDS);
	for (int i = 0; i < layout.nfields; i++)
	{
		/* what parse_field() lets pass */
		layout.fields[i].bits = nondet_int32();
		layout.fields[i].part = (LayoutPart) nondet_int32();
		assume(layout.fields[i].bits >= 1);
		assume(layout.fields[i].bits < ID_BITS);
		assume(layout.fields[i].part >= LAYOUT_TIMESTAMP);
		assume(layout.fields[i].part <= LAYOUT_SEQUENCE);
	}
	if (!place_fields(&layout, &error))
		return;
	prove(is_sound(&layout));
	prove(layout.fields[0].bits + layout.timestamp_shift <= ID_BITS);
}
