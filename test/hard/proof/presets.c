/*
 * presets.c -- print the presets as C initializers, for layout.c beside this
 *
 * They come out of the parser itself, so that what is proved is proved of what
 * the server uses.  Names of fields are left out: no arithmetic reads them.
 */
#include "../../../src/layout.c"
#include "../../../src/layout_text.c"

#include "../calendar.h"

int
main(void)
{
	for (int i = 0; i < layout_preset_count; i++)
	{
		const char *name = layout_presets[i].name;
		Layout		l;
		LayoutError error;

		if (!layout_parse(name, strlen(name), &l, &error))
			return 1;
		printf("{.epoch = " INT64_FORMAT ", .tick_us = " INT64_FORMAT
			   ", .nfields = %d, .timestamp_shift = %d, .shard_bits = %d"
			   ", .shard_shift = %d, .sequence_bits = %d"
			   ", .sequence_shift = %d, .last_mint_tick = " INT64_FORMAT
			   ", .first_tick = " INT64_FORMAT ", .last_tick = " INT64_FORMAT
			   "}, /* %s */\n",
			   l.epoch, l.tick_us, l.nfields, l.timestamp_shift, l.shard_bits,
			   l.shard_shift, l.sequence_bits, l.sequence_shift,
			   l.last_mint_tick, l.first_tick, l.last_tick, name);
	}
	return 0;
}
