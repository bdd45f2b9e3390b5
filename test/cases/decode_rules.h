/*-------------------------------------------------------------------------
 *
 * decode_rules.h
 *	  What ids are, for decode_cases.c: sums of fields, each times a power of two, as the
 *	  specification of a layout says.
 *
 *-------------------------------------------------------------------------
 */
typedef struct Field
{
	const char *name;
	int			bits;
} Field;

/* A layout, as its specification says. */
typedef struct Rule
{
	const char *text; /* NULL: the server's */
	int64		epoch_ms;
	int64		tick_us;
	Field		fields[5];
} Rule;

#define SERVER_LAYOUT \
	"epoch=1500000000000 unit=7ms fields=timestamp:40,node:11,sequence:12"

/* Neighbours differ in length, or in one character. */
static const Rule rules[] = {
	{NULL,
	 1500000000000,
	 7000,
	 {{"timestamp", 40}, {"node", 11}, {"sequence", 12}}},
	{"twitter",
	 1288834974657,
	 1000,
	 {{"timestamp", 41}, {"datacenter", 5}, {"worker", 5}, {"sequence", 12}}},
	{"discord",
	 1420070400000,
	 1000,
	 {{"timestamp", 42}, {"worker", 5}, {"process", 5}, {"sequence", 12}}},
	{"sonyflake",
	 1409529600000,
	 10000,
	 {{"timestamp", 39}, {"sequence", 8}, {"machine", 16}}},
	{"sonyflake2",
	 1735689600000,
	 10000,
	 {{"timestamp", 39}, {"sequence", 8}, {"machine", 16}}},
	{"mastodon", 0, 1000, {{"timestamp", 48}, {"sequence", 16}}},
	{"epoch=1704067200000 unit=1s fields=timestamp:20,node:31,sequence:12",
	 1704067200000,
	 1000000,
	 {{"timestamp", 20}, {"node", 31}, {"sequence", 12}}},
	{"epoch=1704067201000 unit=1s fields=timestamp:20,node:12,sequence:31",
	 1704067201000,
	 1000000,
	 {{"timestamp", 20}, {"node", 12}, {"sequence", 31}}},
	/* its ids go beyond the times of the server */
	{"epoch=1704067200000 unit=1s fields=timestamp:20,shard:9,sequence:1",
	 1704067200000,
	 1000000,
	 {{"timestamp", 20}, {"shard", 9}, {"sequence", 1}}}};

static const char *const no_layouts[] = {"discorx", "", "sonyflake3"};

static const Rule *rule;

typedef enum Part
{
	TIMESTAMP,
	SHARD,
	SEQUENCE,
	END /* of the fields */
} Part;

static Part
part_of(const Field *field)
{
	return field->name == NULL					 ? END :
		   strcmp(field->name, "timestamp") == 0 ? TIMESTAMP :
		   strcmp(field->name, "sequence") == 0	 ? SEQUENCE :
												   SHARD;
}

/* The sum of the widths of a part's fields; of all fields below one. */
static int
bits_of(Part part)
{
	int bits = 0;

	for (const Field *field = rule->fields; field->name; field++)
		bits += part_of(field) == part ? field->bits : 0;
	return bits;
}

static int
bits_below(const Field *field)
{
	int bits = 0;

	while ((++field)->name)
		bits += field->bits;
	return bits;
}

/* How many times a power of two is in an id, rounded down. */
static int64
quotient(int64 id, int bits)
{
	while (bits-- > 0)
		id = id / 2 - (id % 2 < 0);
	return id;
}

static int64
value_of(const Field *field, int64 id)
{
	int64 value = quotient(id, bits_below(field));

	return part_of(field) == TIMESTAMP ?
			   value :
			   value - quotient(value, field->bits) *
						   (INT64CONST(1) << field->bits);
}

static int64
part_value(Part part, int64 id)
{
	int64 value = 0;

	for (const Field *field = rule->fields; field->name; field++)
		if (part_of(field) == part)
			value =
				value * (INT64CONST(1) << field->bits) + value_of(field, id);
	return value;
}

static int64
last_of(Part part)
{
	return (INT64CONST(1) << bits_of(part)) - 1;
}

/* A part as it stands in an id. */
static uint64
placed(Part part, int64 value)
{
	for (const Field *field = rule->fields; field->name; field++)
		if (part_of(field) == part && part_of(field + 1) != part)
			return (uint64) value << bits_below(field);
	return 0;
}

static TimestampTz
epoch(void)
{
	return rule->epoch_ms * 1000 + UNIX_EPOCH_US;
}

/* The time of a tick, which may be before all of the server's times, or after. */
static TimestampTz
time_of(int64 tick)
{
	TimestampTz time;

	if (pg_mul_s64_overflow(tick, rule->tick_us, &time) ||
		pg_add_s64_overflow(time, epoch(), &time) || !IS_VALID_TIMESTAMP(time))
		return tick < 0 ? DT_NOBEGIN : DT_NOEND;
	return time;
}
