/*-------------------------------------------------------------------------
 *
 * registry_answer_cases.c
 *	  Each row that a registry can answer, be it true or false.
 *
 * registry_answer_cases() calls the functions of registry_answer.c, with a result of our own
 * in the place of libpq's.  It compares each outcome with what the head of registry_answer.c
 * says, and returns how many it compared.
 *
 *-------------------------------------------------------------------------
 */
#include "registry_answer_system.h"

PG_MODULE_MAGIC;

/* --- States --------------------------------------------------------------- */

enum
{
	SHARD = 1,
	FROM = 2,
	UNTIL = 4,
	OTHER = 8
};

static const struct
{
	const char *name;
	bool		is_first;
	int			needs; /* these cells */
	int			may_have;
	int			refusal; /* its kind; -1: it is none */
} rules[] = {
	{"accepted", true, UNTIL | OTHER, 0, -1},
	{"clone", true, UNTIL | OTHER, 0, -1},
	{"closed", true, 0, UNTIL | OTHER, -1},
	{"held", false, SHARD | FROM | UNTIL, 0, -1},
	{"lost", false, OTHER, SHARD | FROM | UNTIL, -1},
	{"set_aside", false, 0, OTHER, -1},
	{"taken", false, SHARD | UNTIL | OTHER, 0, REFUSED_TAKEN},
	{"fenced", false, SHARD | UNTIL, 0, REFUSED_FENCED},
	{"reserved", false, SHARD | OTHER, UNTIL, REFUSED_RESERVED},
	{"exhausted", false, 0, UNTIL, REFUSED_EXHAUSTED},
	{"limited", false, OTHER, 0, REFUSED_LIMITED},
	{"", false, 0, 0, -1},
	{"Held", false, SHARD | FROM | UNTIL, 0, -1},
	{"held ", false, SHARD | FROM | UNTIL, 0, -1},
	{"hel", false, SHARD | FROM | UNTIL, 0, -1},
	{NULL, false, 0, 0, -1},
};

#define KNOWN_STATES 11

/* What stands in the answer after the row, which is a good one. */
static void
check_taken(int state, int has, bool is_later, const char *other)
{
	const char	  *name = rules[state].name;
	RegistryAnswer expected = {0};
	int32		   shard = has & SHARD ? 3 : ANY_SHARD;
	TimestampTz	   from = has & FROM ? UNIX(10) : DT_NOBEGIN;
	TimestampTz	   until = has & UNTIL ? UNIX(20) : DT_NOEND;

	other = has & OTHER ? other : "";
	expected.now = is_later ? UNIX(5) : until;
	if (strcmp(name, "clone") == 0)
	{
		expected.is_clone = true;
		strcpy(expected.clone, other);
	}
	else
		expected.registry = UINT64CONST(0x0123456789abcdef);
	if (rules[state].refusal >= 0)
	{
		expected.refusals = 1;
		expected.refusal[0] =
			(Refusal){rules[state].refusal, shard, until, ""};
		strcpy(expected.refusal[0].other, other);
	}
	else if (strcmp(name, "lost") == 0)
	{
		expected.losses = 1;
		expected.loss[0].lease = (Lease){from, until, shard, NOT_HELD};
		strcpy(expected.loss[0].what, other);
	}
	else if (strcmp(name, "held") == 0)
	{
		expected.held = 1;
		CHECK(is_lease(&answer.lease[0], shard, from, until, HELD_HERE));
	}
	CHECK(is_answered(&expected));
	if (strcmp(name, "set_aside") == 0 && !(has & OTHER))
		CHECK(answer.reserved == NULL);
	else
	{
		for (int i = 0; i <= 8; i++)
			CHECK(answer.reserved[i] ==
				  (strcmp(name, "set_aside") == 0 && (i == 1 || i == 4)));
	}
}

/* Each state with all sets of cells, as the first row, and behind each that can be first. */
static void
try_states(void)
{
	for (int i = 0; i < lengthof(rules) * 16 * 3; i++)
	{
		int			state = i / 48;
		int			has = i / 3 % 16;
		int			place = i % 3;
		int			needs = rules[state].needs;
		const char *name = rules[state].name;
		const char *other =
			name && strcmp(name, "set_aside") == 0 ? "1,4" : REGISTRY;
		bool stands = rules[state].is_first ? place == 0 : place == 1;
		bool has_cells = (has & needs) == needs &&
						 (has & ~(needs | rules[state].may_have)) == 0;
		const char *fault = state >= KNOWN_STATES ? "has no known state" :
							!stands	   ? "stands where its state cannot" :
							!has_cells ? "lacks a cell, or has one too many" :
										 NULL;
		bool		good;

		snprintf(what_is_tried, sizeof(what_is_tried), "%s %d %d", name, has,
				 place);
		if (place == 1)
			begin_accepted(8);
		else
			begin(8);
		if (place == 2)
			CHECK(row("clone", NULL, NULL, "5", "another"));
		good = row(name, has & SHARD ? "3" : NULL, has & FROM ? "10" : NULL,
				   has & UNTIL ? "20" : NULL, has & OTHER ? other : NULL);
		if (fault)
			CHECK(!good && refuses_row(place > 0 ? 2 : 1, fault));
		else if (strcmp(name, "closed") == 0)
			CHECK(!good &&
				  fails_with(REGISTRY_CLOSED, "the registry is not open"));
		else
		{
			CHECK(good);
			check_taken(state, has, place > 0, other);
			CHECK(registry_answer_end(&reader));
		}
	}
}

/* --- Cells ---------------------------------------------------------------- */

#define TOO_GREAT PG_INT64_MAX

static const struct
{
	const char *text;
	int64		number; /* -1: it is none */
} numbers[] = {
	{"0", 0},
	{"7", 7},
	{"8", 8},
	{"9", 9},
	{"1023", 1023},
	{"1024", 1024},
	{"0008", 8},
	{"4294967296", INT64CONST(4294967296)},
	{"4611686018427387903", INT64CONST(4611686018427387903)},
	{"4611686018427387904", TOO_GREAT},
	{"9223372036854775807", TOO_GREAT},
	{"9223372036854775808", TOO_GREAT},
	{"18446744073709551616", TOO_GREAT},
	{"99999999999999999999999", TOO_GREAT},
	{"", -1},
	{" 7", -1},
	{"7 ", -1},
	{"+7", -1},
	{"-7", -1},
	{"7a", -1},
	{"a7", -1},
	{"7.0", -1},
	{"0x7", -1},
	{"seven", -1},
};

static void
try_numbers(void)
{
	static const int32 last_shards[] = {0, 7, 8, 1023};

	for (int i = 0; i < lengthof(numbers) * lengthof(last_shards); i++)
	{
		const char	*text = numbers[i / lengthof(last_shards)].text;
		int64		 number = numbers[i / lengthof(last_shards)].number;
		int32		 last_shard = last_shards[i % lengthof(last_shards)];
		bool		 is_time = number >= 0 && number != TOO_GREAT;
		const Lease *lease = &answer.loss[0].lease;

		snprintf(what_is_tried, sizeof(what_is_tried), "%s", text);
		begin_accepted(last_shard);
		if (number >= 0 && number <= last_shard)
		{
			CHECK(row("lost", text, NULL, NULL, ""));
			CHECK(is_lease(lease, number, DT_NOBEGIN, DT_NOEND, NOT_HELD));
		}
		else
		{
			CHECK(!row("lost", text, NULL, NULL, ""));
			CHECK(refuses_row(2, "has no shard of the layout"));
		}
		for (int is_end = 0; is_end <= 1; is_end++)
		{
			const char *from = is_end ? NULL : text;
			const char *until = is_end ? text : NULL;

			begin_accepted(last_shard);
			CHECK(row("lost", NULL, from, until, "") == is_time);
			if (is_time)
				CHECK(is_lease(lease, ANY_SHARD,
							   is_end ? DT_NOBEGIN : UNIX(number),
							   is_end ? UNIX(number) : DT_NOEND, NOT_HELD));
			else
				CHECK(refuses_row(2, "has no time"));
		}
	}
}

/* The registry's number: each byte in each place, and other lengths. */
static void
try_registry(const char *text, uint64 number)
{
	begin(8);
	CHECK(row("accepted", NULL, NULL, "5", text) == (number != 0));
	CHECK(answer.registry == number);
	CHECK(number != 0 || refuses_row(1, "has no number of a registry"));
}

static void
try_registries(void)
{
	char text[] = REGISTRY "0";

	try_registry(text, 0);
	try_registry(REGISTRY "x", 0);
	try_registry("", 0);
	try_registry("0123456789abcde", 0);
	try_registry("0000000000000000", 0);
	try_registry("0000000000000001", 1);
	try_registry("ffffffffffffffff", PG_UINT64_MAX);
	for (int i = 0; i < 16 * 255; i++)
	{
		int			place = i % 16;
		char		byte = i / 16 + 1;
		const char *digit = strchr(REGISTRY, byte);
		uint64		number = 0;

		strcpy(text, REGISTRY);
		text[place] = byte;
		for (int n = 0; n < 16; n++)
			number =
				number << 4 | (n == place && digit ? digit - REGISTRY : n);
		try_registry(text, digit ? number : 0);
	}
}

/* A text as it may be shown, in a buffer of that size. */
static const char *
shown(const char *text, int size)
{
	static char buffer[1000];
	int			length = 0;

	for (; text[length] != '\0' && length < size - 1; length++)
	{
		unsigned char c = text[length];

		buffer[length] = c >= 32 && c <= 126 ? c : '?';
	}
	buffer[length] = '\0';
	return buffer;
}

static void
try_text(const char *text)
{
	const char *expected = shown(text, 160);

	begin_accepted(8);
	CHECK(row("taken", "3", NULL, "20", text) &&
		  strcmp(answer.refusal[0].other, expected) == 0);
	CHECK(row("lost", NULL, NULL, NULL, text) &&
		  strcmp(answer.loss[0].what, expected) == 0);
	begin(8);
	CHECK(row("clone", NULL, NULL, "5", text) &&
		  strcmp(answer.clone, expected) == 0);

	memset(&failure, 0xff, sizeof(failure));
	CHECK(!registry_fail(&failure, REGISTRY_AWAY, "%s", text));
	CHECK(fails_with(REGISTRY_AWAY, shown(text, 512)));

	/* a part of a hint is none */
	registry_hint(&failure, "%s", text);
	CHECK(strcmp(failure.hint, strlen(text) < 256 ? shown(text, 256) : "") ==
		  0);
	CHECK(strcmp(failure.text, shown(text, 512)) == 0);
}

static void
try_texts(void)
{
	for (int byte = 1; byte < 256; byte++)
		try_text((char[]){'a', byte, 'z', '\0'});
	for (int length = 0; length < 600; length++)
	{
		char text[600] = {0};

		memset(text, 'x', length);
		try_text(text);
	}
}

/* --- Shards, of one row and of others -------------------------------------- */

/* Three rows, in all ways: who tells twice of a shard, or of a lower one? */
static void
try_rows(void)
{
	static const char *const names[] = {"held",		"taken", "fenced",
										"reserved", "lost",	 "limited"};
	static const char *const shards[] = {"0", "1", "8"};

	for (int i = 0; i < 18 * 18 * 18; i++)
	{
		bool is_told[3] = {false};
		int	 highest = 0;
		int	 rest = i;

		begin_accepted(8);
		for (int number = 2; number <= 4; number++, rest /= 18)
		{
			int			kind = rest % 6;
			int			shard = rest / 6 % 3;
			const char *fault = kind < 4 && is_told[shard] ?
									"has a shard for the second time" :
								kind == 0 && shard < highest ?
									"is not in the order of shards" :
									NULL;
			bool good = row(names[kind], kind < 5 ? shards[shard] : NULL,
							kind == 0 ? "10" : NULL, kind < 3 ? "20" : NULL,
							kind == 0 || kind == 2 ? NULL : "other");

			CHECK(good == (fault == NULL));
			if (fault)
			{
				CHECK(refuses_row(number, fault));
				break;
			}
			if (kind < 4)
				is_told[shard] = true;
			if (kind == 0)
				highest = shard;
		}
	}
}

/* Leases of all shards, which take memory in proportion to them; each lasts. */
static void
try_leases(void)
{
	char shard[20];

	for (int difference = -1; difference <= 1; difference++)
	{
		char until[20];

		snprintf(until, sizeof(until), "%d", 10 + difference);
		begin_accepted(8);
		CHECK(row("held", "3", "10", until, NULL) == (difference > 0));
		CHECK(difference > 0 ||
			  refuses_row(2, "has a lease that ends before it begins"));
	}
	begin_accepted(1023);
	for (int i = 0; i <= 1023; i++)
	{
		snprintf(shard, sizeof(shard), "%d", i);
		CHECK(row("held", shard, "10", "20", NULL));
		CHECK(answer.held == i + 1);
		CHECK(reader.room >= answer.held);
		CHECK(reader.room <= Max(2 * answer.held, 16));
		CHECK(lease_bytes == reader.room * sizeof(Lease));
	}
	for (int i = 0; i <= 1023; i++)
		CHECK(is_lease(&answer.lease[i], i, UNIX(10), UNIX(20), HELD_HERE));
}

/* Each set of reserved shards, once. */
static void
try_reserved(void)
{
	static const char *const lists[] = {"9", "1,9", "x", "1,", "3-1", "-1"};

	for (int set = 0; set < 512; set++)
	{
		char list[20] = "";

		for (int i = 0; i <= 8; i++)
		{
			if (set >> i & 1)
				sprintf(list + strlen(list), "%s%d", list[0] ? "," : "", i);
		}
		begin_accepted(8);
		CHECK(row("set_aside", NULL, NULL, NULL, list));
		for (int i = 0; i <= 8; i++)
			CHECK(answer.reserved[i] == (set >> i & 1));
		CHECK(!row("set_aside", NULL, NULL, NULL, set & 1 ? NULL : list));
		CHECK(refuses_row(3, "tells reserved shards again"));
	}
	begin_accepted(8);
	CHECK(row("set_aside", NULL, NULL, NULL, NULL));
	CHECK(!row("set_aside", NULL, NULL, NULL, "1"));
	CHECK(refuses_row(3, "tells reserved shards again"));
	for (int i = 0; i < lengthof(lists); i++)
	{
		begin_accepted(8);
		CHECK(!row("set_aside", NULL, NULL, NULL, lists[i]));
		CHECK(refuses_row(2, "has no list of shards"));
	}
}

/* --- Results -------------------------------------------------------------- */

/* Two rows for each shard, and seven others. */
static void
try_most_rows(int32 last_shard)
{
	int shards = last_shard + 1;

	begin_accepted(last_shard);
	for (int number = 2; number <= 2 * shards + 7; number++)
		CHECK(row("lost", NULL, NULL, NULL, "all"));
	CHECK(!row("lost", NULL, NULL, NULL, "other"));
	CHECK(refuses_row(2 * shards + 8, "is one too many"));
}

/* So many tell enough; but what is not told is checked, too. */
static void
try_most_told(void)
{
	begin_accepted(1023);
	for (int i = 0; i < 100; i++)
	{
		char shard[20];

		snprintf(shard, sizeof(shard), "%d", i);
		CHECK(row("fenced", shard, NULL, "20", NULL));
		CHECK(row("lost", shard, NULL, NULL, shard));
		CHECK(answer.refusals == Min(i + 1, 64));
		CHECK(answer.losses == Min(i + 1, 16));
	}
	for (int i = 0; i < 64; i++)
		CHECK(answer.refusal[i].shard == i);
	for (int i = 0; i < 16; i++)
		CHECK(answer.loss[i].lease.shard == i &&
			  atoi(answer.loss[i].what) == i);
	CHECK(answer.refusal[64 - 1].kind == REFUSED_FENCED);
	CHECK(!row("fenced", "99", NULL, "20", NULL));
	CHECK(refuses_row(202, "has a shard for the second time"));
}

/* The leases of all shards are in the result. */
static void
begin_many(void)
{
	begin_accepted(MOST_ROWS - 1);
	for (int i = 0; i < MOST_ROWS; i++)
	{
		const char *lease[] = {"held", psprintf("%d", i), "10", "20", NULL};

		memcpy(cells[i], lease, sizeof(lease));
	}
}

/* However many rows come at a time; and the first one that is false ends it. */
static void
try_pieces(void)
{
	begin(8);
	row_count = 0;
	CHECK(registry_answer_read(&reader, NULL));
	CHECK(!registry_answer_end(&reader));
	CHECK(fails_with(REGISTRY_INVALID,
					 "the registry's answer is not valid: it has no row"));
	for (int size = 1; size <= MOST_ROWS; size++)
	{
		begin_many();
		for (; first_row < MOST_ROWS; first_row += size)
		{
			row_count = Min(size, MOST_ROWS - first_row);
			CHECK(registry_answer_read(&reader, NULL));
			CHECK(registry_answer_end(&reader));
		}
		CHECK(answer.held == MOST_ROWS);
		for (int i = 0; i < answer.held; i++)
			CHECK(answer.lease[i].shard == i);

		begin_many();
		row_count = MOST_ROWS;
		cells[size - 1][3] = "never";
		CHECK(!registry_answer_read(&reader, NULL));
		CHECK(refuses_row(size + 1, "has no time"));
		CHECK(answer.held == size - 1);
	}
}

static void
try_columns(void)
{
	char text[8002];

	for (int count = 0; count <= 10; count++)
	{
		begin(8);
		column_count = count;
		CHECK(row("accepted", NULL, NULL, "5", REGISTRY) == (count == 5));
		CHECK(count == 5 ||
			  fails_with(REGISTRY_INVALID,
						 psprintf("the registry's answer is not valid: it has "
								  "%d columns instead of 5",
								  count)));
	}
	for (int column = 0; column < 5; column++)
	{
		begin(8);
		binary_column = column;
		CHECK(!row("accepted", NULL, NULL, "5", REGISTRY));
		CHECK(refuses_row(1, "has a cell that is not a text"));
	}

	/* the longest cells: numbers may have as many zeros before them */
	for (int i = 0; i < 5 * 2; i++)
	{
		int			column = i / 2;
		int			length = 8000 + i % 2;
		const char *fault = i % 2		? "has a cell that is not a text" :
							column == 0 ? "has no known state" :
										  NULL;

		memset(text, '0', sizeof(text));
		strcpy(text + length - 1, "7");
		begin_accepted(8);
		CHECK(row(column == 0 ? text : "lost", column == 1 ? text : NULL,
				  column == 2 ? text : NULL, column == 3 ? text : NULL,
				  column == 4 ? text : "") == (fault == NULL));
		CHECK(fault == NULL || refuses_row(2, fault));
	}
}

PG_FUNCTION_INFO_V1(registry_answer_cases);
Datum
registry_answer_cases(PG_FUNCTION_ARGS)
{
	tried = 0;
	try_states();
	try_numbers();
	try_registries();
	try_texts();
	try_rows();
	try_leases();
	try_reserved();
	try_most_rows(0);
	try_most_rows(8);
	try_most_rows(1023);
	try_most_told();
	try_pieces();
	try_columns();
	PG_RETURN_INT64(tried);
}
